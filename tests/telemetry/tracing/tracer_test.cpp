// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/tracer.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace troupe {
namespace {

// Keeps what it gets; holds everything up while its gate is closed.
struct Collector {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> names;
  std::size_t largest_batch = 0;
  bool is_open = true;
  bool refuses = false;
  bool is_waiting = false;

  void set_open(bool open) {
    const std::lock_guard lock(mutex);
    is_open = open;
    changed.notify_all();
  }
  void wait_until_held() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return is_waiting; });
  }
};

class CollectingExporter final : public SpanExporter {
 public:
  explicit CollectingExporter(std::shared_ptr<Collector> collector) : collector_(std::move(collector)) {}
  std::size_t send(const std::vector<SpanTree>& trees, const ExportDeadline& deadline) override {
    std::unique_lock lock(collector_->mutex);
    collector_->is_waiting = true;
    collector_->changed.notify_all();
    while (!collector_->is_open && std::chrono::steady_clock::now() < deadline.get())
      collector_->changed.wait_for(lock, std::chrono::milliseconds(1));
    collector_->is_waiting = false;
    if (collector_->refuses || !collector_->is_open) return 0;
    for (const auto& tree : trees)
      for (const auto& span : *tree) collector_->names.push_back(span.name);
    collector_->largest_batch = std::max(collector_->largest_batch, count_spans(trees));
    return count_spans(trees);
  }

 private:
  std::shared_ptr<Collector> collector_;
};

// Is in time, or gives up; opens the gate of another.
class PunctualExporter final : public SpanExporter {
 public:
  explicit PunctualExporter(std::shared_ptr<Collector> other) : other_(std::move(other)) {}
  std::size_t send(const std::vector<SpanTree>& trees, const ExportDeadline& deadline) override {
    if (std::chrono::steady_clock::now() >= deadline.get()) return 0;
    other_->set_open(true);
    return count_spans(trees);
  }

 private:
  std::shared_ptr<Collector> other_;
};

std::vector<Span> spans(int count, const std::string& name = "span") {
  return std::vector<Span>(static_cast<std::size_t>(count), Span{.name = name, .context = {}});
}

double metric(const Metrics& metrics, const std::string& begin) {
  const std::string text = metrics.expose();
  const auto at = text.find("\n" + begin);
  REQUIRE_MESSAGE(at != std::string::npos, begin);
  return std::stod(text.substr(text.find(' ', at + 1)));
}

struct Counts {
  double exported, queue_full, failed, shutdown;
};
Counts counts(const Metrics& metrics) {
  const std::string dropped = "troupe_trace_spans_dropped_total{model_name=\"m\",reason=\"";
  return {.exported = metric(metrics, "troupe_trace_spans_exported_total"),
          .queue_full = metric(metrics, dropped + "queue_full"),
          .failed = metric(metrics, dropped + "export_failed"),
          .shutdown = metric(metrics, dropped + "shutdown")};
}

struct Rig {
  explicit Rig(SpanPipelineOptions pipeline = {}) {
    std::vector<TraceDestination> destinations;
    destinations.push_back({.exporter = std::make_unique<CollectingExporter>(collector)});
    tracer = std::make_unique<Tracer>(TracerOptions{.pipeline = pipeline}, metrics, std::move(destinations));
  }
  std::shared_ptr<Collector> collector = std::make_shared<Collector>();
  Metrics metrics{"m"};
  std::unique_ptr<Tracer> tracer;
};

TEST_CASE("tracer: what is recorded before the end arrives, in order") {
  Rig rig;
  for (int i = 0; i < 100; ++i) rig.tracer->record(spans(1, std::to_string(i)));
  rig.tracer->stop(std::chrono::seconds(10));
  REQUIRE(rig.collector->names.size() == 100);
  CHECK(rig.collector->names.front() == "0");
  CHECK(rig.collector->names.back() == "99");
  CHECK(counts(rig.metrics).exported == 100);
}

