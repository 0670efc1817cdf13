// SPDX-License-Identifier: Apache-2.0
// What the actors note of a request while pages run out, workers die and clients
// do not read: phases that follow each other, events at their times.
#include "actors/request/trace/request_trace.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "telemetry/tracing/semantic_conventions.hpp"
#include "tests/actors/recording_sink.hpp"
#include "tests/actors/world.hpp"

namespace troupe {
namespace {

using std::chrono::milliseconds;

class KeepingExporter final : public SpanExporter {
 public:
  explicit KeepingExporter(std::vector<SpanTree>& trees) : trees_(trees) {}
  std::size_t send(const std::vector<SpanTree>& trees, const ExportDeadline&) override {
    trees_.insert(trees_.end(), trees.begin(), trees.end());
    return count_spans(trees);
  }

 private:
  std::vector<SpanTree>& trees_;
};

// A simulated world with a tracer; what it has recorded can be read once it is over.
class TracedWorld {
 public:
  explicit TracedWorld(sim::SimSettings settings = sim::small_settings(), TracerOptions options = {}) {
    std::vector<TraceDestination> destinations;
    destinations.push_back({.exporter = std::make_unique<KeepingExporter>(trees_)});
    options.pipeline.max_queued_spans = 1 << 20;
    tracer_ = std::make_unique<Tracer>(options, metrics_, std::move(destinations));
    settings.tracer = tracer_.get();
    world_ = std::make_unique<sim::SimWorld>(std::move(settings));
  }
  sim::SimWorld& world() { return *world_; }
  const Tracer& tracer() const { return *tracer_; }

  // Ends the world. Requests in the order in which they ended, then iterations.
  std::vector<SpanTree> requests() { return trees(SpanKind::kServer); }
  std::vector<SpanTree> iterations() { return trees(SpanKind::kInternal); }

 private:
  std::vector<SpanTree> trees(SpanKind kind) {
    world_.reset();
    tracer_->stop(std::chrono::seconds(10));
    std::vector<SpanTree> found;
    for (const auto& tree : trees_)
      if (tree->front().kind == kind) found.push_back(tree);
    return found;
  }

