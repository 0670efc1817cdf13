// SPDX-License-Identifier: Apache-2.0
// Answers that go on without their clients: responses in the background, and streams
// that are taken up again.
#include "http/server/detached_answers.hpp"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <boost/json/parse.hpp>

#include "tests/http/running_server.hpp"
#include "tests/support/eventually.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr std::string_view kResumable =
    R"({"stream":true,"stream_options":{"resumable":true},"messages":[{"role":"user","content":"hi"}]})";

std::string background(std::string_view more = "") {
  return post_request("/v1/responses", std::string(R"({"input":"hi","background":true)").append(more) + "}");
}

boost::json::object object_of(const TestResponse& response) {
  REQUIRE_MESSAGE(response.status == 200, response.body);
  return boost::json::parse(response.body).as_object();
}

TestResponse ask(RunningServer& server, const std::string& request) {
  TestClient client(server.port());
  client.send(request);
  return client.read_response();
}

boost::json::object response_of(RunningServer& server, const std::string& id) {
  return object_of(ask(server, get_request("/v1/responses/" + id)));
}

Finished stored_end() {
  return {.reason = FinishReason::kStop,
          .stop_string = {},
          .stop_token = {},
          .usage = {.prompt_tokens = 3, .completion_tokens = 2},
          .is_stored = true};
}

Finished cancelled_end() {
  return {.reason = FinishReason::kCancelled, .stop_string = {}, .stop_token = {}, .usage = {}};
}

std::string delete_request(const std::string& id) {
  return "DELETE /v1/responses/" + id + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
}

// Begins one, and lets the script journal it. Its id.
std::string begin(RunningServer& server, RequestId number) {
  TestClient client(server.port());
  client.send(background());
  server.script().deliver(server.script().wait_for_request(number), Journaled{});
  const auto object = object_of(client.read_response());
  CHECK(object.at("status") == "queued");
  CHECK(object.at("background") == true);
  return std::string(object.at("id").as_string());
}

// From the event that has this text on.
std::string from_event(const std::string& body, const std::string& text) {
  const auto at = body.find(text);
  REQUIRE(at != std::string::npos);
  return body.substr(body.rfind("event: ", at));
}

}  // namespace

TEST_CASE("background: the client hears of it when it is journaled, and asks until it is answered") {
  RunningServer server;
  EngineScript& script = server.script();
  const std::string id = begin(server, 1);
  const GenerationRequest request = script.submitted(1).request;
  REQUIRE(request.background);
  CHECK(boost::json::parse(request.background->body).as_object().at("input") == "hi");
  CHECK(!request.background->is_journaled);
  CHECK(request.turn->must_be_stored);
  CHECK(response_of(server, id).at("status") == "queued");
  script.deliver(1, Accepted{.prompt_tokens = 3});
  script.deliver(1, TextDelta{.text = "Hel", .usage = {}});
  auto object = response_of(server, id);
  CHECK(object.at("status") == "in_progress");
  CHECK(object.at("output").at(0).at("content").at(0).at("text") == "Hel");
  // The store has it from then on.
  script.deliver(1, TextDelta{.text = "lo", .usage = {}});
  script.stored[id] = {.id = id, .model = "demo", .settings = R"("tool_choice":"auto")", .output = "Hello"};
  script.deliver(1, stored_end());
  object = response_of(server, id);
  CHECK(object.at("status") == "completed");
  CHECK(object.at("output").at(0).at("content").at(0).at("text") == "Hello");
}

