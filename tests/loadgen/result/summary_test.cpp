// SPDX-License-Identifier: Apache-2.0
#include "loadgen/result/summary.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>

#include "loadgen/seconds.hpp"

namespace troupe::loadgen {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// An answer of `tokens` chunks, the first at `first` after the intended time,
// then one every `gap`.
RequestRecord answer(milliseconds intended, milliseconds first, milliseconds gap, std::uint32_t tokens) {
  RequestRecord record;
  record.intended = record.sent = intended;
  record.first_token = record.last_token = intended + first;
  for (std::uint32_t i = 1; i < tokens; ++i) {
    record.gaps_us.push_back(static_cast<std::uint32_t>(microseconds(gap).count()));
    record.last_token += gap;
  }
  record.finished = record.last_token;
  record.prompt_tokens = 10;
  record.output_tokens = tokens;
  record.outcome = Outcome::kCompleted;
  record.status = 200;
  return record;
}

RequestRecord failure(milliseconds intended, Outcome outcome) {
  RequestRecord record;
  record.intended = record.sent = intended;
  record.finished = intended + milliseconds(1);
  record.outcome = outcome;
  return record;
}

RunResult run_of(std::vector<RequestRecord> records, seconds from, seconds until) {
  RunResult result;
  result.classes = {RequestClass{}};
  result.records = std::move(records);
  result.measured_from = from;
  result.measured_until = until;
  result.duration = until + seconds(10);
  return result;
}

// Ten seconds of traffic of two classes with all that can happen to a request.
RunResult random_run(std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto below = [&](int limit) { return static_cast<int>(engine() % static_cast<unsigned>(limit)); };
  RunResult result = run_of({}, seconds(2), seconds(8));
  result.classes = {
      RequestClass{.name = "chat", .objectives = {milliseconds(150), milliseconds(20), seconds(1)}},
      RequestClass{.name = "batch", .objectives = {}}};
  for (int i = 0; i < 400; ++i) {
    auto record = answer(milliseconds(below(10000)), milliseconds(1 + below(300)), milliseconds(below(40)),
                         static_cast<std::uint32_t>(1 + below(50)));
    record.sent += microseconds(below(900));
    record.finished += microseconds(below(500));
    record.request_class = static_cast<std::uint32_t>(below(2));
    record.cached_tokens = static_cast<std::uint32_t>(below(10));
    if (below(3) == 0) record.gaps_us.clear();
    if (below(2) == 0) record.server_queue = microseconds(below(5000));
    if (below(4) == 0) record.is_correct = below(2) == 0;
    if (below(5) == 0) record.outcome = static_cast<Outcome>(below(kNumOutcomes));
    result.records.push_back(std::move(record));
  }
  return result;
}

std::vector<RequestRecord> counted(const RunResult& result, std::optional<std::uint32_t> request_class) {
  std::vector<RequestRecord> found;
  for (const auto& record : result.records) {
    const bool is_inside = record.intended >= result.measured_from && record.intended < result.measured_until;
    if (is_inside && (!request_class || record.request_class == *request_class)) found.push_back(record);
  }
  return found;
}

// values: kEndless for those without an end.
void check_statistics(const LatencyStatistics& found, std::vector<nanoseconds> values) {
  std::sort(values.begin(), values.end());
  const auto num_ended =
      static_cast<std::size_t>(std::lower_bound(values.begin(), values.end(), kEndless) - values.begin());
  REQUIRE(found.count == num_ended);
  if (values.empty()) return;
  const auto exact = [&](double percent) {
    const auto rank = std::ceil(percent * static_cast<double>(values.size()) / 100 - 1e-9);
    return static_cast<double>(values[static_cast<std::size_t>(std::max(1.0, rank)) - 1].count());
  };
  const auto is_near = [](nanoseconds time, double expected) {
    return std::abs(static_cast<double>(time.count()) - expected) <= 0.0005 * expected;
  };
  CHECK(is_near(found.p50, exact(50)));
  CHECK(is_near(found.p90, exact(90)));
  CHECK(is_near(found.p95, exact(95)));
  CHECK(is_near(found.p98, exact(98)));
  CHECK(is_near(found.p99, exact(99)));
  CHECK(found.max == values.back());
  double sum = 0;
  for (std::size_t i = 0; i < num_ended; ++i) sum += static_cast<double>(values[i].count());
  if (num_ended > 0)
    CHECK(std::abs(static_cast<double>(found.mean.count()) - sum / static_cast<double>(num_ended)) <= 1);
}

void check_latencies(const PerLatency<LatencyStatistics>& found, const std::vector<RequestRecord>& records,
                     bool counts_all) {
  PerLatency<std::vector<nanoseconds>> values;
  for (const auto& r : records) {
    values.client_delay.push_back(r.sent - r.intended);
    if (r.outcome != Outcome::kCompleted) {
      if (counts_all && r.outcome != Outcome::kCancelled)
        for (auto* endless : {&values.time_to_first_token, &values.time_per_output_token, &values.end_to_end,
                              &values.normalized_latency})
          endless->push_back(kEndless);
      continue;
    }
    values.time_to_first_token.push_back(r.first_token - r.intended);
    values.end_to_end.push_back(r.finished - r.intended);
    values.normalized_latency.push_back((r.finished - r.intended) / r.output_tokens);
    if (r.output_tokens > 1)
      values.time_per_output_token.push_back((r.last_token - r.first_token) / (r.output_tokens - 1));
    for (const auto gap : r.gaps_us) values.inter_token_latency.push_back(microseconds(gap));
    if (r.server_queue) values.server_queue.push_back(*r.server_queue);
  }
  check_statistics(found.time_to_first_token, values.time_to_first_token);
  check_statistics(found.time_per_output_token, values.time_per_output_token);
  check_statistics(found.inter_token_latency, values.inter_token_latency);
  check_statistics(found.normalized_latency, values.normalized_latency);
  check_statistics(found.end_to_end, values.end_to_end);
  check_statistics(found.client_delay, values.client_delay);
  check_statistics(found.server_queue, values.server_queue);
}

bool is_good(const RequestRecord& r, bool has_objectives) {
  if (r.outcome != Outcome::kCompleted) return false;
  if (!has_objectives) return true;
  const bool is_steady =
      r.output_tokens == 1 || (r.last_token - r.first_token) / (r.output_tokens - 1) <= milliseconds(20);
  return r.first_token - r.intended <= milliseconds(150) && is_steady &&
         r.finished - r.intended <= seconds(1);
}

TEST_CASE("summary: random runs have the latencies found by brute force, by class and in total") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    auto result = random_run(seed);
    const auto summary = summarize(result);
    REQUIRE(summary.classes.size() == 2);
    check_latencies(summary.total.latencies, counted(result, std::nullopt), true);
    check_latencies(summary.classes[0].latencies, counted(result, 0), true);
    check_latencies(summary.classes[1].latencies, counted(result, 1), true);
    result.settings.emplace_back(kPercentilesSetting, kOfCompleted);
    check_latencies(summarize(result).total.latencies, counted(result, std::nullopt), false);
  }
}