  Metrics metrics_{"traced"};
  std::vector<SpanTree> trees_;
  std::unique_ptr<Tracer> tracer_;
  std::unique_ptr<sim::SimWorld> world_;
};

std::vector<std::string> phases_of(const SpanTree& tree) {
  std::vector<std::string> names;
  for (std::size_t i = 1; i < tree->size(); ++i) names.push_back((*tree)[i].name);
  return names;
}

std::vector<std::string> events_of(const SpanTree& tree) {
  std::vector<std::string> names;
  for (const auto& event : tree->front().events) names.emplace_back(event.name);
  return names;
}

template <class Value>
Value attribute(const Span& span, std::string_view key) {
  for (const auto& attribute : span.attributes)
    if (attribute.key == key) return std::get<Value>(attribute.value);
  FAIL("there is no attribute " << key);
  return {};
}

// Phases without gaps and overlaps, from the first waiting to the end.
void check_times(const SpanTree& tree) {
  const Span& root = tree->front();
  for (std::size_t i = 1; i < tree->size(); ++i) {
    const Span& phase = (*tree)[i];
    CHECK(phase.parent == root.context.span);
    CHECK(phase.context.trace == root.context.trace);
    CHECK(phase.start_unix_nanoseconds >= root.start_unix_nanoseconds);
    CHECK(phase.end_unix_nanoseconds <= root.end_unix_nanoseconds);
    if (i > 1) CHECK(phase.start_unix_nanoseconds == (*tree)[i - 1].end_unix_nanoseconds);
  }
  for (const auto& event : root.events) {
    CHECK(event.unix_nanoseconds >= root.start_unix_nanoseconds);
    CHECK(event.unix_nanoseconds <= root.end_unix_nanoseconds);
  }
}

const std::vector<std::string> kUsual = {"queue", "admit", "prefill", "decode"};

TEST_CASE("request trace: waiting, pages, prompt and answer follow each other") {
  TracedWorld traced;
  submit(traced.world(), letters("prompt", 20));
  REQUIRE(traced.world().run());
  const auto requests = traced.requests();
  REQUIRE(requests.size() == 1);
  check_times(requests[0]);
  CHECK(phases_of(requests[0]) == kUsual);
  CHECK(events_of(requests[0]) == std::vector<std::string>{"first_token"});
  CHECK(attribute<std::int64_t>((*requests[0])[3], "troupe.computed_tokens") == 6);
  CHECK(attribute<std::int64_t>(requests[0]->front(), "gen_ai.usage.output_tokens") == 20);
}

bool has_attribute(const Span& span, std::string_view key) {
  return std::any_of(span.attributes.begin(), span.attributes.end(),
                     [&](const auto& attribute) { return attribute.key == key; });
}

TEST_CASE("request trace: prefill and decode tell of their batches: number, company, time in none of them") {
  TracedWorld traced;
  for (std::uint64_t seed = 0; seed < 2; ++seed) submit(traced.world(), letters("prompt", 20, seed));
  REQUIRE(traced.world().run());
  const auto requests = traced.requests();
  REQUIRE(requests.size() == 2);
  for (const auto& tree : requests) {
    CHECK_FALSE(has_attribute((*tree)[1], "troupe.batches"));
    const Span &prefill = (*tree)[3], &decode = (*tree)[4];
    CHECK(attribute<std::int64_t>(prefill, "troupe.batches") == 1);
    CHECK(attribute<std::int64_t>(decode, "troupe.batches") == 19);  // a token each, but for the first
    CHECK(attribute<double>(decode, "troupe.batches.mean_sequences") > 1);
    CHECK(attribute<double>(decode, "troupe.batches.mean_sequences") <= 2);
    for (const Span* phase : {&prefill, &decode}) {
      const double batches = attribute<double>(*phase, "troupe.batches.seconds");
      const double waited = attribute<double>(*phase, "troupe.wait_seconds");
      const auto nanoseconds = phase->end_unix_nanoseconds - phase->start_unix_nanoseconds;
      CHECK(batches > 0);
      CHECK(waited >= 0);
      CHECK(batches + waited >= static_cast<double>(nanoseconds) * 1e-9 - 1e-9);
    }
  }
}

TEST_CASE("request trace: the provider has its old name too, unless only today's are asked for") {
  for (const bool writes_old_names : {true, false}) {
    TracedWorld traced(sim::small_settings(), {.writes_old_names = writes_old_names});
    submit(traced.world(), letters("prompt", 2));
    REQUIRE(traced.world().run());
    const auto requests = traced.requests();
    REQUIRE(requests.size() == 1);
    CHECK(attribute<std::string>(requests[0]->front(), "gen_ai.provider.name") == "troupe");
    CHECK(has_attribute(requests[0]->front(), "gen_ai.system") == writes_old_names);
  }
}

// A letters' request and its answer, as the conventions write them.
constexpr const char* kAsked = R"([{"parts":[{"content":"hidden","type":"text"}],"role":"user"}])";
std::string answered(const std::string& answer) {
  return R"([{"finish_reason":"length","parts":[{"content":")" + answer +
         R"(","type":"text"}],"role":"assistant"}])";
}

void check_content(const std::vector<SpanAttribute>& attributes, const std::string& answer, bool is_there) {
  const auto value_of = [&](std::string_view key) -> std::string {
    for (const auto& attribute : attributes)
      if (attribute.key == key) return std::get<std::string>(attribute.value);
    return "";
  };
  CHECK(value_of("gen_ai.input.messages") == (is_there ? kAsked : ""));
  CHECK(value_of("gen_ai.output.messages") == (is_there ? answered(answer) : ""));
  if (is_there) return;
  for (const auto& attribute : attributes) {
    const auto* text = std::get_if<std::string>(&attribute.value);
    CHECK_FALSE(
        (text && (text->find("hidden") != std::string::npos || text->find(answer) != std::string::npos)));
  }
}

TEST_CASE(
    "request trace: prompt and answer are in it only where contents are captured, and where that says") {
  for (const ContentCapture capture :
       {ContentCapture{}, ContentCapture{.in_attributes = true}, ContentCapture{.in_event = true},
        ContentCapture{.in_attributes = true, .in_event = true}}) {
    CAPTURE(capture.in_attributes);
    CAPTURE(capture.in_event);
    TracedWorld traced(sim::small_settings(), {.capture = capture});
    const auto client = submit(traced.world(), letters("hidden", 5));
    REQUIRE(traced.world().run());
    const std::string answer = client->text();
    REQUIRE(answer.size() >= 5);
    const auto requests = traced.requests();
    REQUIRE(requests.size() == 1);
    const Span& root = requests[0]->front();
    check_content(root.attributes, answer, capture.in_attributes);
    for (std::size_t i = 1; i < requests[0]->size(); ++i)
      check_content((*requests[0])[i].attributes, answer, false);
    CHECK(root.events.size() == (capture.in_event ? 2 : 1));
    for (const SpanEvent& event : root.events)
      check_content(event.attributes, answer, event.name == "gen_ai.client.inference.operation.details");
  }
}

