// SPDX-License-Identifier: Apache-2.0
#include "actors/reports/scheduler_reports.hpp"

#include <chrono>
#include <utility>

#include "actors/lengths/prompt_reader.hpp"
#include "actors/reports/seconds.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

void log_killer(SequenceId sequence) {
  if (const auto read = sequence_read_by(sequence))
    log(LogLevel::kError, "a prompt is not read: workers die of it", {{"sequence", *read}});
  else
    log(LogLevel::kError, "a request was given up: workers die of it", {{"sequence", sequence}});
}

}  // namespace

SchedulerReports::SchedulerReports(Environment environment) : environment_(std::move(environment)) {
  if (environment_->tracer) iteration_spans_ = SpanRate(environment_->tracer->max_iterations_per_second());
}

void SchedulerReports::take(const Emit& command) {
  if (const auto* started = std::get_if<SequenceStarted>(&command.output)) observe(*started);
  if (const auto* stopped = std::get_if<SequenceStopped>(&command.output))
    if (stopped->reason == StopReason::kPreempted) environment_->metrics.preemptions.add();
  if (const auto* changed = std::get_if<ReservationChanged>(&command.output)) count(*changed);
  if (const auto* failed = std::get_if<SequenceFailed>(&command.output))
    if (failed->failure == SequenceFailure::kKillsWorkers) log_killer(command.sequence);
}

void SchedulerReports::count(const ReservationChanged& changed) {
  const Metrics& metrics = environment_->metrics;
  switch (changed.cause) {
    case ReservationChanged::Cause::kForecast: return metrics.lengths_forecast.add();
    case ReservationChanged::Cause::kRefined: return metrics.reservations_refined.add();
    case ReservationChanged::Cause::kShrunk: return metrics.reservations_shrunk.add();
    case ReservationChanged::Cause::kGrown: return metrics.reservations_grown.add();
    case ReservationChanged::Cause::kGaveWay: return metrics.reservations_given_up.add();
  }
}

void SchedulerReports::observe(const SequenceStarted& started) {
  const Metrics& metrics = environment_->metrics;
  metrics.recomputed_tokens.add(started.sources.recomputed);
  if (started.looked_up_tokens > 0) {
    metrics.prefix_cache_queries.add(started.looked_up_tokens);
    metrics.prefix_cache_hits.add(started.sources.device);
    metrics.prefix_cache_host_hits.add(started.sources.host);
    metrics.prefix_cache_disk_hits.add(started.sources.disk);
  }
  if (started.queue_time) metrics.queue_time.observe(in_seconds(*started.queue_time));
}

void SchedulerReports::take(const SubmitBatch& command, const ModelCores& cores, TimePoint now) {
  if (!environment_->tracer || !iteration_spans_.has_room(now)) return;
  IterationLinks links;
  SequenceId last = 0;
  for (const SequenceSlice& slice : command.batch->slices) {
    if (slice.sequence == last) continue;
    last = slice.sequence;
    if (const AdmissionTicket* ticket = cores.find(slice.sequence)) links.add(ticket->trace);
  }
  if (!links.empty()) links_.emplace(BatchName{command.model, command.batch_id}, std::move(links));
}

void SchedulerReports::take(const IterationReport& report) {
  trace(report);
  if (report.is_lost || !report.has_slices()) return;
  const Metrics& metrics = environment_->metrics;
  if (environment_->models[report.model].served.kind != ModelKind::kGenerative) {
    metrics.encoder_batches.add();
    metrics.encoder_inputs.add(report.num_sequences);
    metrics.encoder_tokens.add(report.num_tokens);
    return;
  }
  metrics.iterations.add();
  metrics.workers[report.worker].iterations.add();
  metrics.batch_tokens.observe(report.num_tokens);
  metrics.decode_tokens.add(report.num_decodes);
  metrics.prefill_tokens.add(report.num_tokens - report.num_decodes);
  metrics.batch_sequences.observe(static_cast<double>(report.num_sequences));
  metrics.iteration_time.observe(in_seconds(report.ended - report.begun));
  metrics.network_time.observe(in_seconds(std::chrono::nanoseconds(report.network_nanoseconds)));
}

void SchedulerReports::trace(const IterationReport& report) {
  const auto found = links_.find(BatchName{report.model, report.batch_id});
  if (found == links_.end()) return;
  iteration_spans_.take();
  record_iteration(*environment_->tracer, found->second, report);
  links_.erase(found);
}

void SchedulerReports::take(const PagesNotIntact& report) {
  for (const std::uint64_t generation : report.generations) {
    log(LogLevel::kWarning, "a KV page was not intact on the host, it is computed again",
        {{"generation", generation}});
    environment_->metrics.pages_not_intact.add();
  }
}