TEST_CASE("summary: a server that refuses what would be slow is not fast") {
  std::vector<RequestRecord> records;
  for (int i = 0; i < 90; ++i)
    records.push_back(answer(milliseconds(i), milliseconds(50), milliseconds(10), 3));
  for (int i = 0; i < 10; ++i) records.push_back(failure(milliseconds(i), Outcome::kRefused));
  auto result = run_of(records, seconds(0), seconds(1));
  const auto first_token = summarize(result).total.latencies.time_to_first_token;
  CHECK(first_token.count == 90);
  CHECK(first_token.mean == milliseconds(50));
  CHECK(first_token.p90 < milliseconds(51));
  CHECK(first_token.p95 == kEndless);
  CHECK(first_token.max == kEndless);
  result.settings.emplace_back(kPercentilesSetting, kOfCompleted);
  CHECK(summarize(result).total.latencies.time_to_first_token.p99 < milliseconds(51));
}

TEST_CASE("summary: a failure is endless only in latencies that its answer would have had") {
  const auto latencies_with = [](std::uint32_t output_tokens) {
    auto completed = answer(milliseconds(0), milliseconds(50), milliseconds(10), output_tokens);
    if (output_tokens == 0) completed.first_token = completed.last_token = nanoseconds(0);
    auto elsewhere = answer(milliseconds(0), milliseconds(50), milliseconds(10), 9);
    elsewhere.request_class = 1;
    const auto failed = failure(milliseconds(5), Outcome::kRefused);
    return summarize(run_of({completed, elsewhere, failed}, seconds(0), seconds(1))).total.latencies;
  };
  const auto vector = latencies_with(0), one_token = latencies_with(1), more = latencies_with(2);
  CHECK(vector.end_to_end.max == kEndless);
  CHECK(vector.time_to_first_token.max != kEndless);
  CHECK(vector.normalized_latency.max != kEndless);
  CHECK(one_token.time_to_first_token.max == kEndless);
  CHECK(one_token.time_per_output_token.max != kEndless);
  CHECK(more.time_per_output_token.max == kEndless);
}