TEST_CASE("background: a client that goes away cancels nothing; a stream is taken up at any event") {
  RunningServer server;
  EngineScript& script = server.script();
  TestClient client(server.port());
  client.send(background(R"(,"stream":true)"));
  script.deliver(script.wait_for_request(1), Journaled{});
  const std::string head = client.read_until("response.in_progress");
  const auto at = head.find("resp_");
  const std::string id = head.substr(at, head.find('"', at) - at);
  script.deliver(1, Accepted{.prompt_tokens = 3});
  script.deliver(1, TextDelta{.text = "one ", .usage = {}});
  client.read_until("one ");
  client.reset();
  script.deliver(1, TextDelta{.text = "two ", .usage = {}});
  // Somebody follows from the middle, and gets the end as it comes.
  TestClient second(server.port());
  second.send(get_request("/v1/responses/" + id + "?stream=true&starting_after=4"));
  CHECK(second.read_until("two ").find("one ") == std::string::npos);
  script.deliver(1, TextDelta{.text = "three", .usage = {}});
  script.deliver(1, stored_end());
  second.read_until("response.completed");
  CHECK(!script.submitted(1).is_cancelled);
  const auto whole = ask(server, get_request("/v1/responses/" + id + "?stream=true")).body;
  const auto data = sse_data(whole);
  for (std::size_t i = 0; i < data.size(); ++i) {
    CHECK(boost::json::parse(data[i]).as_object().at("sequence_number") == i);
    const auto rest =
        ask(server, get_request("/v1/responses/" + id + "?stream=true&starting_after=" + std::to_string(i)));
    REQUIRE(rest.status == 200);
    if (i + 1 < data.size())
      CHECK(rest.body == from_event(whole, "\"sequence_number\":" + std::to_string(i + 1) + ","));
    else
      CHECK(rest.body.empty());
  }
}

TEST_CASE("background: a cancel is answered at its end, and its stream ends") {
  RunningServer server;
  EngineScript& script = server.script();
  const std::string id = begin(server, 1);
  script.deliver(1, Accepted{.prompt_tokens = 3});
  script.deliver(1, TextDelta{.text = "on", .usage = {}});
  TestClient follower(server.port());
  follower.send(get_request("/v1/responses/" + id + "?stream=true"));
  follower.read_until("\"delta\":\"on\"");
  TestClient canceller(server.port());
  canceller.send(post_request("/v1/responses/" + id + "/cancel", ""));
  CHECK(script.wait_until_cancelled(1));
  CHECK(response_of(server, id).at("status") == "in_progress");
  script.deliver(1, cancelled_end());
  CHECK(object_of(canceller.read_response()).at("status") == "cancelled");
  CHECK(follower.read_until("0\r\n\r\n").find("event: response.cancelled") != std::string::npos);
  CHECK(object_of(ask(server, post_request("/v1/responses/" + id + "/cancel", ""))).at("status") ==
        "cancelled");
  CHECK(response_of(server, id).at("status") == "cancelled");
  CHECK(eventually([&] { return script.has_ended_journal(id); }));
  CHECK(ask(server, post_request("/v1/responses/resp_unknown/cancel", "")).status == 404);
}

TEST_CASE("background: a cancel or a delete that comes too late finds the response stored") {
  for (const bool deletes : {false, true}) {
    RunningServer server;
    EngineScript& script = server.script();
    const std::string id = begin(server, 1);
    script.deliver(1, Accepted{.prompt_tokens = 3});
    TestClient client(server.port());
    client.send(deletes ? delete_request(id) : post_request("/v1/responses/" + id + "/cancel", ""));
    CHECK(script.wait_until_cancelled(1));
    script.stored[id] = {.id = id, .model = "demo", .settings = R"("tool_choice":"auto")", .output = "Hello"};
    script.deliver(1, stored_end());
    const auto object = object_of(client.read_response());
    if (deletes)
      CHECK(object.at("deleted") == true);
    else
      CHECK(object.at("status") == "completed");
  }
}

TEST_CASE("background: cancelled while it waits to be asked again, it leaves the journal") {
  RunningServer server;
  EngineScript& script = server.script();
  const std::string id = begin(server, 1);
  script.deliver(1, Failed{{.kind = ApiErrorKind::kWaitedTooLong, .message = "too long"}});
  CHECK(object_of(ask(server, post_request("/v1/responses/" + id + "/cancel", ""))).at("status") ==
        "cancelled");
  CHECK(script.has_ended_journal(id));
  CHECK(script.num_submitted() == 1);
}

