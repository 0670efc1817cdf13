// SPDX-License-Identifier: Apache-2.0
// The part of a small world about what must be right in it, and the number of a state.
#include <algorithm>
#include <set>

#include "tests/engine/fingerprint.hpp"
#include "tests/engine/small_world.hpp"

namespace troupe {
namespace {

// Deaths until the request that kills is found: in company, alone, and alone again if it
// died alone before it was where it had been.
constexpr int kMostKilled = 3;

}  // namespace

void SmallWorld::take(const SubmitBatch& command) {
  for (const SequenceSlice& slice : command.batch->slices) {
    if (!clients_.at(slice.sequence - 1).is_there()) violate("a batch for a request that has ended");
    if (setup_->tickets.at(slice.sequence - 1)->model != command.model) violate("a batch for another model");
  }
  if (is_beside_streams(command)) violate("streams wait for two batches of encoders");
  check_masks(*command.batch);
  last_submitted_[command.worker] = command.model;
  machines_.at(command.model).submit(command);
}

// A guided request never draws without a mask, known or to come, but for free tokens.
void SmallWorld::check_masks(const Batch& batch) {
  for (std::size_t i = 0; i < batch.slices.size(); ++i) {
    const SequenceSlice& slice = batch.slices[i];
    const bool has_slot = !batch.awaited_masks.empty() && batch.awaited_masks[i];
    const std::size_t request = slice.sequence - 1;
    const bool is_guided = slice.draws() && setup_->settings.requests[request].is_guided;
    const bool is_free = clients_[request].num_tokens < setup_->num_free[request];
    if (is_free ? has_slot : is_guided != (has_slot || !slice.allowed.empty()))
      violate("a draw has no mask, or one it should not");
    if (has_slot && !setup_->settings.waits_for_masks) violate("a device that can't is to wait for a mask");
  }
}

// Is it a batch of an encoder behind another one, on a worker where streams run? One
// that is done counts, too, if a stream could have had the turn between them.
bool SmallWorld::is_beside_streams(const SubmitBatch& command) const {
  if (setup_->settings.itl_factor <= 1 || cores_.encoder(command.model) == nullptr) return false;
  bool has_streams = false, could_stream = false, has_inputs = false;
  for (ModelIndex index = 0; index < num_models(); ++index) {
    if (const EngineCore* core = cores_.generator(index)) {
      if (core->decode_time(command.worker).count() == 0) continue;
      has_streams = true;
      could_stream = could_stream || can_decode(command.worker, index);
    } else {
      has_inputs = has_inputs || !machines_[index].worker(command.worker).queue.empty();
    }
  }
  const bool is_next = cores_.encoder(last_submitted_[command.worker]) != nullptr;
  return has_streams && (has_inputs || (is_next && could_stream));
}

// Does a stream run there that has nothing in flight?
bool SmallWorld::can_decode(WorkerId id, ModelIndex index) const {
  const auto running = cores_.generator(index)->running();
  return machines_[index].worker(id).queue.empty() &&
         std::any_of(running.begin(), running.end(), [&](const Sequence* sequence) {
           return sequence->worker == id && !sequence->is_paused;
         });
}

void SmallWorld::take(const Emit& command) {
  using enum Client::State;
  const std::size_t request = command.sequence - 1;
  Client& client = clients_.at(request);
  const auto state = client.state;
  if (!client.is_there()) return violate("request " + std::to_string(request) + ": an output after its end");
  if (std::holds_alternative<Admitted>(command.output)) {
    if (state != kSent) violate("admitted twice");
    client.state = kAdmitted;
  } else if (std::holds_alternative<SequenceStarted>(command.output)) {
    if (state != kAdmitted && state != kStopped) violate("started out of order");
    client.state = kRunning;
  } else if (std::holds_alternative<SequenceStopped>(command.output)) {
    if (state != kRunning) violate("stopped out of order");
    client.state = kStopped;
  } else if (const auto* token = std::get_if<NewToken>(&command.output)) {
    take(client, request, *token);
  } else if (const auto* failed = std::get_if<SequenceFailed>(&command.output)) {
    take(client, request, *failed);
  } else if (const auto* encoded = std::get_if<Encoded>(&command.output)) {
    take(client, request, *encoded);
  }
}

void SmallWorld::take(Client& client, std::size_t request, const NewToken& token) {
  const auto& answer = setup_->answers[request];
  const std::string who = "request " + std::to_string(request) + ": ";
  if (client.state != Client::State::kRunning) violate(who + "a token while it does not run");
  if (client.num_tokens >= answer.size()) return violate(who + "more tokens than there are");
  if (token.token != answer[client.num_tokens])
    violate(who + "token " + std::to_string(client.num_tokens) + " is wrong");
  if (setup_->settings.requests[request].is_guided && client.num_allowed <= client.num_tokens)
    violate(who + "a token of which nothing was said");
  client.num_tokens += 1;
  if (client.num_tokens < setup_->num_free[request]) client.num_allowed += 1;
  const bool is_last = client.num_tokens == answer.size();
  if ((token.end != SequenceEnd::kNotYet) != is_last) violate(who + "the end is elsewhere");
  if (token.end != SequenceEnd::kNotYet) client.state = Client::State::kEnded;
}

void SmallWorld::take(Client& client, std::size_t request, const Encoded& encoded) {
  const std::string who = "request " + std::to_string(request) + ": ";
  if (client.state != Client::State::kRunning) violate(who + "a vector while it does not run");
  if (encoded.vector != setup_->vectors[request]) violate(who + "a wrong vector");
  client.state = Client::State::kEnded;
}

// The only failures that misfortunes explain. A request is blamed for the second death
// that it may have caused, and only if nothing else may have caused that one.
void SmallWorld::take(Client& client, std::size_t request, const SequenceFailed& failed) {
  using enum Client::State;
  const bool is_timeout = failed.failure == SequenceFailure::kQueueTimeout &&
                          now_ > std::chrono::seconds(30) &&
                          (client.state == kSent || client.state == kAdmitted);
  const bool is_killer = failed.failure == SequenceFailure::kKillsWorkers && client.num_accused >= 2 &&
                         accused_ == std::vector{request};
  if (is_killer && setup_->settings.budget.deaths + setup_->settings.budget.hangs == 0 &&
      !setup_->settings.requests[request].kills)
    violate("request " + std::to_string(request) + " is blamed for what another one did");
  if (!is_timeout && !is_killer)
    violate("request " + std::to_string(request) + " failed for no reason: " + failed.message);
  client.state = kEnded;
}

// Is the model's oldest batch one that kills its worker?
bool SmallWorld::kills(WorkerId id, ModelIndex index) const {
  const auto& queue = machines_[index].worker(id).queue;
  return !queue.empty() && std::any_of(queue.front().batch->slices.begin(), queue.front().batch->slices.end(),
                                       [&](const SequenceSlice& slice) {
                                         return setup_->settings.requests[slice.sequence - 1].kills;
                                       });
}

void SmallWorld::count_killed() {
  num_killed_ += 1;
  const auto& requests = setup_->settings.requests;
  const auto num_killers =
      std::count_if(requests.begin(), requests.end(), [](const auto& one) { return one.kills; });
  if (num_killed_ > kMostKilled * num_killers) violate("a request kills one worker after the other");
}

// The requests that were in a batch that the worker may die of.
std::vector<std::size_t> SmallWorld::accuse(SmallAction death) {
  std::set<std::size_t> accused;
  const bool says_model = death.kind == SmallAction::kDieOfDevice || death.kind == SmallAction::kDieOfBatch;
  for (ModelIndex index = 0; index < num_models(); ++index) {
    if (says_model && index != death.model) continue;
    for (const SubmitBatch& command : machines_[index].worker(death.of).queue) {
      for (const SequenceSlice& slice : command.batch->slices) accused.insert(slice.sequence - 1);
      if (death.kind == SmallAction::kDieOfBatch) break;
    }
  }
  for (const std::size_t request : accused) clients_[request].num_accused += 1;
  return {accused.begin(), accused.end()};
}

// The models that have something to do and nothing in flight. Empty: time stands still,
// and the models' turns are not told apart.
std::vector<bool> SmallWorld::could_submit() const {
  const auto& models = setup_->settings.models;
  if (std::all_of(models.begin(), models.end(),
                  [](const SmallModel& model) { return model.batch_time.count() == 0; }))
    return {};
  std::vector<bool> could(models.size());
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    const ModelIndex index = setup_->settings.requests[i].model;
    const bool has_work =
        clients_[i].is_there() && clients_[i].state != Client::State::kSent && !clients_[i].is_paused;
    could[index] = could[index] || (has_work && num_in_flight(index) == 0);
  }
  return could;
}

