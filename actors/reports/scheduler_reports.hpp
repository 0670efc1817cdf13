// SPDX-License-Identifier: Apache-2.0
// Metrics, traces, log lines and the status board of what the core reports.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "actors/actor_rules.hpp"
#include "actors/reports/iteration_trace.hpp"
#include "engine/model_cores.hpp"
#include "telemetry/tracing/span_rate.hpp"

namespace troupe {

// Called by the scheduler alone.
class SchedulerReports {
 public:
  using TimePoint = EngineCore::TimePoint;

  explicit SchedulerReports(Environment environment);

  void take(const Emit& command);
  void take(const SubmitBatch& command, const ModelCores& cores, TimePoint now);
  void take(const IterationReport& report);
  void take(const PagesNotIntact& report);
  void take(const DiskDamage& report);
  // The gauges, and the counters of pages, as the core has them now.
  void publish(const ModelCores& cores);

 private:
  void observe(const SequenceStarted& started);
  void count(const ReservationChanged& changed);
  void trace(const IterationReport& report);
  void publish_pages(const ModelCores& cores);
  void publish_statistics(ModelIndex model, const PageCacheStatistics& all);
  void publish_worker(const ModelCores& cores, WorkerId id);

  Environment environment_;
  SpanRate iteration_spans_{0};
  using BatchName = std::pair<ModelIndex, std::uint64_t>;
  std::map<BatchName, IterationLinks> links_;   // while the batch is in flight
  std::vector<PageCacheStatistics> published_;  // by model; as far as the metrics have it
  bool has_pages_ = false;                      // published once
};

}  // namespace troupe
