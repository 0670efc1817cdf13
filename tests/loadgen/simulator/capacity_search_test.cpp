// SPDX-License-Identifier: Apache-2.0
#include "loadgen/simulator/capacity_search.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <stdexcept>

#include "loadgen/simulator/capacity_table.hpp"

using namespace troupe;
using namespace troupe::loadgen;
using namespace std::chrono_literals;

namespace {

// Met from `enough` workers on; counts the trials.
CapacityAnswer search(std::uint32_t enough, std::uint32_t max_workers, int* num_trials = nullptr) {
  return find_fewest_workers(
      [&](std::uint32_t n) {
        if (num_trials) *num_trials += 1;
        return CapacityTrial{.num_workers = n,
                             .measured = {std::chrono::nanoseconds(1s) / n},
                             .completed_share = 1,
                             .rejected_share = 0,
                             .is_met = n >= enough};
      },
      max_workers);
}

Summary summary_of(std::chrono::nanoseconds ttft_p99, std::uint64_t num_completed = 10) {
  Summary summary;
  summary.total.num_requests = 10;
  summary.total.num_completed = num_completed;
  summary.total.latencies.time_to_first_token.count = num_completed;
  summary.total.latencies.time_to_first_token.p99 = ttft_p99;
  return summary;
}

}  // namespace

TEST_CASE("capacity: the fewest workers are found, and what one less would do") {
  for (std::uint32_t enough = 1; enough <= 70; ++enough) {
    const auto answer = search(enough, 100);
    REQUIRE(answer.fewest);
    CHECK(answer.fewest->num_workers == enough);
    CHECK(answer.one_less.num_workers == enough - 1);
  }
}

TEST_CASE("capacity: the search takes logarithmically many trials") {
  int num_trials = 0;
  search(700, 1024, &num_trials);
  CHECK(num_trials <= 21);
}

TEST_CASE("capacity: where the most are too few, it says so") {
  const auto answer = search(101, 100);
  CHECK_FALSE(answer.fewest);
  CHECK(answer.one_less.num_workers == 100);
}

TEST_CASE("capacity: objectives are read with their units") {
  const auto objectives = parse_objectives("ttft_p99=0.5s,tpot_mean=50ms,e2e_p50=900us");
  REQUIRE(objectives.size() == 3);
  CHECK(objectives[0].limit == 500ms);
  CHECK(objectives[0].text == "ttft_p99");
  CHECK(objectives[1].latency == PercentileObjective::Latency::kTpot);
  CHECK(objectives[1].figure == PercentileObjective::Figure::kMean);
  CHECK(objectives[2].limit == 900us);
}

TEST_CASE("capacity: objectives that make no sense are refused with what came") {
  for (const char* text : {"", "ttft", "ttft_p99", "ttft_p99=", "ttft_p99=5", "ttft_p97=5ms", "tft_p99=5ms",
                           "ttft_p99=-5ms", "ttft_p99=nanms", "ttft_p99=5min", "ttft_p99=5ms,", "p99=5ms"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_objectives(text), std::runtime_error);
  }
  try {
    parse_objectives("ttft_p99=5ms,tpot_p98=fast");
    FAIL("taken");
  } catch (const std::runtime_error& error) {
    CHECK(std::string(error.what()).find("got 'tpot_p98=fast'") != std::string::npos);
  }
}

TEST_CASE("capacity: the median over seeds counts, and every request must be completed") {
  const auto objectives = parse_objectives("ttft_p99=100ms");
  CHECK(judge(2, objectives, {summary_of(90ms), summary_of(150ms), summary_of(95ms)}).is_met);
  const auto missed = judge(2, objectives, {summary_of(90ms), summary_of(150ms), summary_of(120ms)});
  CHECK_FALSE(missed.is_met);
  CHECK(missed.measured.front() == 120ms);
  const auto refused = judge(2, objectives, {summary_of(90ms), summary_of(90ms, 9)});
  CHECK_FALSE(refused.is_met);
  CHECK(refused.completed_share == doctest::Approx(0.9));
}

TEST_CASE("capacity: a server whose clients all hang up keeps no objective") {
  auto summary = summary_of(0ms, 0);
  summary.total.num_by_outcome[static_cast<std::size_t>(Outcome::kCancelled)] = 10;
  const CapacityTable table(parse_objectives("ttft_p99=100ms"));
  const auto trial =
      judge(2, parse_objectives("ttft_p99=100ms"), {summary_of(90ms), summary, summary_of(90ms)});
  CHECK_FALSE(trial.is_met);
  std::ostringstream out;
  table.print_row(out, 4, {.fewest = {}, .one_less = trial});
  CHECK(out.str() == "         4       > 2                 not met            not measured\n");
}

TEST_CASE("capacity: what no number of workers can serve does not count, and is said") {
  auto summary = summary_of(90ms, 9);
  summary.total.num_by_outcome[static_cast<std::size_t>(Outcome::kRejected)] = 1;
  const auto objectives = parse_objectives("ttft_p99=100ms");
  const auto trial = judge(2, objectives, {summary});
  CHECK(trial.is_met);
  std::ostringstream out;
  CapacityTable(objectives).print_foot(out, {.fewest = trial, .one_less = {}});
  CHECK(out.str() == "10.0 % of the requests are longer than a sequence may be here; they are left out\n");
}

TEST_CASE("capacity: the table has a line a rate, with the figures of both sides") {
  const CapacityTable table(parse_objectives("ttft_p99=500ms"));
  std::ostringstream out;
  table.print_head(out);
  table.print_row(out, 4, search(3, 8));
  table.print_row(out, 90, search(9, 8));
  CHECK(out.str() ==
        "   rate /s   workers    ttft_p99 (<= 500 ms)    with one worker less\n"
        "         4         3                  333 ms                  500 ms\n"
        "        90       > 8                 not met                  125 ms\n");
}