// Others get as much device time in front of a model that could submit as the model had
// itself in its last two batches in flight, and two batches whose cost was not known.
void SmallWorld::check_turns(const std::vector<bool>& could_submit,
                             const std::vector<ModelIndex>& submitted) {
  for (ModelIndex index = 0; index < could_submit.size(); ++index) {
    const bool has_own = std::find(submitted.begin(), submitted.end(), index) != submitted.end();
    if (!could_submit[index] || has_own) {
      passed_over_[index] = {};
      continue;
    }
    auto longest_other = std::chrono::nanoseconds(0);
    for (const ModelIndex other : submitted) {
      passed_over_[index] += model(other).batch_time;
      longest_other = std::max(longest_other, model(other).batch_time);
    }
    if (!submitted.empty() && passed_over_[index] > 2 * (model(index).batch_time + longest_other))
      violate("model " + std::to_string(index) + " could submit a batch and is passed over");
  }
}

void SmallWorld::check() {
  for (ModelIndex index = 0; index < num_models(); ++index) {
    if (!machines_[index].violation.empty()) violate(machines_[index].violation);
    if (const EngineCore* core = cores_.generator(index); core && !core->pages().is_consistent())
      violate("the page map is not consistent");
    if (const CellCore* core = cores_.cells(index); core && !core->is_consistent())
      violate("a row is lost, or has two owners");
  }
  for (WorkerId id = 0; id < num_workers(); ++id) check_worker(id);
  std::vector<std::size_t> num_running(num_models());
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    const AdmissionTicket& ticket = *setup_->tickets[i];
    if ((cores_.find(ticket.sequence) != nullptr) != clients_[i].is_there())
      violate("core and client disagree on whether request " + std::to_string(i) + " is there");
    const bool is_running = clients_[i].state == Client::State::kRunning;
    num_running[ticket.model] += is_running ? 1 : 0;
    const EngineCore* const core = cores_.generator(ticket.model);
    const Sequence* const sequence = core ? core->find(ticket.sequence) : nullptr;
    if (core && (sequence && sequence->phase == Sequence::Phase::kRunning) != is_running)
      violate("core and client disagree on whether request " + std::to_string(i) + " runs");
  }
  for (ModelIndex index = 0; index < num_models(); ++index) {
    if (const EncoderCore* core = cores_.encoder(index); core && core->num_running() != num_running[index])
      violate("core and clients disagree on which inputs are in a batch");
    if (const CellCore* core = cores_.cells(index); core && core->num_running() != num_running[index])
      violate("core and clients disagree on which graphs run");
  }
}