TEST_CASE("background: an engine that ends has no end of it") {
  RunningServer server;
  EngineScript& script = server.script();
  const std::string id = begin(server, 1);
  script.deliver(1, Accepted{.prompt_tokens = 3});
  script.deliver(1, cancelled_end());  // as a drain does
  CHECK(response_of(server, id).at("status") == "in_progress");
  CHECK(!script.has_ended_journal(id));
}

TEST_CASE(
    "background: refused before it is journaled is refused; later it is asked again until there is room") {
  RunningServer server;
  EngineScript& script = server.script();
  TestClient client(server.port());
  client.send(background());
  script.deliver(script.wait_for_request(1), Failed{{.kind = ApiErrorKind::kOverloaded, .message = "full"}});
  CHECK(client.read_response().status == 429);
  const std::string id = begin(server, 2);
  script.deliver(2, Failed{{.kind = ApiErrorKind::kWaitedTooLong, .message = "too long"}});
  CHECK(response_of(server, id).at("status") == "queued");
  REQUIRE(script.wait_for_request(3) == 3);
  CHECK(script.submitted(3).request.background->is_journaled);
  CHECK(script.submitted(3).request.id == id);
  script.deliver(3, Journaled{});
  script.deliver(3, Accepted{.prompt_tokens = 3});
  CHECK(response_of(server, id).at("status") == "in_progress");
  script.deliver(3, Failed{{.kind = ApiErrorKind::kInternal, .message = "broken"}});
  const auto object = response_of(server, id);
  CHECK(object.at("status") == "failed");
  CHECK(object.at("error").at("message") == "broken");
}

TEST_CASE("background: it needs the store, and others can't find it") {
  RunningServer server([](ServerOptions& options) {
    options.api_keys = {{"a", KeyDigest("key-a")}, {"b", KeyDigest("key-b")}};
  });
  const auto as = [](const std::string& tenant) { return "Authorization: Bearer key-" + tenant + "\r\n"; };
  TestClient client(server.port());
  client.send(post_request("/v1/responses", R"({"input":"hi","background":true})", as("a")));
  server.script().deliver(server.script().wait_for_request(1), Journaled{});
  const std::string id(object_of(client.read_response()).at("id").as_string());
  CHECK(ask(server, get_request("/v1/responses/" + id, as("a"))).status == 200);
  CHECK(ask(server, get_request("/v1/responses/" + id, as("b"))).status == 404);
  CHECK(ask(server, get_request("/v1/responses/" + id + "?stream=true", as("b"))).status == 404);
  CHECK(ask(server, post_request("/v1/responses/" + id + "/cancel", "", as("b"))).status == 404);
  const auto refused = ask(
      server, post_request("/v1/responses", R"({"input":"hi","background":true,"store":false})", as("a")));
  CHECK(refused.status == 400);
  CHECK(refused.body.find("background must be false with") != std::string::npos);
  const auto wrong =
      ask(server, get_request("/v1/responses/" + id + "?stream=true&starting_after=x", as("a")));
  CHECK(wrong.status == 400);
}

TEST_CASE("background: deleted, it runs no longer and is not there") {
  RunningServer server;
  const std::string id = begin(server, 1);
  TestClient client(server.port());
  client.send(delete_request(id));
  CHECK(server.script().wait_until_cancelled(1));
  server.script().deliver(1, cancelled_end());
  CHECK(object_of(client.read_response()).at("deleted") == true);
  CHECK(ask(server, get_request("/v1/responses/" + id)).status == 404);
}