TEST_CASE(
    "request trace: a worker that dies is an event, and the request waits, prefills and decodes again") {
  TracedWorld traced;
  traced.world().devices().choose_fault = [](const Batch&, std::uint64_t number) {
    return number == 6 ? sim::Fault::kBatchError : sim::Fault::kNone;
  };
  const auto client = submit(traced.world(), letters("prompt", 20));
  REQUIRE(traced.world().run());
  CHECK(client->finished());
  const auto requests = traced.requests();
  REQUIRE(requests.size() == 1);
  check_times(requests[0]);
  CHECK(phases_of(requests[0]) == std::vector<std::string>{"queue", "admit", "prefill", "decode", "queue",
                                                           "admit", "prefill", "decode"});
  CHECK(events_of(requests[0]) == std::vector<std::string>{"first_token", "worker_lost", "restarted"});
  const Span& second_prefill = (*requests[0])[7];
  CHECK(attribute<std::int64_t>(second_prefill, "troupe.run") == 2);
  CHECK(attribute<std::int64_t>(second_prefill, "troupe.worker.epoch") == 2);
  // The prompt and the tokens it had by then: all of them are computed again.
  CHECK(attribute<std::int64_t>(second_prefill, "troupe.computed_tokens") > 6);
  CHECK(requests[0]->front().status == SpanStatus::kUnset);
}

TEST_CASE("request trace: batches of a worker that died are iterations that say so") {
  TracedWorld traced;
  traced.world().devices().choose_fault = [](const Batch&, std::uint64_t number) {
    return number == 6 ? sim::Fault::kBatchError : sim::Fault::kNone;
  };
  submit(traced.world(), letters("prompt", 20));
  REQUIRE(traced.world().run());
  std::map<std::int64_t, int> lost_by_epoch;
  std::set<std::pair<std::int64_t, std::int64_t>> batches;
  for (const auto& tree : traced.iterations()) {
    const Span& span = tree->front();
    const auto epoch = attribute<std::int64_t>(span, "troupe.worker.epoch");
    lost_by_epoch[epoch] += span.status == SpanStatus::kError ? 1 : 0;
    CHECK(batches.emplace(epoch, attribute<std::int64_t>(span, "troupe.batch.id")).second);
    CHECK(span.links.size() == 1);
  }
  CHECK(lost_by_epoch[1] >= 1);
  CHECK(lost_by_epoch[1] <= 2);  // two are in flight at most
  CHECK(lost_by_epoch[2] == 0);
}

TEST_CASE("request trace: preempted requests say when and how often, and are told from those that were not") {
  auto settings = sim::small_settings();
  settings.device.description.num_pages = 12;  // 48 tokens: not room for all
  TracedWorld traced(settings);
  for (int i = 0; i < 4; ++i) submit(traced.world(), letters("prompt", 30, static_cast<std::uint64_t>(i)));
  REQUIRE(traced.world().run());
  const auto num_preemptions = traced.world().metric("troupe_num_preemptions_total");
  REQUIRE(num_preemptions > 0);
  double num_events = 0;
  for (const auto& tree : traced.requests()) {
    check_times(tree);
    const auto events = events_of(tree);
    const auto preempted = std::count(events.begin(), events.end(), "preempted");
    CHECK(std::count(events.begin(), events.end(), "resumed") == preempted);
    const auto phases = phases_of(tree);
    CHECK(std::count(phases.begin(), phases.end(), "queue") == preempted + 1);
    num_events += static_cast<double>(preempted);
  }
  CHECK(num_events == num_preemptions);
}

std::vector<SpanEvent> events_named(const SpanTree& tree, std::string_view name) {
  std::vector<SpanEvent> found;
  for (const auto& event : tree->front().events)
    if (event.name == name) found.push_back(event);
  return found;
}

template <class Value>
Value attribute(const SpanEvent& event, std::string_view key) {
  Span span;
  span.attributes = event.attributes;
  return attribute<Value>(span, key);
}

// Any letter ends it: an answer of one token, of which the predictor learns that it was whole.
GenerationRequest ended_at_once(std::string prompt, std::uint64_t seed) {
  auto request = letters(std::move(prompt), 4, seed);
  for (char letter = ' '; letter <= '~'; ++letter) request.stop.emplace_back(1, letter);
  return request;
}