void SmallWorld::check_worker(WorkerId id) {
  std::size_t num_in_flight = 0;
  for (ModelIndex index = 0; index < num_models(); ++index) {
    num_in_flight += machines_[index].worker(id).queue.size();
    if (cores_.generator(index)) check_pages(id, index);
  }
  if (num_in_flight > kMaxInFlight) violate("too many batches in flight");
  if (num_in_flight != cores_.num_in_flight(id) &&
      setup_->settings.defect != SmallMachine::Defect::kNeverReports)
    violate("cores and devices disagree on what is in flight");
}

void SmallWorld::check_pages(WorkerId id, ModelIndex index) {
  const EngineCore& core = *cores_.generator(index);
  const SmallMachine::Worker& worker = machines_[index].worker(id);
  const PageCounts counts = core.pages().counts(id);
  if (counts.free + counts.cached + counts.running != counts.total) violate("pages are lost");
  std::set<SlotId> slots;
  std::set<PageId> pages;
  for (const Sequence* sequence : core.running()) {
    if (sequence->worker != id) continue;
    if (!worker.is_up) violate("a sequence runs on a worker that is down");
    if (!slots.insert(sequence->slot).second || sequence->slot >= machines_[index].sizes().num_slots)
      violate("a slot is not its sequence's own");
    const std::set<PageId> own(sequence->pages.begin(), sequence->pages.end());
    if (own.size() != sequence->pages.size()) violate("a sequence has a page twice");
    pages.insert(own.begin(), own.end());
  }
  const bool is_settled = worker.queue.empty();
  if (pages.size() > counts.running || (is_settled && pages.size() != counts.running))
    violate("worker " + std::to_string(id) + " has " + std::to_string(counts.running) +
            " pages held, its sequences " + std::to_string(pages.size()));
}

