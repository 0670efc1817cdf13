// SPDX-License-Identifier: Apache-2.0
#include "loadgen/report/timeline.hpp"

#include <doctest/doctest.h>

#include <numeric>

namespace troupe::loadgen {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// One request a second for 100 s, ten tokens each, 100 ms apart.
RunResult steady_run() {
  RunResult result;
  result.classes = {RequestClass{}};
  result.duration = seconds(100);
  for (int i = 0; i < 99; ++i) {
    RequestRecord record;
    record.intended = record.sent = seconds(i);
    record.first_token = record.intended + milliseconds(50);
    record.last_token = record.first_token + milliseconds(900);
    record.finished = record.last_token;
    record.gaps_us.assign(9, 100'000);
    record.output_tokens = 10;
    record.outcome = i % 10 == 0 ? Outcome::kTimedOut : Outcome::kCompleted;
    result.records.push_back(record);
  }
  return result;
}

double total(const std::vector<PlotPoint>& points, double bin_seconds) {
  return std::accumulate(points.begin(), points.end(), 0.0,
                         [&](double sum, const auto& point) { return sum + point.y * bin_seconds; });
}

TEST_CASE("timeline: rates times bins are all that happened") {
  const auto timeline = timeline_of(steady_run());
  CHECK(timeline.bin_seconds == 1);
  CHECK(timeline.arrivals.size() == 100);
  CHECK(total(timeline.arrivals, 1) == doctest::Approx(99));
  CHECK(total(timeline.completions, 1) == doctest::Approx(89));
  CHECK(total(timeline.failures, 1) == doctest::Approx(10));
  CHECK(total(timeline.tokens, 1) == doctest::Approx(990));
  CHECK(timeline.tokens[5].y == doctest::Approx(10));
  CHECK(timeline.running.empty());
}

TEST_CASE("timeline: without gaps tokens are spread between the first and the last") {
  auto run = steady_run();
  for (auto& record : run.records) record.gaps_us.clear();
  const auto timeline = timeline_of(run);
  CHECK(total(timeline.tokens, 1) == doctest::Approx(990));
  CHECK(timeline.tokens[5].y == doctest::Approx(10));
}

TEST_CASE("timeline: an answer over many bins gives each its part") {
  RunResult run;
  run.duration = seconds(10);
  RequestRecord record;
  record.first_token = milliseconds(1);
  record.last_token = seconds(10);
  record.output_tokens = 1001;
  run.records = {record};
  const auto timeline = timeline_of(run);
  CHECK(total(timeline.tokens, timeline.bin_seconds) == doctest::Approx(1001));
  CHECK(timeline.tokens[50].y == doctest::Approx(100).epsilon(0.01));
}

TEST_CASE("timeline: samples of one bin are averaged, bins without are left out") {
  RunResult run;
  run.duration = seconds(100);
  run.samples = {{.time = milliseconds(200), .num_running = 2},
                 {.time = milliseconds(700), .num_running = 4},
                 {.time = seconds(50), .num_running = 6, .pages_used = 1, .pages_total = 4}};
  const auto timeline = timeline_of(run);
  REQUIRE(timeline.running.size() == 2);
  CHECK(timeline.running[0].y == 3);
  CHECK(timeline.running[1].y == 6);
  REQUIRE(timeline.pages.size() == 1);
  CHECK(timeline.pages[0].y == 0.25);
}

TEST_CASE("timeline: events beyond the run's end and runs without length do no harm") {
  RunResult run = steady_run();
  run.duration = seconds(0);
  CHECK(total(timeline_of(run).arrivals, timeline_of(run).bin_seconds) == doctest::Approx(99).epsilon(0.02));
  run.records.clear();
  CHECK(timeline_of(run).arrivals.size() == 1);
}

TEST_CASE("gap_heatmap: every gap is in a cell, empty rows are cut away") {
  const auto heatmap = gap_heatmap(steady_run());
  CHECK(std::accumulate(heatmap.counts.begin(), heatmap.counts.end(), std::uint64_t{0}) == 99 * 9);
  CHECK(heatmap.row_edges.size() == 2);
  CHECK(heatmap.row_edges[0] <= 0.1);
  CHECK(heatmap.row_edges[1] > 0.1);
}

}  // namespace
}  // namespace troupe::loadgen