void SchedulerReports::take(const DiskDamage& report) {
  for (const auto& [transfer, outcome] : report.transfers) {
    if (outcome == TransferOutcome::kDamaged)
      log(LogLevel::kWarning, "a KV page was not intact on its way to or from the disk",
          {{"disk_page", transfer.disk_page}});
    if (outcome == TransferOutcome::kFailed && transfer.direction == DiskTransfer::Direction::kWrite)
      environment_->metrics.disk_writes_failed.add();
  }
}

void SchedulerReports::publish(const ModelCores& cores) {
  StatusBoard& board = *environment_->board;
  const auto num_waiting = static_cast<std::uint32_t>(cores.num_waiting());
  const auto num_running = static_cast<std::uint32_t>(cores.num_running());
  board.trouble = cores.trouble();
  board.num_waiting = num_waiting;
  board.num_running = num_running;
  const Metrics& metrics = environment_->metrics;
  metrics.requests_waiting.set(num_waiting);
  metrics.flows_waiting.set(static_cast<double>(cores.num_flows_waiting()));
  metrics.requests_running.set(num_running);
  metrics.batches_in_flight.set(static_cast<double>(cores.num_in_flight()));
  publish_pages(cores);
  for (WorkerId id = 0; id < metrics.workers.size(); ++id) publish_worker(cores, id);
}

void SchedulerReports::publish_worker(const ModelCores& cores, WorkerId id) {
  const WorkerMetrics& worker = environment_->metrics.workers[id];
  const PageCounts pages = cores.page_counts(id);
  worker.requests_running.set(static_cast<double>(cores.num_running(id)));
  worker.batches_in_flight.set(static_cast<double>(cores.num_in_flight(id)));
  worker.pages_free.set(pages.free);
  worker.pages_cached.set(pages.cached);
  worker.pages_running.set(pages.running);
}

// Page gauges are sums over all models: their pages differ in bytes, not in tokens.
void SchedulerReports::publish_pages(const ModelCores& cores) {
  bool are_made = false;
  for (ModelIndex model = 0; model < cores.num_models(); ++model) {
    const EngineCore* core = cores.generator(model);
    if (!core || !core->pages().is_made()) continue;
    are_made = true;
    environment_->metrics.page_tokens.set(core->pages().page_size());
    publish_statistics(model, *core->pages().statistics());
  }
  if (!are_made) return;
  const PageCounts counts = cores.page_counts();
  if (!std::exchange(has_pages_, true) && counts.disk_free < counts.disk_total)
    log(LogLevel::kInfo, "KV pages of earlier conversations are on disk",
        {{"pages", counts.disk_total - counts.disk_free}});
  StatusBoard& board = *environment_->board;
  board.pages_total = counts.total;
  board.pages_free = counts.free;
  board.pages_cached = counts.cached;
  board.pages_running = counts.running;
  const Metrics& metrics = environment_->metrics;
  metrics.pages_capacity.set(counts.total);
  metrics.pages_free.set(counts.free);
  metrics.pages_cached.set(counts.cached);
  metrics.pages_running.set(counts.running);
  metrics.host_pages_capacity.set(counts.host_total);
  metrics.host_pages_free.set(counts.host_free);
  metrics.host_pages_cached.set(counts.host_total - counts.host_free);
  metrics.disk_pages_capacity.set(counts.disk_total);
  metrics.disk_pages_free.set(counts.disk_free);
  metrics.disk_pages_cached.set(counts.disk_total - counts.disk_free);
}

void SchedulerReports::publish_statistics(ModelIndex model, const PageCacheStatistics& all) {
  const Metrics& metrics = environment_->metrics;
  if (published_.size() <= model) published_.resize(model + 1);
  PageCacheStatistics& published = published_[model];
  const auto add = [](const Counter& counter, std::uint64_t now, std::uint64_t before) {
    if (now > before) counter.add(static_cast<double>(now - before));
  };
  add(metrics.pages_kept_on_host, all.reclaimed, published.reclaimed);
  add(metrics.pages_dropped, all.dropped_from_device, published.dropped_from_device);
  add(metrics.host_pages_kept_on_disk, all.kept_on_disk, published.kept_on_disk);
  add(metrics.host_pages_dropped, all.dropped_from_host, published.dropped_from_host);
  add(metrics.pages_stored, all.stored, published.stored);
  add(metrics.pages_loaded, all.loaded, published.loaded);
  add(metrics.pages_written, all.written, published.written);
  add(metrics.pages_read, all.read, published.read);
  add(metrics.disk_pages_dropped, all.dropped_from_disk, published.dropped_from_disk);
  add(metrics.disk_pages_not_intact, all.damaged_on_disk, published.damaged_on_disk);
  add(metrics.pages_forgotten, all.forgotten, published.forgotten);
  add(metrics.pages_expired, all.expired, published.expired);
  published = all;
}

}  // namespace troupe