void SmallWorld::poison() {
  for (ModelIndex index = 0; index < num_models(); ++index) {
    const EngineCore* const core = cores_.generator(index);
    const CellCore* const cells = cores_.cells(index);
    for (WorkerId id = 0; id < num_workers(); ++id) {
      if (!machines_[index].worker(id).is_up) continue;
      if (core)
        machines_[index].poison(id, Fingerprint::free_pages(*core, id),
                                Fingerprint::pending_copies(*core, id));
      if (cells) machines_[index].poison_rows(id, Fingerprint::free_rows(*cells, id));
    }
  }
}

std::uint64_t SmallWorld::fingerprint() const {
  Fingerprint print;
  for (ModelIndex index = 0; index < num_models(); ++index) print.add(fingerprint(index));
  print.add_turns(cores_);
  print.add(left_.late_masks);
  print.add(static_cast<std::uint64_t>(now_.count()));
  print.add(last_epoch_);
  for (const std::uint8_t left : {left_.deaths, left_.cancels, left_.pauses, left_.damaged_loads,
                                  left_.failed_transfers, left_.long_waits, left_.forgets, left_.hangs})
    print.add(left);
  for (const Client& client : clients_)
    print.add(static_cast<std::uint64_t>(client.state) << 24U | std::uint64_t{client.num_accused} << 16U |
              std::uint64_t{client.num_allowed} << 32U | std::uint64_t{client.is_paused} << 8U |
              client.num_tokens);
  for (const auto time : passed_over_) print.add(static_cast<std::uint64_t>(time.count()));
  for (const ModelIndex index : last_submitted_) print.add(index);
  print.add(static_cast<std::uint64_t>(num_killed_));
  return print.value();
}

// Of host and disk, contents that nothing asks for any more count for nothing: a load
// or a read that finds another generation than its own is one as good as another.
std::uint64_t SmallWorld::fingerprint(ModelIndex index) const {
  Fingerprint print;
  if (const EngineCore* core = cores_.generator(index)) {
    print.add_core(*core);
  } else if (const CellCore* cells = cores_.cells(index)) {
    print.add_core(*cells);
  } else {
    print.add_core(*cores_.encoder(index));
  }
  const SmallMachine& machine = machines_[index];
  for (WorkerId id = 0; id < num_workers(); ++id) {
    const SmallMachine::Worker& worker = machine.worker(id);
    print.add(worker.epoch);
    print.add(worker.is_up);
    print.add_tokens(worker.rows);
    print.add_tokens(worker.slots);
    print.add_tokens(worker.pool.states);
    print.add_tokens(worker.pool.drawn);
    print.add(worker.queue.size());
    for (const SubmitBatch& command : worker.queue) {
      const Batch& batch = *command.batch;
      print.add_copies(batch.copies);
      print.add(batch.cell);
      print.add_tokens(batch.token_ids);
      print.add(batch.input_rows.size());
      for (const SlotId row : batch.input_rows) print.add(row);
      print.add(batch.page_table.size());
      for (const PageId page : batch.page_table) print.add(page);
      for (const auto& slot : batch.awaited_masks) {
        const auto handed = worker.handed.find(slot.get());
        print.add(slot == nullptr ? 0 : handed == worker.handed.end() ? 1 : handed->second ? 2 : 3);
      }
      for (const SequenceSlice& slice : batch.slices) {
        print.add(slice.sequence);
        print.add(slice.allowed.size());
        print.add(std::uint64_t{slice.slot} << 32U | slice.num_tokens);
        print.add(std::uint64_t{slice.context_length} << 32U | slice.first_page);
        print.add(std::uint64_t{slice.source_tokens} << 32U | slice.num_inputs);
        print.add(std::uint64_t{slice.num_pages} << 2U | std::uint64_t{slice.input_from_slot} << 1U |
                  std::uint64_t{slice.sample});
      }
    }
  }
  print.add(machine.transfers().size());
  for (const DiskTransfer& transfer : machine.transfers()) {
    print.add(static_cast<std::uint64_t>(transfer.direction));
    print.add(std::uint64_t{transfer.disk_page} << 32U | transfer.host_page);
    print.add_generation(transfer.identity.generation);
  }
  for (const auto* contents : {&machine.host(), &machine.disk()})
    for (const SmallMachine::Contents& page : *contents) {
      const bool is_wanted = print.is_known_generation(page.generation);
      print.add(is_wanted);
      if (!is_wanted) continue;
      print.add_generation(page.generation);
      print.add_tokens(page.tokens);
    }
  return print.value();
}

void SmallWorld::violate(const std::string& text) {
  if (violation_.empty()) violation_ = text;
}

}  // namespace troupe