TEST_CASE("request trace: a forecast says how much is set aside, an overrun that it grew") {
  auto settings = sim::small_settings();
  settings.options.serving.reservation = ReservationPolicy::kPredicted;
  TracedWorld traced(settings);
  for (std::uint64_t i = 0; i < 12; ++i) {
    submit(traced.world(), ended_at_once("prompt " + std::to_string(i), i));
    REQUIRE(traced.world().run());
  }
  submit(traced.world(), letters("prompt", 30, 99));  // longer than any before
  REQUIRE(traced.world().run());
  const auto requests = traced.requests();
  REQUIRE(requests.size() == 13);
  for (const auto& tree : requests) {
    const auto predicted = events_named(tree, "predict");
    REQUIRE(predicted.size() == 1);
    CHECK(attribute<std::int64_t>(predicted[0], "troupe.reserved_tokens") > 0);
  }
  const SpanTree& last = requests.back();
  check_times(last);
  const auto foreseen = attribute<std::int64_t>(events_named(last, "predict")[0], "troupe.reserved_tokens");
  CHECK(foreseen < 30);
  const auto overruns = events_named(last, "overrun");
  REQUIRE_FALSE(overruns.empty());
  std::int64_t before = foreseen;
  for (const auto& overrun : overruns) {
    CHECK(attribute<std::string>(overrun, "troupe.overrun.outcome") == "grown");
    CHECK(attribute<std::int64_t>(overrun, "troupe.reserved_tokens") > before);
    before = attribute<std::int64_t>(overrun, "troupe.reserved_tokens");
  }
  CHECK(before >= 30);
}

TEST_CASE("request trace: an overrun for which there is no room gives way, and is preempted") {
  std::size_t gave_way = 0;
  for (std::uint32_t num_pages = 10; num_pages <= 26; num_pages += 2) {
    auto settings = sim::small_settings();
    settings.options.serving.reservation = ReservationPolicy::kPredicted;
    settings.device.description.num_pages = num_pages;  // no room for four answers of 30
    TracedWorld traced(settings);
    for (std::uint64_t i = 0; i < 12; ++i) {
      submit(traced.world(), ended_at_once("prompt " + std::to_string(i), i));
      REQUIRE(traced.world().run());
    }
    for (std::uint64_t i = 0; i < 4; ++i) submit(traced.world(), letters("prompt", 30, 50 + i));
    REQUIRE(traced.world().run());
    for (const auto& tree : traced.requests()) {
      for (std::size_t i = 0; i + 1 < tree->front().events.size(); ++i) {
        const SpanEvent& event = tree->front().events[i];
        if (event.name != "overrun" || attribute<std::string>(event, "troupe.overrun.outcome") != "gave_way")
          continue;
        CHECK(tree->front().events[i + 1].name == "preempted");
        gave_way += 1;
      }
    }
  }
  CHECK(gave_way > 0);
}

TEST_CASE("request trace: a client that does not read suspends it, until it does") {
  auto settings = sim::small_settings();
  settings.options.pause_bytes = 10;
  TracedWorld traced(settings);
  sim::ClientPlan plan;
  plan.request = letters("prompt", 30);
  plan.read_interval = milliseconds(500);
  submit(traced.world(), plan);
  REQUIRE(traced.world().run());
  const auto requests = traced.requests();
  REQUIRE(requests.size() == 1);
  check_times(requests[0]);
  const auto events = events_of(requests[0]);
  const auto num_suspended = std::count(events.begin(), events.end(), "suspended");
  CHECK(num_suspended >= 1);
  CHECK(std::count(events.begin(), events.end(), "resumed") == num_suspended);
  std::int64_t suspended = 0;
  for (const Span& span : *requests[0])
    if (span.name == "suspended") suspended += span.end_unix_nanoseconds - span.start_unix_nanoseconds;
  // All but the little time it ran: half a second for each suspension.
  CHECK(suspended > num_suspended * 400'000'000);
}

TEST_CASE("request trace: cancelled while it waits, or refused, it has the phases it came to") {
  auto settings = sim::small_settings();
  settings.options.serving.max_batch_sequences = 1;
  TracedWorld traced(settings);
  submit(traced.world(), letters("running", 60));
  const auto waiting = std::make_shared<RecordingSink>();
  const RequestId id = traced.world().engine().submit(letters("waiting", 60), waiting);
  const auto too_long = std::make_shared<RecordingSink>();
  traced.world().engine().submit(letters(std::string(500, 'x'), 60), too_long);
  traced.world().after(milliseconds(1), [&] { traced.world().engine().cancel(id); });
  REQUIRE(traced.world().run());
  const auto requests = traced.requests();
  REQUIRE(requests.size() == 3);
  CHECK(attribute<std::string>(requests[0]->front(), "error.type") == "context_length_exceeded");
  CHECK(requests[0]->front().status == SpanStatus::kUnset);
  CHECK(attribute<std::string>(requests[1]->front(), "error.type") == "cancelled");
  CHECK(phases_of(requests[1]) == std::vector<std::string>{"queue"});
  CHECK(requests[1]->front().status == SpanStatus::kError);
  CHECK(phases_of(requests[2]) == kUsual);
}