TEST_CASE("summary: where nothing was completed there is no mean") {
  std::ostringstream out;
  const auto result = run_of({failure(milliseconds(5), Outcome::kRefused)}, seconds(0), seconds(1));
  print_summary(out, result, summarize(result));
  CHECK(out.str().find("end to end               -     inf") != std::string::npos);
}

TEST_CASE("summary: random runs have the counts found by brute force") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const auto result = random_run(seed);
    const auto summary = summarize(result);
    for (std::uint32_t i = 0; i < 2; ++i) {
      const auto records = counted(result, i);
      const auto& measures = summary.classes[i];
      const auto number = [&](auto question) {
        return static_cast<std::uint64_t>(std::count_if(records.begin(), records.end(), question));
      };
      const auto is_completed = [](const RequestRecord& r) { return r.outcome == Outcome::kCompleted; };
      CHECK(measures.name == result.classes[i].name);
      CHECK(measures.num_requests == records.size());
      CHECK(measures.num_completed == number(is_completed));
      const auto is_cancelled = [](const RequestRecord& r) { return r.outcome == Outcome::kCancelled; };
      CHECK(measures.num_cancelled() == number(is_cancelled));
      CHECK(measures.num_failed() == records.size() - number(is_completed) - number(is_cancelled));
      CHECK(measures.num_good == number([&](const auto& r) { return is_good(r, i == 0); }));
      CHECK(measures.num_checked == number([&](const auto& r) { return is_completed(r) && r.is_correct; }));
      CHECK(measures.num_wrong ==
            number([&](const auto& r) { return is_completed(r) && r.is_correct == false; }));
      CHECK(measures.offered_rate == doctest::Approx(static_cast<double>(records.size()) / 6));
      CHECK(measures.goodput == doctest::Approx(static_cast<double>(measures.num_good) / 6));
      for (std::size_t outcome = 0; outcome < kNumOutcomes; ++outcome)
        CHECK(measures.num_by_outcome[outcome] ==
              number([&](const auto& r) { return static_cast<std::size_t>(r.outcome) == outcome; }));
    }
    CHECK(summary.total.num_good == summary.classes[0].num_good + summary.classes[1].num_good);
    CHECK(summary.total.output_throughput ==
          doctest::Approx(summary.classes[0].output_throughput + summary.classes[1].output_throughput));
  }
}