TEST_CASE("background: a long answer is replayed as its client reads, whatever its length") {
  RunningServer server;
  EngineScript& script = server.script();
  const std::string id = begin(server, 1);
  script.deliver(1, Accepted{.prompt_tokens = 3});
  constexpr int kNumDeltas = 20'000;  // some 4 MB of events
  std::string text;
  for (int i = 0; i < kNumDeltas; ++i) {
    const std::string word = "w" + std::to_string(i) + " ";
    text += word;
    script.deliver(1, TextDelta{.text = word, .usage = {}});
  }
  script.deliver(1, stored_end());
  TestClient client(server.port(), 4096);
  client.send(get_request("/v1/responses/" + id + "?stream=true"));
  const auto data = sse_data(client.read_response().body);
  REQUIRE(data.size() > kNumDeltas);
  const auto last = boost::json::parse(data.back()).as_object();
  CHECK(last.at("type") == "response.completed");
  CHECK(last.at("response").at("output").at(0).at("content").at(0).at("text").as_string() == text);
}

TEST_CASE("background: what an earlier process did not finish is taken up, or given up and said so") {
  const InterruptedAnswer answer{
      .id = "resp_1",
      .tenant = "",
      .flow = "127.0.0.0",
      .created = 1700000000,
      .seed = 7,
      .body = R"({"input":"hi","background":true,"previous_response_id":"resp_0"})"};
  InterruptedAnswer given_up = answer;
  given_up.id = "resp_2";
  given_up.is_given_up = true;
  InterruptedAnswer unreadable = answer;
  unreadable.id = "resp_3";
  unreadable.body = "{";
  InterruptedAnswer homeless = answer;
  homeless.id = "resp_4";
  homeless.body = R"({"input":"hi","background":true,"model":"gone"})";
  RunningServer server([&](ServerOptions& options) {
    options.interrupted = {answer, given_up, unreadable, homeless};
  });
  REQUIRE(server.script().num_submitted() == 1);
  const GenerationRequest request = server.script().submitted(1).request;
  CHECK(request.id == "resp_1");
  CHECK(request.background->seed == 7);
  CHECK(request.background->is_journaled);
  CHECK(request.turn->created == 1700000000);
  CHECK(request.turn->previous == "resp_0");
  server.script().deliver(1, Journaled{});
  CHECK(response_of(server, "resp_1").at("created_at") == 1700000000);
  for (const std::string id : {"resp_2", "resp_3", "resp_4"}) {
    CHECK(response_of(server, id).at("status") == "failed");
    CHECK(server.script().has_ended_journal(id) == (id == "resp_3"));
    const auto stream = ask(server, get_request("/v1/responses/" + id + "?stream=true"));
    CHECK(stream.body.find("event: response.failed") != std::string::npos);
  }
}

TEST_CASE("background: a length that was foretold to an earlier process is no reason to refuse the answer") {
  const std::string body = R"({"input":"hi","background":true,"store":true,"troupe_answer_tokens":9})";
  const InterruptedAnswer answer{.id = "resp_1", .tenant = "", .flow = "127.0.0.0", .body = body};
  RunningServer server([&](ServerOptions& options) { options.interrupted = {answer}; });
  REQUIRE(server.script().num_submitted() == 1);
  CHECK(server.script().submitted(1).request.id == "resp_1");
  CHECK(ask(server, post_request("/v1/responses", body)).status == 400);  // of this process's clients
}