TEST_CASE(
    "request trace: the engine gives up, and every open request still leaves its tree, kept as failed") {
  auto settings = sim::small_settings();
  settings.options.max_restarts = 0;
  TracedWorld traced(settings, {.sample_ratio = 0});
  traced.world().devices().choose_fault = [](const Batch&, std::uint64_t number) {
    return number == 5 ? sim::Fault::kBatchError : sim::Fault::kNone;
  };
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 3; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>());
    traced.world().engine().submit(letters("prompt", 60, static_cast<std::uint64_t>(i)), sinks.back());
  }
  REQUIRE(traced.world().run());
  const auto requests = traced.requests();
  REQUIRE(requests.size() == 3);
  for (const auto& tree : requests) {
    check_times(tree);
    CHECK(attribute<std::string>(tree->front(), "error.type") == "unavailable");
    CHECK(attribute<std::string>(tree->front(), "troupe.kept") == "error");
    CHECK(tree->front().status == SpanStatus::kError);
    CHECK_FALSE(tree->front().status_message.empty());
  }
}

TEST_CASE(
    "request trace: without a sampled request a batch leaves no span; with one it links to that one only") {
  TracedWorld traced(sim::small_settings(), {.sample_ratio = 0});
  auto sampled = letters("prompt", 20);
  sampled.origin.trace = {.trace = {.high = 7, .low = 8}, .span = 9, .is_sampled = true};
  submit(traced.world(), letters("other", 60));
  submit(traced.world(), sampled);
  REQUIRE(traced.world().run());
  const auto iterations = traced.iterations();
  CHECK(iterations.size() >= 20);
  CHECK(iterations.size() < 40);  // sixty batches ran
  for (const auto& tree : iterations) {
    REQUIRE(tree->front().links.size() == 1);
    CHECK(tree->front().links[0].span == 9);
  }
}

TEST_CASE("request trace: timings are the phases' sums and fit into the whole") {
  auto settings = sim::small_settings();
  settings.device.description.num_pages = 12;
  sim::SimWorld world(settings);  // no tracer: times are kept all the same
  std::vector<std::shared_ptr<sim::SimClient>> clients;
  for (int i = 0; i < 4; ++i)
    clients.push_back(submit(world, letters("prompt", 30, static_cast<std::uint64_t>(i))));
  REQUIRE(world.run());
  for (const auto& client : clients) {
    const RequestTimings timings = client->finished()->timings;
    CHECK(timings.prefill.count() > 0);
    CHECK(timings.decode.count() > 0);
    CHECK(timings.queue + timings.prefill + timings.decode == timings.total);
    CHECK(timings.decoded_tokens < 30);
  }
}

TEST_CASE("request trace: one that is not sampled is among the recent ones, and not exported") {
  TracedWorld traced(sim::small_settings(), {.sample_ratio = 0, .max_recent_requests = 4});
  submit(traced.world(), letters("prompt", 5));
  REQUIRE(traced.world().run());
  CHECK(traced.requests().empty());
  const auto recent = traced.tracer().recent().find({});
  REQUIRE(recent.size() == 1);
  CHECK(phases_of(recent[0]) == kUsual);
  for (const auto& attribute : recent[0]->front().attributes) CHECK(attribute.key != semconv::kKept);
}

TEST_CASE("request trace: events beyond a bound are counted, not kept") {
  const auto request = std::make_shared<const GenerationRequest>(letters("prompt", 5));
  Metrics metrics("m");
  Tracer tracer({}, metrics, {});
  const RequestTrace::TimePoint start{std::chrono::seconds(1)};
  RequestTrace trace(request, &tracer, start);
  trace.begin_waiting(start);
  auto now = start;
  for (int i = 0; i < 500; ++i) {
    now += milliseconds(1);
    trace.take_started({.queued = now, .asked = now, .started = now});
    trace.take_stopped({.reason = StopReason::kPreempted, .time = now});
  }
  trace.end(now, {});
  const auto spans = request_spans(trace, "model");
  CHECK(spans.size() <= 1 + 128);
  CHECK(spans[0].events.size() == 64);
  CHECK(spans[0].num_dropped_events == 2 * 500 - 1 - 64);
  CHECK(trace.timings().queue + trace.timings().prefill == trace.timings().total);
}

}  // namespace
}  // namespace troupe