TEST_CASE("tracer: while the collector hangs, no more than the bound is kept and the rest counted") {
  Rig rig({.max_queued_spans = 50, .max_batch_spans = 10, .flush_interval = std::chrono::milliseconds(1)});
  rig.collector->set_open(false);
  rig.tracer->record(spans(10));
  rig.collector->wait_until_held();
  for (int i = 0; i < 20; ++i) rig.tracer->record(spans(7));  // 140; 49 fit
  rig.collector->set_open(true);
  rig.tracer->stop(std::chrono::seconds(10));
  CHECK(rig.collector->names.size() == 10 + 49);
  CHECK(rig.collector->largest_batch == 10);
  const Counts seen = counts(rig.metrics);
  CHECK(seen.exported == 59);
  CHECK(seen.queue_full == 140 - 49);
  CHECK(seen.failed == 0);
  CHECK(seen.shutdown == 0);
}

TEST_CASE("tracer: bytes are bounded like spans, those of a batch too") {
  const auto span_with = [](const std::string& name, std::size_t bytes) {
    return std::vector<Span>{
        {.name = name, .context = {}, .attributes = {{"text", std::string(bytes, 'x')}}}};
  };
  Rig rig({.max_queued_bytes = 100'000, .max_batch_bytes = 60'000, .flush_interval = std::chrono::hours(1)});
  rig.collector->set_open(false);
  rig.tracer->record(span_with("full batch", 60'000));
  rig.collector->wait_until_held();
  for (int i = 0; i < 5; ++i) rig.tracer->record(span_with("kept", 24'000));  // 4 fit
  rig.tracer->record(spans(1, "small"));
  rig.collector->set_open(true);
  rig.tracer->stop(std::chrono::seconds(10));
  CHECK(rig.collector->names ==
        std::vector<std::string>{"full batch", "kept", "kept", "kept", "kept", "small"});
  CHECK(rig.collector->largest_batch == 3);  // two with 24,000, or the last two and the small one
  CHECK(counts(rig.metrics).queue_full == 1);
}

TEST_CASE("tracer: texts in lists and events count as bytes") {
  const std::string long_text(50'000, 'x');
  const Span with_list{
      .name = "", .context = {}, .attributes = {{"list", std::vector<std::string>{long_text}}}};
  const Span with_event{
      .name = "", .context = {}, .events = {{.name = "event", .attributes = {{"text", long_text}}}}};
  for (const Span& span : {with_list, with_event}) {
    Rig rig({.max_queued_bytes = 50'000});
    rig.tracer->record({span});
    CHECK(counts(rig.metrics).queue_full == 1);
  }
}

TEST_CASE("tracer: spans that could not be delivered are counted, and not tried for ever") {
  Rig rig;
  rig.collector->refuses = true;
  rig.tracer->record(spans(5));
  rig.tracer->stop(std::chrono::seconds(10));
  CHECK(counts(rig.metrics).failed == 5);
  CHECK(counts(rig.metrics).exported == 0);
}

TEST_CASE("tracer: stopping gives up at its deadline; every span is accounted for") {
  Rig rig({.max_queued_spans = 1000, .max_batch_spans = 10, .flush_interval = std::chrono::milliseconds(1)});
  rig.collector->set_open(false);
  for (int i = 0; i < 10; ++i) rig.tracer->record(spans(10));
  rig.tracer->stop(std::chrono::milliseconds(0));
  rig.tracer->record(spans(3));  // too late
  const Counts seen = counts(rig.metrics);
  CHECK(seen.exported + seen.failed + seen.shutdown == 103);
  CHECK(seen.shutdown >= 3);
  CHECK(seen.exported == 0);
}

TEST_CASE("tracer: at the end each destination has the whole deadline, though the one before it hangs") {
  const auto hangs = std::make_shared<Collector>();
  hangs->set_open(false);
  Metrics metrics("m");
  std::vector<TraceDestination> destinations;
  destinations.push_back({.exporter = std::make_unique<CollectingExporter>(hangs)});
  destinations.push_back({.exporter = std::make_unique<PunctualExporter>(hangs)});
  Tracer tracer({.pipeline = {.flush_interval = std::chrono::hours(1)}}, metrics, std::move(destinations));
  tracer.record(spans(5));
  tracer.stop(std::chrono::seconds(10));
  CHECK(counts(metrics).exported == 10);
}

TEST_CASE("tracer: many threads record at once and nothing is lost unseen") {
  Rig rig({.max_queued_spans = 200, .max_batch_spans = 32, .flush_interval = std::chrono::milliseconds(1)});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 500; ++j) rig.tracer->record(spans(2));
    });
  for (auto& thread : threads) thread.join();
  rig.tracer->stop(std::chrono::seconds(10));
  const Counts seen = counts(rig.metrics);
  CHECK(seen.exported + seen.queue_full == 4000);
  CHECK(seen.exported == static_cast<double>(rig.collector->names.size()));
}

TEST_CASE("tracer: wall time moves as the steady clock does, whatever happens to the clock") {
  Rig rig;
  const auto now = std::chrono::steady_clock::now();
  const auto before = rig.tracer->unix_nanoseconds(now);
  CHECK(rig.tracer->unix_nanoseconds(now + std::chrono::nanoseconds(1)) == before + 1);
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  const auto apart = std::chrono::duration_cast<std::chrono::nanoseconds>(wall).count() - before;
  CHECK(std::abs(apart) < 60'000'000'000);
}

TEST_CASE("tracer: slow is what takes longer than the limit, and nothing without one") {
  Metrics metrics("m");
  using std::chrono::milliseconds;
  const Tracer limited({.keep_slower_than = milliseconds(10)}, metrics, {});
  CHECK(limited.is_slow(milliseconds(11)));
  CHECK_FALSE(limited.is_slow(milliseconds(10)));
  const Tracer unlimited({}, metrics, {});
  CHECK_FALSE(unlimited.is_slow(std::chrono::hours(1)));
}

TEST_CASE("tracer: spans of iterations go where they are taken, all others everywhere") {
  const auto file = std::make_shared<Collector>(), dashboard = std::make_shared<Collector>();
  Metrics metrics("m");
  std::vector<TraceDestination> destinations;
  destinations.push_back({.exporter = std::make_unique<CollectingExporter>(file)});
  destinations.push_back(
      {.exporter = std::make_unique<CollectingExporter>(dashboard), .takes_iterations = false});
  Tracer tracer({}, metrics, std::move(destinations));
  tracer.record(spans(2, "request"));
  tracer.record_iteration({.name = "iteration", .context = {}});
  tracer.stop(std::chrono::seconds(10));
  CHECK(file->names == std::vector<std::string>{"request", "request", "iteration"});
  CHECK(dashboard->names == std::vector<std::string>{"request", "request"});
  CHECK(counts(metrics).exported == 5);
}

TEST_CASE("tracer: no iterations are wanted where no destination takes them") {
  Metrics metrics("m");
  const auto limit = [&](bool takes_iterations) {
    std::vector<TraceDestination> destinations;
    destinations.push_back({.exporter = std::make_unique<CollectingExporter>(std::make_shared<Collector>()),
                            .takes_iterations = takes_iterations});
    return Tracer({.max_iterations_per_second = 7}, metrics, std::move(destinations))
        .max_iterations_per_second();
  };
  CHECK(limit(true) == 7);
  CHECK(limit(false) == 0);
}

TEST_CASE("tracer: a trace of our own is sampled by the ratio") {
  Metrics metrics("m");
  const auto somewhere = [] {
    std::vector<TraceDestination> destinations;
    destinations.push_back({.exporter = std::make_unique<CollectingExporter>(std::make_shared<Collector>())});
    return destinations;
  };
  Tracer none({.sample_ratio = 0}, metrics, somewhere());
  Tracer all({.sample_ratio = 1}, metrics, somewhere());
  for (int i = 0; i < 100; ++i) {
    CHECK_FALSE(none.next_root().is_sampled);
    CHECK(all.next_root().is_sampled);
    CHECK(all.next_root().is_valid());
  }
}

}  // namespace
}  // namespace troupe
