// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/fingerprint.hpp"

#include <algorithm>
#include <set>

namespace troupe {

void Fingerprint::add(std::uint64_t value) {
  hash_ = (hash_ ^ value) * 0x9E3779B97F4A7C15U;
  hash_ ^= hash_ >> 32U;
  hash_ *= 0xD6E8FEB86659FD93U;
  hash_ ^= hash_ >> 29U;
}

void Fingerprint::add_tokens(std::span<const std::int32_t> tokens) {
  add(tokens.size());
  for (const std::int32_t token : tokens) add(static_cast<std::uint32_t>(token));
}

std::uint32_t Fingerprint::name(Names& names, std::uint64_t number) {
  return names.try_emplace(number, static_cast<std::uint32_t>(names.size() + 1)).first->second;
}

// 0 is no generation.
void Fingerprint::add_generation(std::uint64_t generation) {
  add(generation == 0 ? 0 : name(generations_, generation));
}

void Fingerprint::add_copies(std::span<const PageCopy> copies) {
  add(copies.size());
  for (const PageCopy& copy : copies) {
    add(static_cast<std::uint64_t>(copy.direction) << 48U | std::uint64_t{copy.device_page} << 32U |
        std::uint64_t{copy.host_page} << 16U | copy.from_page);
    add_generation(copy.generation);
  }
}

std::span<const std::uint32_t> Fingerprint::free_pages(const EngineCore& core, WorkerId worker) {
  return core.pages_.pages_->places_.tiers().device(worker).free_pages();
}

std::span<const PageCopy> Fingerprint::pending_copies(const EngineCore& core, WorkerId worker) {
  return core.pages_.workers_.at(worker).copies;
}

std::span<const SlotId> Fingerprint::free_rows(const CellCore& core, WorkerId worker) {
  return core.workers_[worker].free_rows;
}

// Sequences by arrival; whatever names one does so by its id.
void Fingerprint::add_core(const EngineCore& core) {
  if (core.pages_.is_made()) name_leases(*core.pages_.pages_);
  std::vector<const Sequence*> sequences;
  for (const Sequence& sequence : core.sequences_)
    if (sequence.id != 0) sequences.push_back(&sequence);
  std::sort(sequences.begin(), sequences.end(),
            [](const Sequence* a, const Sequence* b) { return a->arrival < b->arrival; });
  add(sequences.size());
  std::set<std::uint64_t> last_batches{core.last_batch_};  // which the next to start will have
  for (const Sequence* sequence : sequences)
    if (sequence->phase == Sequence::Phase::kRunning) last_batches.insert(sequence->last_batch);
  for (const Sequence* sequence : sequences) {
    add_sequence(core, *sequence);
    if (sequence->phase == Sequence::Phase::kRunning)
      add(static_cast<std::uint64_t>(
          std::distance(last_batches.begin(), last_batches.find(sequence->last_batch))));
  }
  add(last_batches.size());
  add(core.waiting_.size());
  for (const auto& [arrival, index] : core.waiting_) add(core.sequences_[index].id);
  std::map<std::uint32_t, std::uint32_t> departed;  // steps in flight, by name
  for (const auto& [lease, steps] : core.departed_)
    departed.emplace(name(leases_, lease), steps.num_in_flight);
  add(departed.size());
  for (const auto& [name, num_in_flight] : departed) add(std::uint64_t{name} << 32U | num_in_flight);
  add(core.forgets_.size());
  for (const auto& [pages, last_lease] : core.forgets_) {
    std::set<std::uint32_t> awaited;  // by name
    for (const auto& [lease, steps] : core.departed_)
      if (lease <= last_lease) awaited.insert(name(leases_, lease));
    add(awaited.size());
    for (const std::uint32_t lease : awaited) add(lease);
    add(pages.num_kept);
    add(pages.tokens->size());
    for (const std::int32_t token : *pages.tokens) add(static_cast<std::uint64_t>(token));
  }
  add(core.workers_.size());
  for (const EngineCore::Worker& worker : core.workers_) add_worker(core, worker);
  add_flows(core.flows_, [&core](std::uint64_t arrival) {
    const auto its = std::find_if(core.sequences_.begin(), core.sequences_.end(), [&](const auto& sequence) {
      return sequence.id != 0 && sequence.arrival == arrival;
    });
    return its->id;
  });
  add_suspects(core.suspects_);
  add(core.history_.sorted().size());
  for (const std::uint32_t length : core.history_.sorted()) add(length);
  add(core.num_learnt_);
  add(core.flushes_.size());
  add(core.limits_.has_value());
  add(core.idle_since_.has_value());
  if (core.idle_since_) add_time(*core.idle_since_);
  add_watch(core.idle_time_);
  add(core.is_idle_too_long_);
  add(core.is_given_up_);
  add_pages(core.pages_, core);
}

// Inputs by arrival; whatever names one does so by its id. One that has left a batch in
// flight is none.
void Fingerprint::add_core(const EncoderCore& core) {
  const auto id_of = [&core](std::uint64_t arrival) {
    const auto found = core.passes_.find(arrival);
    return found == core.passes_.end() ? SequenceId{0} : found->second.ticket->sequence;
  };
  add(core.passes_.size());
  for (const auto& [arrival, pass] : core.passes_) {
    add(pass.ticket->sequence);
    add(static_cast<std::uint64_t>(
        std::distance(core.flows_.flows_.begin(), core.flows_.flows_.find(pass.flow))));
    if (pass.is_new()) add_time(pass.arrived);
    add(std::uint64_t{pass.is_admitted} | std::uint64_t{pass.has_started} << 1U);
    const auto place = core.in_batches_.find(arrival);
    add(place == core.in_batches_.end() ? 0 : place->second + 1);
  }
  add(core.workers_.size());
  for (const EncoderCore::Worker& worker : core.workers_) {
    add_health(worker.health);
    const PassTime& pass = worker.pass_time;
    add(pass.num_known_);
    for (const double number : {pass.one_, pass.token_, pass.token_token_, pass.time_, pass.token_time_})
      add_number(number);
    add(worker.in_flight.size());
    for (const EncoderCore::Flight& flight : worker.in_flight) {
      add_time(flight.submitted);
      add(flight.size.num_computed());
      add(flight.passes.size());
      for (const std::uint64_t arrival : flight.passes) add(id_of(arrival));
    }
  }
  add(core.costs_.num_learnt());
  add(core.plan_.size());
  for (const auto& batch : core.plan_) {
    add(batch.size());
    for (const std::uint64_t arrival : batch) add(id_of(arrival));
  }
  add(core.timer_.has_value());
  if (core.timer_) add_time(*core.timer_);
  add_flows(core.flows_, id_of);
  add_suspects(core.suspects_);
  add(core.num_new_);
  add(core.flushes_.size());
  add(core.limits_.has_value());
  add(core.is_given_up_);
}

// Requests by arrival; what was in flight for one that has left, or was interrupted since, is void.
// Batches of whole graphs and of single ones are played in no small world: what only they decide by
// (buckets, padding, the batch that a request was in last) is left out.
void Fingerprint::add_core(const CellCore& core) {
  add(core.runs_.size());
  for (const auto& [arrival, run] : core.runs_) add_run(core, run);
  add(core.workers_.size());
  for (const CellCore::Worker& worker : core.workers_) add_worker(core, worker);
  add_flows(core.flows_, [&core](std::uint64_t arrival) { return core.runs_.at(arrival).ticket->sequence; });
  add_suspects(core.suspects_);
  add(core.num_rows_);
  add(core.num_new_);
  add(core.flushes_.size());
  add(core.limits_.has_value());
  add(core.is_given_up_);
}

void Fingerprint::add_run(const CellCore& core, const CellCore::Run& run) {
  add(run.ticket->sequence);
  add(static_cast<std::uint64_t>(run.phase));
  add(static_cast<std::uint64_t>(
      std::distance(core.flows_.flows_.begin(), core.flows_.flows_.find(run.flow))));
  if (run.is_new()) add_time(run.arrived);
  add(std::uint64_t{run.is_checked} | std::uint64_t{run.is_paused} << 1U |
      std::uint64_t{run.has_started} << 2U);
  if (run.is_checked) add_progress(run.progress);
  add(run.results.size());
  for (const float number : run.results) add_number(number);
  if (run.phase == CellCore::Phase::kRunning) add(run.worker);
  add(run.rows.size());
  for (const SlotId row : run.rows) add(row);
}

void Fingerprint::add_progress(const GraphProgress& progress) {
  for (const GraphProgress::ReadyNodes& ready : progress.ready_) {
    add(ready.nodes.size() - ready.num_taken);
    for (std::size_t i = ready.num_taken; i < ready.nodes.size(); ++i) add(ready.nodes[i]);
  }
  for (const std::uint32_t number : progress.num_awaited_) add(number);
  add_tokens(progress.tokens_);
  for (const std::uint32_t number : {progress.num_pending_, progress.num_submitted_, progress.num_completed_,
                                     progress.num_fixed_, progress.num_grown_})
    add(number);
  add(progress.is_permitted_);
}

void Fingerprint::add_worker(const CellCore& core, const CellCore::Worker& worker) {
  add_health(worker.health);
  add(worker.running.size());
  for (const std::uint64_t arrival : worker.running) add(core.runs_.at(arrival).ticket->sequence);
  add(worker.free_rows.size());
  for (const SlotId row : worker.free_rows) add(row);
  add(worker.in_flight.size());
  for (const CellCore::Flight& flight : worker.in_flight) add_flight(core, flight);
  for (const std::uint32_t number : worker.turns.num_passed_over_) add(number);
  add(worker.turns.last_ ? *worker.turns.last_ + 1 : 0);
  add(worker.turns.num_in_row_);
}

void Fingerprint::add_flight(const CellCore& core, const CellCore::Flight& flight) {
  add_time(flight.submitted);
  add(flight.cell);
  add(flight.num_nodes);
  add(flight.entries.size());
  for (const CellCore::FlightEntry& entry : flight.entries) {
    const auto run = core.runs_.find(entry.run);
    add(entry.id);
    add(std::uint64_t{run != core.runs_.end()} << 1U |
        std::uint64_t{run != core.runs_.end() && run->second.number == entry.number});
    add(entry.ordinal);
    add(std::uint64_t{entry.step.node} << 32U | static_cast<std::uint32_t>(entry.step.token));
    add(std::uint64_t{entry.step.input_from_slot} << 32U | (entry.step.draw ? *entry.step.draw + 1 : 0));
  }
}

// Tags count by how far they are from the virtual time; one that is behind it and will
// not be corrected any more is one as good as another.
void Fingerprint::add_turns(const ModelCores& cores) {
  add(cores.workers_.size());
  for (const ModelCores::Worker& worker : cores.workers_) {
    add(worker.epoch);
    add(worker.last_submitted);
    add(worker.last_held_up);
    add_duration(worker.credit.left_);
    add(worker.in_flight.size());
    for (const ModelIndex model : worker.in_flight) add(model);
    for (const ModelTurns::Model& model : worker.turns.models_) {
      const auto ahead = model.finish_tag - worker.turns.virtual_time_;
      add_duration(model.charged.empty() ? std::max(ahead, ModelTurns::Time(0)) : ahead);
      add_duration(model.usual);
      add(model.charged.size());
      for (const auto charged : model.charged) add_duration(charged);
    }
  }
  add(cores.flushes_.size());
  for (const auto& [number, num_left] : cores.flushes_) add(num_left);
}

// By worker, and in the order in which they were given: so are they taken back when the
// worker is lost.
void Fingerprint::name_leases(const PageCache& cache) {
  std::set<std::pair<WorkerIndex, LeaseId>> leases;
  for (const auto& [id, lease] : cache.leases_.all()) leases.emplace(lease->worker, id);
  for (const auto& [worker, id] : leases) name(leases_, id);
}

void Fingerprint::add_sequence(const EngineCore& core, const Sequence& sequence) {
  add(sequence.id);
  add(static_cast<std::uint64_t>(sequence.phase));
  for (const bool flag :
       {sequence.is_checked, sequence.is_paused, sequence.has_started, sequence.has_fetched,
        sequence.has_progressed, sequence.is_only_scored, sequence.asked == TimePoint{}, sequence.is_guided,
        sequence.is_guide_slow, sequence.allowed == nullptr, sequence.free == nullptr, sequence.draws_again})
    add(flag);
  if (sequence.is_guided) {
    add_time(sequence.drawn);
    add_duration(sequence.guide_debt);
    add(sequence.mask_slots.size());
    for (const auto& slot : sequence.mask_slots) add(slot != nullptr);
  }
  add_progress(sequence.progress);
  for (const std::uint32_t number :
       {sequence.length.max_tokens, sequence.length.ends_at, sequence.length.foretold, sequence.length.likely,
        sequence.length.reserved, sequence.length.refused, sequence.length.report_at})
    add(number);
  add(std::uint64_t{sequence.length.is_awaited} | std::uint64_t{sequence.length.has_given_way} << 1U |
      std::uint64_t{sequence.length.is_whole} << 2U);
  add_tokens(sequence.tokens);
  add(sequence.cached_tokens);
  add(sequence.num_given_up);
  add(sequence.fetched_tokens);
  if (!sequence.has_started) add_time(sequence.arrived);
  // Flows by their order, which is that of their ids.
  add(static_cast<std::uint64_t>(
      std::distance(core.flows_.flows_.begin(), core.flows_.flows_.find(sequence.flow))));
  if (sequence.phase != Sequence::Phase::kRunning) return;
  add(sequence.num_known_at_start);
  add(sequence.num_found_at_start);
  add(sequence.worker);
  add(sequence.slot);
  add(name(leases_, sequence.lease));
  add(sequence.pages.size());
  for (const PageId page : sequence.pages) add(page);
}

void Fingerprint::add_progress(const SequenceProgress& progress) {
  for (const std::uint32_t number :
       {progress.num_known_, progress.max_total_, std::uint32_t{progress.max_pending_}, progress.num_source_,
        progress.num_submitted_, progress.num_computed_, progress.num_pending_, progress.num_in_flight_,
        progress.score_end_, progress.num_scored_})
    add(number);
  add(progress.draws_by_permission_);
  add(progress.may_draw_);
  add(progress.holes_.size());
  for (const TokenRange& hole : progress.holes_) add(std::uint64_t{hole.begin} << 32U | hole.end);
}

void Fingerprint::add_worker(const EngineCore& core, const EngineCore::Worker& worker) {
  add_health(worker.health);
  add_pace(worker.pace);
  add(worker.running.size());
  for (const EngineCore::SequenceIndex index : worker.running) add(core.sequences_[index].id);
  add(worker.free_slots.size());
  for (const SlotId slot : worker.free_slots) add(slot);
  add(worker.in_flight.size());
  for (const EngineCore::Flight& flight : worker.in_flight) add_flight(core, flight);
  add(worker.is_admission_blocked);
  add(worker.is_extension_blocked);
  add(worker.has_read_sources);
}

void Fingerprint::add_health(const WorkerHealth& health) {
  add(health.epoch);
  add(health.is_up);
  add(static_cast<std::uint64_t>(health.trouble));
  add_time(health.last_done);
  add_time(health.lost);
  add_watch(health.watch.silence_);
  add_number(health.watch.longest_nanoseconds_);
  add(health.watch.most_tokens_);
  add(health.watch.has_finished_one_);
  add_watch(health.restart_time);
}

void Fingerprint::add_pace(const PrefillPace& pace) {
  for (const double number : {pace.decode_time_, pace.tokens_tokens_, pace.tokens_pairs_, pace.pairs_pairs_,
                              pace.tokens_time_, pace.pairs_time_})
    add_number(number);
}

// An entry counts for the run it is of, or for the lease of one that is over.
void Fingerprint::add_flight(const EngineCore& core, const EngineCore::Flight& flight) {
  add_time(flight.submitted);
  add(flight.shape.num_tokens);
  add(flight.num_decodes);
  add(flight.entries.size());
  for (const EngineCore::FlightEntry& entry : flight.entries) {
    const bool is_current = core.sequences_[entry.sequence].run == entry.run;
    add(entry.id);
    add(is_current);
    add(is_current && core.sequences_[entry.sequence].attempt != entry.attempt);
    add(entry.wants_state);
    add(is_current || !core.departed_.contains(entry.lease) ? 0 : name(leases_, entry.lease));
    add(std::uint64_t{entry.step.num_tokens} << 32U | entry.step.context_length);
    add(std::uint64_t{entry.step.input_from_slot} | std::uint64_t{entry.step.sample} << 1U |
        std::uint64_t{entry.step.fills_hole} << 2U | std::uint64_t{entry.step.scores} << 3U);
  }
  add_copies(flight.copies);
}

template <class IdOf>
void Fingerprint::add_flows(const FairQueue& flows, const IdOf& id_of) {
  add(flows.flows_.size());
  for (const auto& [id, flow] : flows.flows_) {
    add(flow.name.size());
    for (const char letter : flow.name) add(static_cast<unsigned char>(letter));
    add(flow.waiting.size());
    for (const std::uint64_t arrival : flow.waiting) add(id_of(arrival));
    add(flow.line.has_value());
    if (flow.line) {
      for (const auto& [arrival, waiting] : flow.line->waiting_) {
        add(waiting.work);
        add(waiting.started_in_front);
        add(waiting.overtaken_by);
      }
      for (const auto& [arrival, started] : flow.line->started_) {
        add(id_of(arrival));
        add(started.work);
        for (const auto& [other, waiting] : flow.line->waiting_) add(waiting.since < started.number);
      }
    }
    add(flow.num_running);
    add(flow.num_requests);
    add(flow.served);
    add(flows.debtors_.contains({flow.served, id}));
  }
  add(flows.promised_ ? id_of(*flows.promised_) : 0);
  add(flows.num_waiting_);
  add(flows.num_flows_waiting_);
  add(flows.num_flows_active_);
}

void Fingerprint::add_suspects(const Suspects& suspects) {
  add(suspects.suspects_.size());
  for (const auto& [id, suspect] : suspects.suspects_) {
    add(id);
    add(std::uint64_t{suspect.begin} << 32U | suspect.end);
    add(suspect.was_alone);
    add(suspect.deaths.size());
    for (const Suspects::Death death : suspect.deaths) add(death);
  }
  add(suspects.explained_.size());
  for (const Suspects::Death death : suspects.explained_) add(death);
  add(suspects.num_batches_);
}

void Fingerprint::add_pages(const PageMap& pages, const EngineCore& core) {
  add(pages.is_made());
  if (!pages.is_made()) return;
  add(pages.workers_.size());
  for (const PageMap::Worker& worker : pages.workers_) {
    add(worker.is_up);
    add(worker.may_copies_go_alone);
    add(worker.num_copies_under_way);
    add(static_cast<std::uint64_t>(worker.last_iteration.count()));
    add(static_cast<std::uint64_t>(worker.iteration_before.count()));
    add_copies(worker.copies);
  }
  add(pages.num_writes_under_way_);
  add_time(pages.no_writes_until_);
  add_cache(*pages.pages_);
  add(pages.fetches_.size());
  for (const PageMap::Fetch& fetch : pages.fetches_) {
    const Sequence* const sequence = core.find(fetch.sequence);
    add(fetch.sequence);
    add(sequence && sequence->run == fetch.run);
    add(fetch.num_pages);
    add(fetch.awaited.size());
    for (const std::uint64_t generation : fetch.awaited) add_generation(generation);
  }
}

// Nodes keep their ids: they break ties.
void Fingerprint::add_cache(const PageCache& cache) {
  const PagePlaces& places = cache.places_;
  add_tree(places.tree_);
  for (NodeId id = 0; id < places.tree_.end(); ++id)
    if (places.tree_[id].is_used) add_place(places[id]);
  for (const auto& device : places.tiers().devices_) {
    add(device.has_value());
    if (device) add_device(*device);
  }
  add_host(places.tiers().host());
  add_disk(places.tiers().disk());
  std::map<std::uint32_t, const PageLease*> leases;
  for (const auto& [id, lease] : cache.leases_.all()) leases.emplace(name(leases_, id), lease);
  add(leases.size());
  for (const auto& [name, lease] : leases) {
    add(name);
    add(lease->worker);
    add(lease->pages.size());
    for (const HeldPage& held : lease->pages) {
      add(std::uint64_t{held.page} << 32U | held.node);
      add(held.is_private);
    }
  }
}

void Fingerprint::add_place(const PagePlace& place) {
  add(place.on_devices.size());
  for (const DevicePage& page : place.on_devices) {
    add(std::uint64_t{page.worker} << 32U | page.page);
    add(page.num_holders);
  }
  add(std::uint64_t{place.host_page} << 32U | place.disk_page);
  add(std::uint64_t{place.num_disk_children} << 32U | place.num_leases);
  add_generation(place.generation);
  add_time(place.last_used);
  add(std::uint64_t{place.is_void} | std::uint64_t{place.is_fetching} << 1U |
      std::uint64_t{place.is_writing} << 2U);
}

void Fingerprint::add_tree(const PrefixTree& tree) {
  add(tree.nodes_.size());
  for (const PrefixTree::Node& node : tree.nodes_) {
    add(node.is_used);
    if (!node.is_used) continue;
    add(node.is_findable);
    add(node.tenant);
    add(node.parent);
    add_tokens(node.tokens);
    add(std::uint64_t{node.num_children} << 32U | node.num_leaves);
  }
  add(tree.free_nodes_.size());
  for (const NodeId id : tree.free_nodes_) add(id);
}

void Fingerprint::add_device(const DeviceBook& device) {
  add(device.free_.size());
  for (const std::uint32_t page : device.free_) add(page);
  for (const EvictionQueue* queue : {&device.dirty_, &device.clean_, &device.loose_}) add_queue(*queue);
  for (std::uint32_t page = 0; page < device.num_pages_; ++page)
    if (device.has_dirty(page) || device.has_clean(page)) add(device.nodes_[page]);
  add_copies(device.copies_);
}

void Fingerprint::add_host(const HostBook& host) {
  for (const HostBook::Page& page : host.pages_) {
    add(page.owner);
    add(page.num_stores);
    add(page.users.size());
    for (const HostBook::User& user : page.users) add(std::uint64_t{user.worker} << 32U | user.num_copies);
  }
  add(host.free_.size());
  for (const std::uint32_t page : host.free_) add(page);
  add_queue(host.all_);
  add_queue(host.backed_);
}

void Fingerprint::add_disk(const DiskBook& disk) {
  add(disk.limit_);
  add(disk.free_.size());
  for (const std::uint32_t page : disk.free_) add(page);
  add_queue(disk.last_ones_);
  add(disk.transfers_.size());
  const std::map<std::uint32_t, NodeId> under_way(disk.under_way_.begin(), disk.under_way_.end());
  add(under_way.size());
  for (const auto& [page, node] : under_way) add(std::uint64_t{page} << 32U | node);
  add(disk.unwritten_.size());
  for (const NodeId node : disk.unwritten_) add(node);
  for (NodeId node = 0; node < disk.is_listed_.size(); ++node)
    if (disk.is_listed_[node]) add(node);
}

void Fingerprint::add_queue(const EvictionQueue& queue) {
  add(queue.size_);
  for (const auto& [key, lane] : queue.lanes_) {
    add(key.first);
    add(static_cast<std::uint64_t>(static_cast<std::int64_t>(key.second)));
    for (const EvictionQueue::Place& place : lane) {
      add_time(place.last_used);
      add(std::uint64_t{place.tie} << 32U | place.id);
      add_number(queue.known(place.id).worth);
    }
  }
}

void Fingerprint::add_watch(const WatchedTime& watch) {
  add(static_cast<std::uint64_t>(watch.total_.count()));
  add(watch.since_.has_value());
  if (watch.since_) add_time(*watch.since_);
  add_time(watch.last_look_);
}

}  // namespace troupe
