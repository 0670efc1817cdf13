// SPDX-License-Identifier: Apache-2.0
// The client and the driver against a server that does what the test says. The
// only times that are checked are lower bounds, which slow machines keep too,
// and medians of differences between two clocks of one machine.
#include "loadgen/client/load_driver.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "loadgen/result/summary.hpp"
#include "tests/loadgen/client/scripted_server.hpp"

using namespace troupe::loadgen;
using namespace troupe::test;
using namespace std::chrono_literals;
using nlohmann::json;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

namespace {

class ListSource final : public ConversationSource {
 public:
  explicit ListSource(std::vector<PlannedConversation> list) : list_(std::move(list)) {}
  bool next(PlannedConversation& conversation) override {
    if (next_ == list_.size()) return false;
    conversation = list_[next_++];
    return true;
  }

 private:
  std::vector<PlannedConversation> list_;
  std::size_t next_ = 0;
};

std::vector<PlannedConversation> lone_requests(std::size_t count, nanoseconds gap) {
  std::vector<PlannedConversation> list(count);
  for (std::size_t i = 0; i < count; ++i) {
    list[i].number = i;
    list[i].start = gap * static_cast<int>(i);
    list[i].turns = {
        {.think_time = 0ns, .prompt_tokens = 2, .output_tokens = 8, .text = "say something", .answer = ""}};
  }
  return list;
}

const TurnPrompts kPlannedTexts{
    .words = [](const PlannedConversation& plan, std::size_t turn) { return plan.turns[turn].text; },
    .ids = {}};

LoadSettings settings_for(const ScriptedServer& server) {
  LoadSettings settings;
  settings.client.server.port = server.port();
  settings.sampling.model = "m";
  return settings;
}

LoadRun play(const LoadSettings& settings, std::vector<PlannedConversation> list,
             RequestClass request_class = {}) {
  ListSource source(std::move(list));
  return run_load(settings, {request_class}, source, kPlannedTexts, {});
}

RequestRecord play_one(const ScriptedServer& server, bool is_streamed = true) {
  auto settings = settings_for(server);
  settings.sampling.is_streamed = is_streamed;
  const auto run = play(settings, lone_requests(1, 0ns));
  REQUIRE(run.result.records.size() == 1);
  return run.result.records.front();
}

ScriptedServer::Script always(const ScriptedAnswer& answer) {
  return [answer](const ScriptedExchange&, std::size_t) { return answer; };
}

// Deterministic jitter: 0 to 3 ms.
microseconds jitter(std::size_t i) { return microseconds(i * 7919 % 3000); }

std::vector<microseconds> scripted_delays(std::size_t request) {
  std::vector<microseconds> delays = {20ms + jitter(request)};
  for (std::size_t i = 1; i < 8; ++i) delays.push_back(5ms + jitter(request + i));
  return delays;
}

template <class T>
T median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The server's notes, by conversation.
const ScriptedExchange& exchange_of(const ScriptedServer& server, const RequestRecord& record) {
  const auto mark = "X-Request-Id: loadgen-" + std::to_string(record.conversation) + "-" +
                    std::to_string(record.turn) + "\r\n";
  for (const auto& exchange : server.exchanges())
    if (exchange->head.find(mark) != std::string::npos) return *exchange;
  FAIL("no such request at the server: " << mark);
  std::abort();
}

}  // namespace