TEST_CASE("resumable: a chat's stream has ids, goes on without its client, and is taken up behind one") {
  RunningServer server;
  EngineScript& script = server.script();
  TestClient client(server.port());
  client.send(post_request("/v1/chat/completions", kResumable));
  script.deliver(script.wait_for_request(1), Accepted{.prompt_tokens = 3});
  script.deliver(1, TextDelta{.text = "one", .usage = {}});
  const std::string head = client.read_until("one");
  const auto at = head.find("id: chatcmpl-");
  REQUIRE(at != std::string::npos);
  const std::string id = head.substr(at + 4, head.find(':', at + 4) - at - 4);
  client.reset();
  script.deliver(1, TextDelta{.text = "two", .usage = {}});
  script.deliver(1, Finished{});
  const std::string path = "/v1/chat/completions/" + id + "/stream";
  const auto whole = ask(server, get_request(path));
  CHECK(whole.status == 200);
  CHECK(sse_data(whole.body).size() == 5);
  for (int i = 0; i < 5; ++i) {
    const auto rest =
        ask(server, get_request(path, "Last-Event-ID: " + id + ":" + std::to_string(i) + "\r\n")).body;
    const auto next = whole.body.find("id: " + id + ":" + std::to_string(i + 1) + "\n");
    CHECK(rest == (next == std::string::npos ? "" : whole.body.substr(next)));
  }
  CHECK(ask(server, get_request(path + "?starting_after=3")).body.find("[DONE]") != std::string::npos);
  CHECK(ask(server, get_request(path, "Last-Event-ID: chatcmpl-x\r\n")).status == 400);
  CHECK(ask(server, get_request("/v1/chat/completions/chatcmpl-0/stream")).status == 404);
  CHECK(!script.submitted(1).is_cancelled);
}

TEST_CASE("resumable: nobody comes back in time, so the answer ends and is forgotten") {
  RunningServer server([](ServerOptions& options) { options.limits.detached_keep_ms = 1; });
  EngineScript& script = server.script();
  {
    TestClient client(server.port());
    client.send(post_request("/v1/chat/completions", kResumable));
    script.deliver(script.wait_for_request(1), Accepted{.prompt_tokens = 3});
    client.read_until("assistant");
  }
  CHECK(script.wait_until_cancelled(1));
  script.deliver(
      1, Finished{.reason = FinishReason::kCancelled, .stop_string = {}, .stop_token = {}, .usage = {}});
  CHECK(eventually([&] { return server.metric("troupe_http_detached_answers") == "0"; }));
}

TEST_CASE("resumable: refused by name where it can't be") {
  RunningServer server;
  for (const std::string_view more : {R"("n":2,"stream":true)", R"("stream":false)"}) {
    const auto refused =
        ask(server, post_request("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}],)"
                                                         R"("stream_options":{"resumable":true},)" +
                                                             std::string(more) + "}"));
    CHECK(refused.status == 400);
    CHECK(refused.body.find("stream_options.resumable") != std::string::npos);
  }
}

TEST_CASE("detached answers: those that have ended make room, and nobody takes all of it") {
  RunningServer server([](ServerOptions& options) { options.limits.max_detached_answers = 4; });
  const std::string first = begin(server, 1);
  begin(server, 2);
  CHECK(ask(server, background()).status == 429);  // half is one network's
  server.script().deliver(1, Accepted{.prompt_tokens = 3});
  server.script().deliver(1, stored_end());
  for (RequestId next = 3; next < 7; ++next) {
    begin(server, next);
    server.script().deliver(next, Accepted{.prompt_tokens = 3});
    server.script().deliver(next, stored_end());
  }
  CHECK(server.metric("troupe_http_detached_answers") == "4");
}

TEST_CASE("detached answers: a drain waits for a stream whose client is away") {
  RunningServer server;
  EngineScript& script = server.script();
  {
    TestClient client(server.port());
    client.send(post_request("/v1/chat/completions", kResumable));
    script.deliver(script.wait_for_request(1), Accepted{.prompt_tokens = 3});
    client.read_until("assistant");
  }
  std::atomic<bool> has_drained = false;
  std::thread drain([&] {
    server.server().drain(std::chrono::seconds(20));
    has_drained = true;
  });
  CHECK(eventually([&] { return ask(server, get_request("/ready")).status == 503; }));
  CHECK(!has_drained);
  script.deliver(1, Finished{});
  drain.join();
  CHECK(!script.submitted(1).is_cancelled);
}
