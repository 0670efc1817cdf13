// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/core_world.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

namespace troupe {

namespace {

// The mask of one token: the one behind so many generated ones.
std::shared_ptr<const TokenMask> mask_of(std::uint32_t num_generated) {
  const std::size_t id = 100 + num_generated;
  TokenMask mask(mask_words(256));  // the devices know more
  mask[id / 32] = 1U << (id % 32);
  return std::make_shared<const TokenMask>(std::move(mask));
}

// A mask of so many tokens from the first on.
std::shared_ptr<const TokenMask> mask_up_to(std::uint32_t number) {
  TokenMask mask(mask_words(256));
  for (std::size_t id = 100; id < 100 + number; ++id) mask[id / 32] |= 1U << (id % 32);
  return std::make_shared<const TokenMask>(std::move(mask));
}

DeviceDescription device_of(std::uint32_t num_pages, std::uint32_t num_host_pages) {
  return {.name = "test",
          .page_size = CoreWorld::kPageSize,
          .num_pages = num_pages,
          .num_host_pages = num_host_pages,
          .num_slots = 4,
          .max_batch_tokens = 32,
          .context_length = 60,
          .vocabulary_size = 1000};
}

}  // namespace

CoreOptions CoreWorld::small_options() {
  CoreOptions options;
  options.serving.max_batch_tokens = 32;
  options.serving.max_batch_sequences = 4;
  options.serving.prefill_chunk = 16;
  options.serving.itl_factor = 0;
  options.serving.max_waiting = 8;
  options.serving.look_ahead_pages = 0;
  options.serving.keep_free = 0;
  return options;
}

CoreWorld::CoreWorld(CoreOptions options) : core_(std::move(options)) {}

void CoreWorld::hand(const Event& event) {
  Commands commands;
  core_.on(event, EngineCore::TimePoint(now), commands);
  for (const Command& command : commands) {
    if (const auto* output = std::get_if<Emit>(&command)) take(*output);
    if (const auto* batch = std::get_if<SubmitBatch>(&command)) in_flight_[batch->worker].push_back(*batch);
    if (const auto* question = std::get_if<ForecastLength>(&command))
      asked.insert(asked.end(), question->questions.begin(), question->questions.end());
    if (const auto* length = std::get_if<LearnLength>(&command)) learnt.push_back(*length);
    if (const auto* done = std::get_if<Flushed>(&command)) flushed.push_back(done->number);
    if (const auto* mask = std::get_if<HandMask>(&command)) {
      handed.push_back(mask->mask ? *mask->mask : TokenMask{});
      masks_.emplace(mask->slot, mask->mask);
    }
  }
}

void CoreWorld::take(const Emit& command) {
  Answer& answer = answers_[command.sequence];
  if (const auto* started = std::get_if<SequenceStarted>(&command.output)) answer.started.push_back(*started);
  if (const auto* stopped = std::get_if<SequenceStopped>(&command.output))
    answer.stopped.push_back(stopped->reason);
  if (const auto* changed = std::get_if<ReservationChanged>(&command.output))
    answer.reserved.push_back(*changed);
  if (const auto* token = std::get_if<NewToken>(&command.output)) {
    if (token->token >= 0) answer.tokens.push_back(token->token);
    answer.has_ended = token->end != SequenceEnd::kNotYet;
    answer.num_batches = token->batches.num_batches;
  }
  if (const auto* failed = std::get_if<SequenceFailed>(&command.output)) {
    answer.failed = *failed;
    answer.has_ended = true;
  }
}

void CoreWorld::start_worker(WorkerId worker, std::uint32_t num_pages, std::uint32_t num_host_pages) {
  start_worker(worker, device_of(num_pages, num_host_pages));
}

void CoreWorld::start_waiting_worker(WorkerId worker) {
  DeviceDescription device = device_of(16, 0);
  device.waits_for_masks = true;
  start_worker(worker, device);
}

void CoreWorld::start_handing_worker(WorkerId worker, std::uint32_t num_pages) {
  DeviceDescription device = device_of(num_pages, 0);
  device.context_length = (num_pages - 1) * kPageSize;
  device.hands_out_states = true;
  start_worker(worker, device);
}

void CoreWorld::start_worker(WorkerId worker, const DeviceDescription& device) {
  epochs_[worker] = ++last_epoch_;
  hand(WorkerReady{.worker = worker, .epoch = last_epoch_, .description = device});
}

void CoreWorld::lose_worker(WorkerId worker) {
  in_flight_[worker].clear();
  hand(WorkerLost{.worker = worker, .epoch = epochs_[worker]});
}

SequenceId CoreWorld::admit(std::vector<std::int32_t> prompt, std::uint32_t max_tokens) {
  AdmissionTicket ticket;
  ticket.prompt = std::move(prompt);
  ticket.max_tokens = max_tokens;
  return admit(std::move(ticket));
}

SequenceId CoreWorld::admit_guided(std::vector<std::int32_t> prompt, std::uint32_t max_tokens,
                                   std::int32_t end_token) {
  AdmissionTicket ticket;
  ticket.prompt = std::move(prompt);
  ticket.max_tokens = max_tokens;
  ticket.allowed_first = mask_of(0);
  if (end_token >= 0) ticket.end_tokens = {end_token};
  return admit(std::move(ticket));
}

SequenceId CoreWorld::admit_drawn(std::uint32_t num_drawn, std::uint32_t max_tokens, bool guided) {
  AdmissionTicket ticket;
  ticket.prompt = counting(1, 5);
  ticket.drawn = counting(100, num_drawn);
  ticket.max_tokens = max_tokens;
  if (guided) ticket.allowed_first = mask_of(0);
  return admit(std::move(ticket));
}

SequenceId CoreWorld::admit_step(std::uint32_t num_drawn, bool has_begun) {
  AdmissionTicket ticket;
  ticket.prompt = counting(1, 5);
  ticket.drawn = counting(100, num_drawn);
  ticket.max_tokens = num_drawn + 1;
  ticket.is_search_step = true;
  ticket.has_begun = has_begun;
  return admit(std::move(ticket));
}

SequenceId CoreWorld::admit_known(std::vector<std::int32_t> prompt, std::uint32_t max_tokens,
                                  std::uint32_t answer_tokens) {
  AdmissionTicket ticket;
  ticket.prompt = std::move(prompt);
  ticket.max_tokens = max_tokens;
  ticket.answer_tokens = answer_tokens;
  return admit(std::move(ticket));
}

SequenceId CoreWorld::admit_foretold(std::vector<std::int32_t> prompt, std::uint32_t max_tokens,
                                     std::uint32_t foretold_tokens) {
  AdmissionTicket ticket;
  ticket.prompt = std::move(prompt);
  ticket.max_tokens = max_tokens;
  ticket.foretold_tokens = foretold_tokens;
  return admit(std::move(ticket));
}

void CoreWorld::forecast(SequenceId id, std::uint32_t reserved_tokens, std::uint32_t likely_tokens) {
  hand(LengthForecast{
      .answers = {{.sequence = id, .reserved_tokens = reserved_tokens, .likely_tokens = likely_tokens}}});
}

void CoreWorld::refine(SequenceId id, std::uint32_t reserved_tokens) {
  hand(LengthForecast{.answers = {{.sequence = id, .reserved_tokens = reserved_tokens, .is_refined = true}}});
}

void CoreWorld::look(SequenceId id, std::uint32_t reserved_tokens, std::uint32_t num_generated) {
  hand(LengthForecast{.answers = {{.sequence = id,
                                   .reserved_tokens = reserved_tokens,
                                   .is_refined = true,
                                   .num_generated = num_generated}}});
}

SequenceId CoreWorld::admit(AdmissionTicket ticket) {
  ticket.sequence = ++last_sequence_;
  hand(Admit{.ticket = std::make_shared<const AdmissionTicket>(std::move(ticket))});
  return last_sequence_;
}

void CoreWorld::allow(SequenceId id, std::uint32_t num_generated) {
  hand(AllowTokens{.sequence = id, .num_generated = num_generated, .allowed = mask_of(num_generated)});
}

SequenceId CoreWorld::admit_free(std::vector<std::int32_t> prompt, std::uint32_t max_tokens,
                                 std::uint32_t num_free) {
  AdmissionTicket ticket;
  ticket.prompt = std::move(prompt);
  ticket.max_tokens = max_tokens;
  ticket.allowed_first = mask_up_to(num_free + 1);
  ticket.free_first = mask_up_to(num_free);
  return admit(std::move(ticket));
}

void CoreWorld::allow_free(SequenceId id, std::uint32_t num_generated, std::uint32_t num_free) {
  hand(AllowTokens{.sequence = id,
                   .num_generated = num_generated,
                   .allowed = mask_up_to(num_free + 1),
                   .free = mask_up_to(num_free)});
}

void CoreWorld::finish_batch(WorkerId worker) {
  const SubmitBatch batch = std::move(in_flight_[worker].front());
  in_flight_[worker].pop_front();
  BatchDone done{.worker = worker, .epoch = batch.epoch, .result = {}};
  done.result.batch_id = batch.batch_id;
  for (std::size_t i = 0; i < batch.batch->slices.size(); ++i) {
    done.result.tokens.push_back(draw(*batch.batch, i));
    done.result.mask_wait_nanoseconds.push_back(mask_wait.count());
    const SequenceSlice& slice = batch.batch->slices[i];
    if (!slice.wants_state) continue;
    for (const float number : {static_cast<float>(slice.sequence), 0.5F})
      done.result.states.push_back(number);
  }
  hand(done);
}

std::int32_t CoreWorld::draw(const Batch& batch, std::size_t index) {
  const SequenceSlice& slice = batch.slices[index];
  if (!slice.sample) return -1;
  if (slice.input_from_slot && has_no_token_[slice.sequence]) return -1;
  const bool is_awaited = !batch.awaited_masks.empty() && batch.awaited_masks[index];
  has_no_token_[slice.sequence] = is_awaited && !mask_in(batch.awaited_masks[index]);
  if (has_no_token_[slice.sequence]) return kNoMask;
  const std::int32_t next = 100 + static_cast<std::int32_t>(answers_[slice.sequence].tokens.size());
  const auto other = drawn_next.find(slice.sequence);
  if (other == drawn_next.end() || !slice.allowed.empty()) return next;
  const std::int32_t token = other->second;
  drawn_next.erase(other);
  return token;
}

std::shared_ptr<const TokenMask> CoreWorld::mask_in(const std::shared_ptr<MaskSlot>& slot) const {
  const auto found = masks_.find(slot);
  return found == masks_.end() ? nullptr : found->second;
}

std::int32_t CoreWorld::allowed_token(const Batch& batch, SequenceId id) const {
  for (std::size_t i = 0; i < batch.slices.size(); ++i) {
    if (batch.slices[i].sequence != id) continue;
    TokenMask mask = batch.slices[i].allowed;
    if (mask.empty() && !batch.awaited_masks.empty() && batch.awaited_masks[i])
      if (const auto found = mask_in(batch.awaited_masks[i])) mask = *found;
    for (std::size_t token = 0; token < mask.size() * 32; ++token)
      if (has_token(mask, token)) return static_cast<std::int32_t>(token);
  }
  return -1;
}

void CoreWorld::finish_all() {
  for (bool is_busy = true; is_busy;) {
    is_busy = false;
    for (auto& [worker, batches] : in_flight_) {
      if (batches.empty()) continue;
      is_busy = true;
      finish_batch(worker);
    }
  }
}

bool CoreWorld::is_in_flight(SequenceId id, WorkerId worker) {
  const auto has_it = [id](const SubmitBatch& batch) {
    return std::any_of(batch.batch->slices.begin(), batch.batch->slices.end(),
                       [id](const SequenceSlice& slice) { return slice.sequence == id; });
  };
  return std::any_of(in_flight_[worker].begin(), in_flight_[worker].end(), has_it);
}

std::vector<std::int32_t> counting(std::int32_t first, std::size_t count) {
  std::vector<std::int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

}  // namespace troupe