TEST_CASE(
    "load driver: times are never earlier than scripted, and agree with the server's own in the median") {
  ScriptedServer server(
      [](const ScriptedExchange&, std::size_t number) { return streamed_answer(scripted_delays(number)); });
  const auto run = play(settings_for(server), lone_requests(60, 4ms));
  server.stop();
  const auto& records = run.result.records;
  REQUIRE(records.size() == 60);

  std::vector<nanoseconds> lateness;  // of the client's stamps against the server's
  std::vector<std::int64_t> client_gaps;
  std::vector<std::int64_t> server_gaps;
  for (const auto& record : records) {
    REQUIRE(record.outcome == Outcome::kCompleted);
    CHECK(record.output_tokens == 8);
    CHECK(record.prompt_tokens == 7);
    CHECK(record.cached_tokens == 3);
    CHECK(record.server_queue == 1500us);
    CHECK(record.sent >= record.intended);
    const auto& exchange = exchange_of(server, record);
    const auto first_sent = exchange.sent[1] - run.begin;
    CHECK(record.first_token >= first_sent);
    CHECK(record.last_token >= exchange.sent[8] - run.begin);
    CHECK(record.finished >= record.last_token);
    CHECK(record.time_to_first_token() >= 20ms);
    CHECK(record.end_to_end() >= 20ms + 7 * 5ms);
    lateness.push_back(record.first_token - first_sent);
    REQUIRE(record.gaps_us.size() == 7);
    for (std::size_t i = 0; i < 7; ++i) {
      client_gaps.push_back(record.gaps_us[i]);
      server_gaps.push_back(
          std::chrono::duration_cast<microseconds>(exchange.sent[i + 2] - exchange.sent[i + 1]).count());
    }
  }
  MESSAGE("median lateness of the client's stamps: " << median(lateness).count() / 1000 << " us");
  CHECK(median(lateness) < 20ms);
  CHECK(std::abs(median(client_gaps) - median(server_gaps)) < 1000 + median(server_gaps) / 4);
}

TEST_CASE("load driver: percentiles of the summary are those of the script") {
  // Nine of ten answer after 10 ms, one after 150 ms.
  ScriptedServer server([](const ScriptedExchange&, std::size_t number) {
    return streamed_answer({number % 10 == 9 ? microseconds(150ms) : microseconds(10ms)});
  });
  const auto run = play(settings_for(server), lone_requests(100, 2ms));
  server.stop();
  std::vector<nanoseconds> scripted;  // what the server itself says it took
  for (const auto& exchange : server.exchanges()) scripted.push_back(exchange->sent[1] - exchange->received);
  std::sort(scripted.begin(), scripted.end());
  const auto ttft = summarize(run.result).total.latencies.time_to_first_token;
  CHECK(ttft.count == 100);
  // The histogram's buckets are 0.05 % wide at most.
  CHECK(ttft.p50 >= scripted[49] * 9995 / 10000);
  CHECK(ttft.p90 >= scripted[89] * 9995 / 10000);
  CHECK(ttft.p95 >= 149900us);
  CHECK(ttft.p99 >= 149900us);
  CHECK(ttft.p50 < ttft.p95);
}

TEST_CASE("load driver: latencies of an open loop include the server's stall (no coordinated omission)") {
  std::optional<SteadyTime> stall_end;
  ScriptedServer server([&](const ScriptedExchange& request, std::size_t) {
    if (!stall_end) stall_end = request.received + 200ms;
    const auto rest = std::max<nanoseconds>(*stall_end - request.received, 0ns);
    return streamed_answer({std::chrono::ceil<microseconds>(rest)});
  });
  auto settings = settings_for(server);
  SUBCASE("with a connection for each") {}
  SUBCASE("also when requests have to wait for the one connection") { settings.client.max_connections = 1; }
  const auto run = play(settings, lone_requests(20, 8ms));
  server.stop();
  REQUIRE(run.result.records.size() == 20);
  for (const auto& record : run.result.records) {
    CHECK(record.intended == 8ms * record.conversation);
    CHECK(record.time_to_first_token() >= *stall_end - run.begin - record.intended);
  }
  if (settings.client.max_connections > 1) return;
  CHECK(run.start_delay_p99 > 100ms);
  REQUIRE(run.result.warnings.size() == 1);
  CHECK(run.result.warnings[0].find("waited for one of the 1 connections") != std::string::npos);
}