TEST_CASE("summary: latencies count from the intended time, not from when it was sent") {
  auto late = answer(milliseconds(0), milliseconds(500), milliseconds(10), 3);
  late.sent = milliseconds(400);
  const auto summary = summarize(run_of({late}, seconds(0), seconds(1)));
  CHECK(summary.total.latencies.time_to_first_token.max == milliseconds(500));
  CHECK(summary.total.latencies.end_to_end.max == milliseconds(520));
  CHECK(summary.total.latencies.client_delay.max == milliseconds(400));
}

TEST_CASE("summary: a one-token answer has no time per output token and misses no objective of it") {
  auto result =
      run_of({answer(milliseconds(0), milliseconds(50), milliseconds(0), 1)}, seconds(0), seconds(1));
  result.classes[0].objectives.time_per_output_token = nanoseconds(1);
  const auto summary = summarize(result);
  CHECK(summary.total.latencies.time_per_output_token.count == 0);
  CHECK(summary.total.num_good == 1);
}

TEST_CASE("summary: an answer without text misses its time to first token") {
  auto empty = answer(milliseconds(0), milliseconds(50), milliseconds(0), 1);
  empty.first_token = empty.last_token = nanoseconds(0);
  empty.output_tokens = 0;
  auto result = run_of({empty}, seconds(0), seconds(1));
  CHECK(summarize(result).total.num_good == 1);
  CHECK(summarize(result).total.latencies.time_to_first_token.count == 0);
  CHECK(summarize(result).total.latencies.normalized_latency.count == 0);
  result.classes[0].objectives.time_to_first_token = seconds(9);
  CHECK(summarize(result).total.num_good == 0);
}

TEST_CASE("summary: an objective is met exactly at its limit") {
  const auto record = answer(milliseconds(0), milliseconds(50), milliseconds(10), 5);
  CHECK(meets_objectives(record, {milliseconds(50), milliseconds(10), milliseconds(90)}));
  CHECK_FALSE(
      meets_objectives(record, {milliseconds(50) - nanoseconds(1), milliseconds(10), milliseconds(90)}));
  CHECK_FALSE(
      meets_objectives(record, {milliseconds(50), milliseconds(10) - nanoseconds(1), milliseconds(90)}));
  CHECK_FALSE(
      meets_objectives(record, {milliseconds(50), milliseconds(10), milliseconds(90) - nanoseconds(1)}));
  CHECK_FALSE(meets_objectives(failure(milliseconds(0), Outcome::kTimedOut), {}));
}

TEST_CASE("summary: tokens count where their chunks fall, whichever requests they belong to") {
  // Ten chunks at 0.5 s, 1.5 s, … 9.5 s: three of them in [2 s, 5 s).
  const auto record = answer(milliseconds(0), milliseconds(500), seconds(1), 10);
  CHECK(tokens_delivered(record, {seconds(2), seconds(5)}) == doctest::Approx(3));
  const auto summary = summarize(run_of({record}, seconds(2), seconds(5)));
  CHECK(summary.total.num_requests == 0);
  CHECK(summary.total.output_throughput == doctest::Approx(1));
  CHECK(summary.total.total_throughput == doctest::Approx(1));  // the prompt was read before
  CHECK(summary.total.request_throughput == 0);
}

TEST_CASE("summary: chunks of several tokens share the server's count evenly") {
  auto record = answer(milliseconds(0), milliseconds(500), seconds(1), 4);
  record.output_tokens = 12;
  CHECK(tokens_delivered(record, {seconds(0), seconds(2)}) == doctest::Approx(6));
}

TEST_CASE("summary: without gaps tokens are spread from the first to the last") {
  auto record = answer(milliseconds(0), milliseconds(1000), seconds(1), 5);  // at 1 s … 5 s
  record.gaps_us.clear();
  CHECK(tokens_delivered(record, {seconds(0), seconds(3)}) == doctest::Approx(1 + 2));
  CHECK(tokens_delivered(record, {seconds(3), seconds(9)}) == doctest::Approx(2));
  CHECK(tokens_delivered(record, {seconds(6), seconds(9)}) == 0);
}

