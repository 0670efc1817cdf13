// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/calibration.hpp"

#include <doctest/doctest.h>

#include "loadgen/client/http/completion_record.hpp"
#include "loadgen/client/load_driver.hpp"
#include "loadgen/client/server/null_server.hpp"

using namespace troupe::loadgen;
using namespace std::chrono_literals;

namespace {

class TwoRequests final : public ConversationSource {
 public:
  bool next(PlannedConversation& conversation) override {
    conversation.number = number_++;
    conversation.turns = {
        {.think_time = 0ns, .prompt_tokens = 1, .output_tokens = 5, .text = "x", .answer = ""}};
    return number_ <= 2;
  }

 private:
  std::uint64_t number_ = 0;
};

}  // namespace

TEST_CASE(
    "calibration: the null server sends what was asked for, and its notes are before the client's stamps") {
  std::chrono::milliseconds gap = 0ms;
  SUBCASE("all at once") {}
  SUBCASE("in regular gaps") { gap = 3ms; }
  NullServer server(gap);
  LoadSettings settings;
  settings.client.server.port = server.port();
  TwoRequests source;
  const TurnPrompts prompts{.words = [](const auto&, std::size_t) { return std::string("x"); }, .ids = {}};
  const auto run = run_load(settings, {RequestClass{}}, source, prompts, {});
  const auto sent = server.stop();
  REQUIRE(run.result.records.size() == 2);
  for (const auto& record : run.result.records) {
    REQUIRE_MESSAGE(record.outcome == Outcome::kCompleted, record.error);
    CHECK(record.output_tokens == 5);
    const auto& times = sent.at(request_id(record.conversation, 0));
    REQUIRE(times.size() == 5);
    CHECK(run.begin + record.first_token >= times.front());
    CHECK(run.begin + record.last_token >= times.back());
  }
}

TEST_CASE("calibration: the busiest second counts requests and chunks where they happened") {
  RunResult result;
  result.records.resize(3);
  result.records[0].sent = 900ms;
  result.records[0].first_token = 950ms;
  result.records[0].gaps_us = {20'000, 40'000, 5'000};  // 970, 1010, 1015 ms
  result.records[1].sent = 1100ms;
  result.records[2].sent = 1200ms;
  const auto busiest = busiest_second(result);
  CHECK(busiest.requests == 2);
  CHECK(busiest.chunks == 2);
  CHECK(busiest_second({}).requests == 0);
}

TEST_CASE("calibration: rates are said with two digits, and as a bound") {
  CHECK(calibration_text({.requests_per_second = 8765,
                          .chunks_per_second = 123'456,
                          .are_requests_at_least = false,
                          .are_chunks_at_least = true}) ==
        "up to 8700 requests/s and at least 120000 chunks/s");
  CHECK(calibration_text({}) == "up to 0 requests/s and up to 0 chunks/s");
}

TEST_CASE("calibration: it climbs until a load is not honest, and reports each step") {
  std::vector<CalibrationStep> steps;
  const auto result = calibrate(CalibrationEffort::kShort, [&](const auto& step) { steps.push_back(step); });
  REQUIRE(steps.size() >= 2);
  double best = 0;
  for (const auto& step : steps) {
    CHECK(step.is_honest == (step.start_delay_p99 < kHonestDelay && step.chunk_delay_p99 < kHonestDelay));
    if (step.is_honest) best = std::max(best, step.chunks_per_second);
  }
  CHECK(result.chunks_per_second <= best);
}