TEST_CASE("load driver: a turn waits for its predecessor and its think time, and carries the real answer") {
  ScriptedServer server([](const ScriptedExchange&, std::size_t number) {
    ScriptedAnswer answer{.steps = {{.delay = 5ms, .bytes = event_stream_head()}}};
    answer.steps.push_back(
        {.delay = 0ms, .bytes = text_event("answer " + std::to_string(number)) + finish_events(2)});
    return answer;
  });
  PlannedConversation conversation;
  conversation.number = 3;
  conversation.system_text = "be brief";
  for (const char* text : {"first", "second", "third"})
    conversation.turns.push_back(
        {.think_time = 20ms, .prompt_tokens = 1, .output_tokens = 2, .text = text, .answer = "answer 1"});
  const auto run = play(settings_for(server), {conversation});
  server.stop();
  const auto& records = run.result.records;
  REQUIRE(records.size() == 3);
  CHECK(server.num_connections() == 1);
  for (std::size_t turn = 1; turn < 3; ++turn) {
    CHECK(records[turn].turn == turn);
    CHECK(records[turn].intended == records[turn - 1].finished + 20ms);
    CHECK(records[turn].sent >= records[turn].intended);
  }
  CHECK(records[0].is_correct == false);
  CHECK(records[1].is_correct == true);
  const auto last = json::parse(server.exchanges()[2]->body);
  const auto expected =
      json::parse(R"([{"role":"system","content":"be brief"},)"
                  R"({"role":"user","content":"first"},{"role":"assistant","content":"answer 0"},)"
                  R"({"role":"user","content":"second"},{"role":"assistant","content":"answer 1"},)"
                  R"({"role":"user","content":"third"}])");
  CHECK(last.at("messages") == expected);
}