TEST_CASE("summary: windows side by side share all tokens among them") {
  const auto result = random_run(11);
  double whole = 0;
  double parts = 0;
  for (const auto& record : result.records) {
    whole += record.output_tokens;
    for (int i = 0; i < 40; ++i)
      parts += tokens_delivered(record, {milliseconds(i * 331), milliseconds((i + 1) * 331)});
  }
  CHECK(parts == doctest::Approx(whole));
}

TEST_CASE("summary: a completion counts in the window where it happens") {
  const auto before = answer(milliseconds(1900), milliseconds(200), milliseconds(0), 1);
  const auto inside = answer(milliseconds(2500), milliseconds(200), milliseconds(0), 1);
  const auto after = answer(milliseconds(3900), milliseconds(200), milliseconds(0), 1);
  const auto summary = summarize(run_of({before, inside, after}, seconds(2), seconds(4)));
  CHECK(summary.total.num_requests == 2);                           // inside and after
  CHECK(summary.total.request_throughput == doctest::Approx(1.0));  // before and inside, in two seconds
}

TEST_CASE("summary: under overload throughput is what was served, not what was offered") {
  // 10 requests a second for 10 s; the server ends one every 0.5 s.
  std::vector<RequestRecord> records;
  for (int i = 0; i < 100; ++i)
    records.push_back(
        answer(milliseconds(i * 100), milliseconds((i + 1) * 500 - i * 100), milliseconds(0), 1));
  const auto summary = summarize(run_of(records, seconds(0), seconds(10)));
  CHECK(summary.total.offered_rate == doctest::Approx(10));
  CHECK(summary.total.request_throughput == doctest::Approx(1.9));  // the 20th ends at 10 s
}

TEST_CASE("summary: without a window the whole run is measured") {
  auto result = run_of({answer(milliseconds(0), milliseconds(1000), seconds(1), 4)}, seconds(0), seconds(0));
  result.duration = seconds(4);
  const auto summary = summarize(result);
  CHECK(summary.total.num_completed == 1);
  CHECK(summary.total.output_throughput == doctest::Approx(1));
  CHECK(summary.total.request_throughput == doctest::Approx(0.25));
}

TEST_CASE("summary: an empty run is all zeros") {
  const auto summary = summarize(RunResult{});
  CHECK(summary.total.num_requests == 0);
  CHECK(summary.total.good_share() == 0);
  CHECK(summary.total.cached_share() == 0);
  CHECK(summary.total.request_throughput == 0);
}

TEST_CASE("summary: a record of an unknown class counts in the total only") {
  auto stray = answer(milliseconds(0), milliseconds(50), milliseconds(1), 2);
  stray.request_class = 7;
  const auto summary = summarize(run_of({stray}, seconds(0), seconds(1)));
  CHECK(summary.total.num_completed == 1);
  CHECK(summary.classes[0].num_completed == 0);
}

TEST_CASE("summary: the printed table names every outcome, wrong answers and warnings") {
  auto wrong = answer(milliseconds(0), milliseconds(50), milliseconds(10), 3);
  wrong.is_correct = false;
  auto result = run_of(
      {wrong, failure(milliseconds(5), Outcome::kTimedOut), failure(milliseconds(6), Outcome::kRefused)},
      seconds(0), seconds(1));
  result.warnings = {"no /metrics"};
  result.is_beyond_honest_rate = true;
  std::ostringstream out;
  print_summary(out, result, summarize(result));
  for (const auto* text : {"3 measured, 1 completed, 1 refused, 1 timed_out", "1 wrong of 1 checked",
                           "! no /metrics", "could not keep up", "first token"})
    CHECK(out.str().find(text) != std::string::npos);
}

}  // namespace
}  // namespace troupe::loadgen
