// SPDX-License-Identifier: Apache-2.0
#include "loadgen/report/report.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <stack>

namespace troupe::loadgen {
namespace report_test {
namespace {

std::string page_of(const std::vector<StoredRun>& runs, const std::string& title = "t") {
  ReportText text;
  text.title = title;
  return report_html(runs, text);
}

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kHostile = "</title><script>alert(1)</script><img src=x onerror='a()'>\"&";

StoredRun run_of(const std::string& server, double rate, int seed, std::size_t num_requests,
                 std::size_t num_gaps) {
  StoredRun run;
  run.result.name = server + "-" + std::to_string(seed);
  run.result.settings = {{"server", server}, {"seed", std::to_string(seed)}};
  run.result.classes = {
      RequestClass{.name = "chat", .objectives = {milliseconds(200), milliseconds(30), seconds(2)}}};
  run.result.offered_rate = rate;
  run.result.duration = seconds(60);
  std::mt19937_64 engine(static_cast<std::uint64_t>(seed));
  std::exponential_distribution<double> draw(1.0);
  for (std::size_t i = 0; i < num_requests; ++i) {
    RequestRecord record;
    record.intended = record.sent = microseconds(i * 59'000'000 / num_requests);
    record.first_token = record.intended + microseconds(static_cast<int>(100'000 * draw(engine)) + 1);
    record.last_token = record.first_token;
    for (std::size_t gap = 0; gap < num_gaps; ++gap) {
      record.gaps_us.push_back(static_cast<std::uint32_t>(20'000 * draw(engine)));
      record.last_token += microseconds(record.gaps_us.back());
    }
    record.finished = record.last_token;
    record.prompt_tokens = 20;
    record.output_tokens = static_cast<std::uint32_t>(num_gaps + 1);
    record.outcome = i % 17 == 0 ? Outcome::kBroken : Outcome::kCompleted;
    if (record.outcome == Outcome::kBroken) record.error = kHostile;
    run.result.records.push_back(record);
  }
  for (int i = 0; i < 60; ++i)
    run.result.samples.push_back({.time = seconds(i),
                                  .num_running = 3,
                                  .num_waiting = 1,
                                  .pages_used = 4,
                                  .pages_total = 16,
                                  .batch_tokens = 9,
                                  .generation_tokens = 10.0 * i});
  run.summary = summarize(run.result);
  return run;
}

std::vector<StoredRun> small_sweep() {
  std::vector<StoredRun> runs;
  for (const auto* server : {"cache off", "cache on"}) {
    for (const double rate : {2.0, 4.0}) {
      for (const int seed : {1, 2}) runs.push_back(run_of(server, rate, seed, 100, 5));
    }
  }
  return runs;
}

// The first place where tags do not match, or nothing.
std::string unbalanced_tag(const std::string& html) {
  std::stack<std::string> open;
  for (auto begin = html.find('<'); begin != std::string::npos; begin = html.find('<', begin + 1)) {
    const auto end = html.find('>', begin);
    if (end == std::string::npos) return html.substr(begin, 40);
    const auto tag = html.substr(begin + 1, end - begin - 1);
    const auto name =
        tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" />", 1) - (tag[0] == '/' ? 1 : 0));
    if (tag[0] == '!' || name == "meta" || tag.back() == '/') continue;
    if (tag[0] != '/')
      open.push(name);
    else if (open.empty() || open.top() != name)
      return "</" + name + "> after <" + (open.empty() ? "" : open.top()) + ">";
    else
      open.pop();
  }
  return open.empty() ? "" : "<" + open.top() + "> is never closed";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("report: of one run it has figures, distributions and time lines") {
  const std::vector<StoredRun> runs = {run_of("s", 4, 1, 200, 8)};
  const auto page = report_html(runs, {.title = "One run",
                                       .description = "why",
                                       .paper = "a paper",
                                       .expected = "more",
                                       .notes = {"A run failed."}});
  for (const auto* part : {"<h1>One run</h1>", "why", "Paper: a paper", "Expected: more", "A run failed.",
                           "Time to first token", "Inter-token latency over time", "KV pages in use",
                           "12 of 200 requests were not completed", "prefers-color-scheme:dark"})
    CHECK_MESSAGE(contains(page, part), std::string(part));
  CHECK(unbalanced_tag(page) == "");
  CHECK_FALSE(contains(page, "Comparison"));
}

TEST_CASE("report: of a sweep it has curves over the load and a comparison") {
  const auto runs = small_sweep();
  const auto page = page_of(runs, "Sweep");
  for (const auto* part :
       {"Throughput against latency", "Goodput", "cache on <small>against cache off", "4 requests/s", "1×"})
    CHECK_MESSAGE(contains(page, part), std::string(part));
  CHECK(unbalanced_tag(page) == "");
}

TEST_CASE("report: a difference that may be chance is marked so") {
  std::vector<StoredRun> runs = {run_of("a", 4, 1, 100, 5), run_of("a", 4, 2, 100, 5),
                                 run_of("b", 4, 3, 100, 5), run_of("b", 4, 4, 100, 5)};
  runs[2].result.settings[1].second = "1";
  runs[3].result.settings[1].second = "2";
  const auto page = page_of(runs);
  CHECK(contains(page, "≈ "));
  CHECK_FALSE(contains(page, "nothing is known of chance"));
}

TEST_CASE("report: endless figures are not called the same, and means of the completed are marked") {
  std::vector<StoredRun> runs = {run_of("a", 4, 1, 100, 5), run_of("a", 4, 2, 100, 5),
                                 run_of("b", 4, 1, 100, 5), run_of("b", 4, 2, 100, 5)};
  CHECK(contains(page_of(runs), "endless in 2 of 2 → 2 of 2 seeds"));
  CHECK_FALSE(contains(page_of(runs), "whose shares differ"));
  for (auto& record : runs[2].result.records) record.outcome = Outcome::kCompleted;
  runs[2].summary = summarize(runs[2].result);
  CHECK(contains(page_of(runs), "endless in 2 of 2 → 1 of 2 seeds"));
  CHECK(contains(page_of(runs), "end to end mean <small>of completed requests, whose shares differ"));
}

TEST_CASE("report: a seed that came twice on one side has one partner") {
  std::vector<StoredRun> runs = {run_of("a", 4, 1, 100, 5), run_of("a", 4, 1, 100, 5),
                                 run_of("b", 4, 1, 100, 5), run_of("b", 4, 2, 100, 5)};
  CHECK(contains(page_of(runs), "endless in 1 of 1 → 1 of 1 seeds"));
}

TEST_CASE("report: with one seed it says that nothing is known of chance, and calls nothing better") {
  const std::vector<StoredRun> runs = {run_of("a", 4, 1, 100, 3), run_of("b", 4, 2, 100, 3)};
  const auto page = page_of(runs);
  CHECK(contains(page, "nothing is known of chance"));
  CHECK_FALSE(contains(page, "<span class=\"good\">"));
  CHECK_FALSE(contains(page, "<span class=\"bad\">"));
}

TEST_CASE("report: two runs of other loads are compared all the same") {
  const std::vector<StoredRun> runs = {run_of("a", 4, 1, 100, 3), run_of("b", 5, 2, 100, 3)};
  CHECK(contains(page_of(runs), "4 requests/s → 5 requests/s"));
}

TEST_CASE("report: hostile texts are shown, never obeyed") {
  auto runs = small_sweep();
  for (auto& run : runs) {
    run.origin = kHostile;
    run.result.name = kHostile;
    run.result.warnings = {kHostile};
    run.result.settings.emplace_back(kHostile, kHostile);
    run.result.classes.push_back(RequestClass{.name = kHostile, .objectives = {}});
    run.summary = summarize(run.result);
  }
  runs[0].result.settings[0].second = kHostile;
  const auto page = report_html(runs, {.title = kHostile,
                                       .description = kHostile,
                                       .paper = kHostile,
                                       .expected = kHostile,
                                       .notes = {kHostile}});
  CHECK_FALSE(contains(page, "<script"));
  CHECK_FALSE(contains(page, "<img"));
  CHECK(contains(page, "&lt;script&gt;"));
  CHECK(unbalanced_tag(page) == "");
}

TEST_CASE("report: it loads nothing and runs nothing") {
  auto runs = small_sweep();
  for (auto& run : runs) {
    for (auto& record : run.result.records) record.error.clear();
  }
  const auto page = page_of(runs);
  for (const auto* part : {"http:", "https:", "<script", "<link", "url(", "@import", "src=", "href="})
    CHECK_MESSAGE(!contains(page, part), std::string(part));
}

TEST_CASE("report: doubts come first") {
  std::vector<StoredRun> runs = {run_of("s", 4, 1, 100, 3)};
  runs[0].result.is_beyond_honest_rate = true;
  runs[0].result.is_simulated = true;
  const auto page = page_of(runs);
  CHECK(page.find("The generator could not keep up") < page.find("<h2>"));
  CHECK(contains(page, "Simulated, not measured"));
}

TEST_CASE("report: doubts that differ in numbers only are one, and it says so") {
  auto runs = small_sweep();
  runs[0].result.warnings = {"late by 2.5 ms"};
  runs[1].result.warnings = {"late by 17 ms"};
  runs[2].result.warnings = {"no /metrics"};
  const auto page = page_of(runs);
  CHECK(contains(page, "late by 2.5 ms (numbers of the first run) <small>cache off-1, cache off-2</small>"));
  CHECK_FALSE(contains(page, "late by 17 ms"));
  CHECK(contains(page, "no /metrics <small>cache off-1</small>"));
}

TEST_CASE("report: a run without requests is a page that says so") {
  std::vector<StoredRun> runs(1);
  const auto page = page_of(runs);
  CHECK(contains(page, "No request was sent."));
  CHECK(unbalanced_tag(page) == "");
}

TEST_CASE("report: a page of many requests is not larger than one of some") {
  std::vector<StoredRun> runs = {run_of("s", 4, 1, 2'000, 10)};
  const auto small = page_of(runs).size();
  runs = {run_of("s", 4, 1, 200'000, 10)};
  const auto large = page_of(runs).size();
  CHECK(small < 120'000);
  CHECK(large < 120'000);
}

}  // namespace
}  // namespace report_test
}  // namespace troupe::loadgen