TEST_CASE("load driver: requests carry what load generators send") {
  ScriptedServer server(always(streamed_answer({0us})));
  auto settings = settings_for(server);
  settings.client.api_key = "secret";
  settings.sampling.seed = 5;
  play(settings, lone_requests(1, 0ns),
       {.name = "exact", .objectives = {}, .ignore_eos = true, .max_tokens = 99});
  settings.endpoint = Endpoint::kCompletions;
  settings.sampling.is_streamed = false;
  play(settings, lone_requests(1, 0ns));
  server.stop();
  const auto& chat = *server.exchanges()[0];
  CHECK(chat.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"));
  CHECK(chat.head.find("Authorization: Bearer secret\r\n") != std::string::npos);
  CHECK(json::parse(chat.body) ==
        json::parse(R"({"model":"m","messages":[{"role":"user","content":"say something"}],"stream":true,)"
                    R"("stream_options":{"include_usage":true},"temperature":0.0,"seed":5,"max_tokens":8,)"
                    R"("min_tokens":8,"ignore_eos":true})"));
  const auto& completion = *server.exchanges()[1];
  CHECK(completion.head.starts_with("POST /v1/completions HTTP/1.1\r\n"));
  CHECK(
      json::parse(completion.body) ==
      json::parse(
          R"({"model":"m","prompt":"say something","stream":false,"temperature":0.0,"seed":5,"max_tokens":8})"));
}

TEST_CASE("load driver: a closed loop keeps as many requests under way as there are users") {
  ScriptedServer server(always(streamed_answer({10ms})));
  auto settings = settings_for(server);
  settings.num_users = 3;
  const auto run = play(settings, lone_requests(12, 0ns));
  server.stop();
  REQUIRE(run.result.records.size() == 12);
  CHECK(server.num_connections() == 3);
  for (const auto& record : run.result.records) {
    const auto overlaps = [&](const RequestRecord& other) {
      return other.sent <= record.sent && record.sent < other.finished;
    };
    CHECK(std::count_if(run.result.records.begin(), run.result.records.end(), overlaps) <= 3);
    CHECK(record.outcome == Outcome::kCompleted);
  }
}

TEST_CASE("load driver: warm-up and cool-down are cut off the measured window") {
  ScriptedServer server(always(streamed_answer({1ms})));
  auto settings = settings_for(server);
  settings.duration = 100ms;
  settings.plan_fills_duration = true;
  settings.warm_up = 30ms;
  settings.cool_down = 20ms;
  const auto run = play(settings, lone_requests(50, 10ms));  // half of them too late
  CHECK(run.result.records.size() <= 11);
  CHECK(run.result.measured_from == 30ms);
  CHECK(run.result.measured_until == 80ms);
  CHECK(summarize(run.result).total.num_requests == 5);  // at 30, 40, … 70 ms
}

TEST_CASE("load driver: what is not answered when the grace is over is unfinished") {
  ScriptedServer server(always({.steps = {{.delay = 0ms, .bytes = event_stream_head() + text_event("a")}},
                                .end = ScriptedAnswer::End::kHang}));
  auto settings = settings_for(server);
  settings.duration = 250ms;
  settings.drain_grace = 10ms;
  const auto run = play(settings, lone_requests(2, 0ns));
  REQUIRE(run.result.records.size() == 2);
  for (const auto& record : run.result.records) {
    CHECK(record.outcome == Outcome::kUnfinished);
    CHECK(record.status == 200);
    CHECK(record.first_token > 0ns);
    CHECK(record.finished >= 260ms);
    CHECK(record.error == "the run ended");
  }
}

TEST_CASE("load driver: every way to fail has its outcome and a line that says why") {
  using End = ScriptedAnswer::End;
  const auto outcome_of = [](const ScriptedAnswer& answer, Outcome outcome, const std::string& error) {
    ScriptedServer server(always(answer));
    const auto record = play_one(server);
    CHECK(record.outcome == outcome);
    CHECK_MESSAGE(record.error.find(error) != std::string::npos, record.error);
    CHECK(record.finished >= record.sent);
  };
  outcome_of({.steps = {}, .end = End::kClose}, Outcome::kUnreachable,
             "closed the connection before it answered");
  outcome_of({.steps = {}, .end = End::kReset}, Outcome::kUnreachable, "reset");
  outcome_of({.steps = {{.delay = 0ms, .bytes = "HTTP/1.1 200 OK\r\nContent-"}}, .end = End::kClose},
             Outcome::kUnreachable, "before it answered");
  outcome_of({.steps = {{.delay = 0ms, .bytes = event_stream_head() + text_event("a")}}, .end = End::kClose},
             Outcome::kBroken, "in mid-answer");
  outcome_of({.steps = {{.delay = 0ms, .bytes = event_stream_head() + chunk_of("data: oops\n\n")}},
              .end = End::kHang},
             Outcome::kBroken, "expected a chunk in JSON, got 'oops'");
  outcome_of(
      whole_response("429 Too Many Requests", R"({"error":{"message":"queue full"}})", "Retry-After: 1\r\n"),
      Outcome::kRefused, "HTTP 429: queue full (Retry-After: 1)");
  outcome_of(whole_response("500 Internal Server Error", "<html>"), Outcome::kRejected, "HTTP 500: <html>");
}

TEST_CASE("load driver: a request is sent once, also if it is refused") {
  ScriptedServer server(always(whole_response("429 Too Many Requests", "", "Retry-After: 0\r\n")));
  CHECK(play_one(server).outcome == Outcome::kRefused);
  server.stop();
  CHECK(server.exchanges().size() == 1);
}

TEST_CASE("load driver: a server that never answers times out by our clock") {
  ScriptedServer server(always({.steps = {}, .end = ScriptedAnswer::End::kHang}));
  auto settings = settings_for(server);
  settings.client.timeout = 200ms;
  const auto run = play(settings, lone_requests(1, 0ns));
  REQUIRE(run.result.records.size() == 1);
  CHECK(run.result.records[0].outcome == Outcome::kTimedOut);
  CHECK(run.result.records[0].finished >= 200ms);
  CHECK(run.result.records[0].error == "no end of the answer in time");
}

TEST_CASE("load driver: a closed idle connection is noticed, and another one made") {
  // Keeps the connection by what it says, and closes it nevertheless.
  auto answer = streamed_answer({0us});
  answer.end = ScriptedAnswer::End::kClose;
  ScriptedServer server(always(answer));
  const auto run = play(settings_for(server), lone_requests(3, 150ms));
  for (const auto& record : run.result.records)
    CHECK_MESSAGE(record.outcome == Outcome::kCompleted, record.error);
}

TEST_CASE("load driver: when the server dies, the run is given up and what was measured is kept") {
  std::promise<void> third_came;
  ScriptedServer server([&](const ScriptedExchange&, std::size_t number) {
    if (number == 2) third_came.set_value();
    return streamed_answer({0us});
  });
  std::thread killer([&] {
    third_came.get_future().wait();
    server.stop();
  });
  auto settings = settings_for(server);
  settings.client.max_connections = 1;  // the third comes when two are answered; others may wait
  settings.max_unreachable_in_a_row = 5;
  const auto run = play(settings, lone_requests(10'000, 3ms));
  killer.join();
  CHECK(run.was_given_up);
  const auto& records = run.result.records;
  CHECK(records.size() >= 7);
  CHECK(records.size() < 10'000);
  CHECK(std::count_if(records.begin(), records.end(),
                      [](const auto& r) { return r.outcome == Outcome::kCompleted; }) >= 2);
  CHECK(records.back().error.find("Connection refused") != std::string::npos);
  const auto& warnings = run.result.warnings;
  CHECK(std::any_of(warnings.begin(), warnings.end(), [](const auto& warning) {
    return warning.starts_with("given up: 5 requests in a row did not reach http://127.0.0.1:");
  }));
}

TEST_CASE("load driver: an interrupt ends the run early and keeps what there is") {
  ScriptedServer server([](const ScriptedExchange&, std::size_t number) {
    if (number == 40) std::raise(SIGINT);
    return number < 40 ? streamed_answer({0us})
                       : ScriptedAnswer{.steps = {}, .end = ScriptedAnswer::End::kHang};
  });
  auto settings = settings_for(server);
  settings.stops_on_signals = true;
  const auto run = play(settings, lone_requests(10'000, 3ms));
  CHECK(run.was_interrupted);
  CHECK(run.result.records.size() >= 41);
  CHECK(run.result.records.size() < 10'000);
  CHECK(run.result.records.front().outcome == Outcome::kCompleted);
  CHECK(run.result.records.back().outcome == Outcome::kUnfinished);
}

TEST_CASE("load driver: turns after a failed one are not sent, and it says so") {
  ScriptedServer server(always(whole_response("500 Internal Server Error", "")));
  PlannedConversation conversation;
  conversation.turns.resize(4);
  const auto run = play(settings_for(server), {conversation});
  CHECK(run.result.records.size() == 1);
  REQUIRE(run.result.warnings.size() == 1);
  CHECK(run.result.warnings[0] == "3 later turns were not sent because an earlier one had failed");
}

TEST_CASE("load driver: a plan that breaks off ends the run with a warning, or at once if nothing was sent") {
  class BrokenSource final : public ConversationSource {
   public:
    explicit BrokenSource(int num_good) : num_good_(num_good) {}
    bool next(PlannedConversation& conversation) override {
      if (num_good_-- == 0) throw std::runtime_error("line 7: expected a number");
      conversation = lone_requests(1, 0ns).front();
      return true;
    }

   private:
    int num_good_;
  };
  ScriptedServer server(always(streamed_answer({0us})));
  BrokenSource late(2);
  const auto run = run_load(settings_for(server), {{}}, late, kPlannedTexts, {});
  CHECK(run.result.records.size() == 2);
  CHECK(run.result.warnings.at(0) == "the plan broke off: line 7: expected a number");
  BrokenSource early(0);
  CHECK_THROWS_WITH(run_load(settings_for(server), {{}}, early, kPlannedTexts, {}),
                    "line 7: expected a number");
}

TEST_CASE("load driver: an empty plan is over at once") {
  ScriptedServer server(always({}));
  CHECK(play(settings_for(server), {}).result.records.empty());
}

TEST_CASE(
    "load driver: a client that hangs up closes its connection, and counts as neither completed nor failed") {
  // The first answer never ends.
  ScriptedServer server([](const ScriptedExchange&, std::size_t number) {
    auto answer = streamed_answer({0us, 0us});
    if (number > 0) return answer;
    answer.steps.resize(2);
    answer.end = ScriptedAnswer::End::kHang;
    return answer;
  });
  auto plan = lone_requests(2, 100ms);
  plan[0].turns[0].cancelled_after = 60ms;
  plan[0].turns.push_back(plan[0].turns[0]);
  ListSource source(plan);
  const auto run = run_load(settings_for(server), {RequestClass{}}, source, kPlannedTexts, {});
  server.stop();
  REQUIRE(run.result.records.size() == 2);
  const auto& record = run.result.records[0];
  CHECK(record.outcome == Outcome::kCancelled);
  CHECK(record.finished >= 60ms);
  CHECK(record.error == "its client hung up, as planned");
  const auto summary = summarize(run.result);
  CHECK(summary.total.num_cancelled() == 1);
  CHECK(summary.total.num_completed == 1);
  CHECK(summary.total.num_failed() == 0);
  CHECK(run.result.warnings.empty());
}

TEST_CASE("load driver: a client that stops reading keeps its connection until its time is up") {
  std::string much(200'000, 'x');
  ScriptedServer server([&](const ScriptedExchange&, std::size_t) {
    auto answer = streamed_answer({0us});
    answer.steps.resize(1);
    for (int i = 0; i < 100; ++i) answer.steps.push_back({.delay = 0us, .bytes = text_event(much)});
    answer.end = ScriptedAnswer::End::kHang;
    return answer;
  });
  auto plan = lone_requests(1, 0ms);
  plan[0].turns[0].stops_reading_after = 0ms;
  ListSource source(plan);
  auto settings = settings_for(server);
  settings.client.timeout = 300ms;
  const auto run = run_load(settings, {RequestClass{}}, source, kPlannedTexts, {});
  server.stop();
  REQUIRE(run.result.records.size() == 1);
  CHECK(run.result.records[0].outcome == Outcome::kCancelled);
  CHECK(run.result.records[0].error == "its client stopped reading, as planned");
  CHECK(run.result.records[0].finished >= 300ms);
  CHECK(run.result.records[0].gaps_us.size() < 90);
}

TEST_CASE(
    "load driver: an answer that comes after its client stopped reading is not read, nor spoils the next") {
  ScriptedServer server([](const ScriptedExchange&, std::size_t) {
    auto answer =
        whole_response("200 OK", R"({"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":)"
                                 R"({"prompt_tokens":1,"completion_tokens":1}})");
    answer.steps[0].delay = 20ms;
    return answer;
  });
  auto plan = lone_requests(2, 100ms);
  plan[0].turns[0].stops_reading_after = 0ms;
  auto settings = settings_for(server);
  settings.sampling.is_streamed = false;
  settings.client.timeout = 300ms;
  const auto run = play(settings, plan);
  server.stop();
  REQUIRE(run.result.records.size() == 2);
  const auto stalled_first = run.result.records[0].conversation == 0;
  const auto& stalled = run.result.records[stalled_first ? 0 : 1];
  CHECK(stalled.outcome == Outcome::kCancelled);
  CHECK(stalled.error == kStoppedReading);
  CHECK(stalled.finished >= 300ms);
  CHECK(run.result.records[stalled_first ? 1 : 0].outcome == Outcome::kCompleted);
  CHECK(server.num_connections() == 2);
}
