// SPDX-License-Identifier: Apache-2.0
#include "http/server/server.hpp"

#include <set>
#include <thread>

#include <doctest/doctest.h>

#include "tests/http/running_server.hpp"
#include "tests/support/eventually.hpp"

using namespace troupe;
using namespace troupe::test;

namespace streaming_test {
namespace {

constexpr std::string_view kChat =
    R"({"model":"demo","stream":true,"messages":[{"role":"user","content":"hi"}]})";
constexpr std::string_view kWholeChat = R"({"messages":[{"role":"user","content":"hi"}]})";

std::string chat(std::string_view body = kChat) { return post_request("/v1/chat/completions", body); }

// True once a connection that is not for probes only is to be had.
bool ask_once_with_room(const RunningServer& server) {
  TestClient client(server.port());
  client.send(get_request("/version"));
  return client.read_response().status == 200;
}

// The text of a stream of chat chunks.
std::string text_of(const TestResponse& response) {
  std::string text;
  constexpr std::string_view kContent = R"("delta":{"content":")";
  for (const auto& data : sse_data(response.body)) {
    const std::size_t at = data.find(kContent);
    if (at == std::string::npos) continue;
    const std::size_t start = at + kContent.size();
    text += data.substr(start, data.find('"', start) - start);
  }
  return text;
}

}  // namespace

TEST_CASE("streaming: a chat answer arrives as role, deltas, finish and [DONE]") {
  RunningServer server;
  TestClient client(server.port());
  client.send(chat());
  server.script().answer(server.script().wait_for_request(1), {"Hel", "lo"});
  const TestResponse response = client.read_response();
  CHECK(response.status == 200);
  CHECK(response.field("Content-Type") == "text/event-stream; charset=utf-8");
  CHECK(response.field("Cache-Control") == "no-store");
  CHECK(response.field("X-Accel-Buffering") == "no");
  CHECK(!response.field("X-Request-Id").empty());
  const auto data = sse_data(response.body);
  REQUIRE(data.size() == 5);
  CHECK(data[0].find(R"("delta":{"role":"assistant","content":""})") != std::string::npos);
  CHECK(data[1].find(R"("delta":{"content":"Hel"})") != std::string::npos);
  CHECK(data[2].find(R"("delta":{"content":"lo"})") != std::string::npos);
  CHECK(data[3].find(R"("delta":{},"logprobs":null,"finish_reason":"stop")") != std::string::npos);
  CHECK(data[4] == "[DONE]");
}

TEST_CASE("streaming: headers and role come as soon as the request is accepted") {
  RunningServer server;
  TestClient client(server.port());
  client.send(chat());
  const RequestId id = server.script().wait_for_request(1);
  CHECK(client.read_some(std::chrono::milliseconds(50)).empty());
  server.script().deliver(id, Accepted{.prompt_tokens = 3});
  CHECK(client.read_until("\"content\":\"\"").find("200 OK") != std::string::npos);
  server.script().deliver(id, TextDelta{.text = "one", .usage = {}});
  CHECK(client.read_until("one").find("one") != std::string::npos);
  CHECK(server.metric("troupe_http_sse_streams") == "1");
  server.script().deliver(id, Finished{});
  client.read_until("[DONE]");
}

TEST_CASE("streaming: a completion stream, over HTTP/1.0 without chunks until the end") {
  RunningServer server;
  server.script().on_submit = [&](RequestId id) { server.script().answer(id, {"a", "b"}); };
  TestClient client(server.port());
  const std::string body = R"({"prompt":"x","stream":true,"stream_options":{"include_usage":true}})";
  client.send(
      "POST /v1/completions HTTP/1.0\r\nConnection: keep-alive\r\nContent-Type: "
      "application/json\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  const std::string all = client.read_to_end();
  CHECK(all.find("Transfer-Encoding") == std::string::npos);
  CHECK(all.find("Connection: close") != std::string::npos);
  const auto data = sse_data(all.substr(all.find("\r\n\r\n") + 4));
  REQUIRE(data.size() == 5);
  CHECK(data[0].find(R"("text":"a")") != std::string::npos);
  CHECK(data[3].find(R"("choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,)") !=
        std::string::npos);
}

TEST_CASE("streaming: an error after the beginning is told in the stream, which then ends") {
  RunningServer server;
  TestClient client(server.port());
  client.send(chat());
  const RequestId id = server.script().wait_for_request(1);
  server.script().deliver(id, Accepted{});
  server.script().deliver(id, TextDelta{.text = "x", .usage = {}});
  server.script().deliver(id, Failed{{.kind = ApiErrorKind::kInternal, .message = "worker", .field = {}}});
  const auto data = sse_data(client.read_response().body);
  REQUIRE(data.size() == 3);
  CHECK(data[2] ==
        R"({"error":{"message":"worker","type":"server_error","param":null,"code":"internal_error"}})");
  CHECK(client.is_at_end());
}

TEST_CASE("streaming: heartbeats are sent while nothing is said") {
  RunningServer server([](ServerOptions& options) { options.limits.heartbeat_ms = 20; });
  TestClient client(server.port());
  client.send(chat());
  const RequestId id = server.script().wait_for_request(1);
  server.script().deliver(id, Accepted{});
  std::string seen = client.read_until(": ping\n\n");
  seen += client.read_until(": ping\n\n");
  server.script().deliver(id, Finished{});
  CHECK(client.read_until("[DONE]").find("[DONE]") != std::string::npos);
}

TEST_CASE("streaming: empty deltas are left out unless usage is wanted in every chunk") {
  RunningServer server;
  server.script().on_submit = [&](RequestId id) { server.script().answer(id, {"a", "", "b"}); };
  TestClient client(server.port());
  client.send(chat());
  CHECK(sse_data(client.read_response().body).size() == 5);
  client.send(chat(R"({"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},
                       "messages":[{"role":"user","content":"hi"}]})"));
  CHECK(sse_data(client.read_response().body).size() == 7);
}

TEST_CASE("connection: several requests, one after the other and pipelined, are answered in order") {
  RunningServer server;
  server.script().on_submit = [&](RequestId id) { server.script().answer(id, {"n", std::to_string(id)}); };
  TestClient client(server.port());
  client.send(chat() + get_request("/version") + chat(kWholeChat) + chat() + get_request("/ping"));
  CHECK(text_of(client.read_response()) == "n1");
  CHECK(client.read_response().body.find("version") != std::string::npos);
  CHECK(client.read_response().body.find("\"content\":\"n2\"") != std::string::npos);
  CHECK(text_of(client.read_response()) == "n3");
  CHECK(client.read_response().body.find("ok") != std::string::npos);
  client.send(chat());
  CHECK(text_of(client.read_response()) == "n4");
}

TEST_CASE("connection: a request in pieces is one request") {
  RunningServer server;
  server.script().on_submit = [&](RequestId id) { server.script().answer(id, {"x"}); };
  TestClient client(server.port());
  const std::string request = chat(kWholeChat);
  for (std::size_t i = 0; i < request.size(); i += 7) {
    client.send(std::string_view(request).substr(i, 7));
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
  CHECK(client.read_response().status == 200);
}

TEST_CASE("connection: 100 Continue is said when it is waited for") {
  RunningServer server;
  server.script().on_submit = [&](RequestId id) { server.script().answer(id, {"x"}); };
  TestClient client(server.port());
  const std::string body(kWholeChat);
  client.send(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Expect: 100-continue\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n");
  CHECK(client.read_until("\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n");
  client.send(body);
  CHECK(client.read_response().status == 200);
}

TEST_CASE("connection: closed when asked to, after a refused request, and after its share of requests") {
  RunningServer server([](ServerOptions& options) { options.limits.max_requests_per_connection = 3; });
  TestClient polite(server.port());
  polite.send(get_request("/ping", "Connection: close\r\n"));
  CHECK(polite.read_response().field("Connection") == "close");
  CHECK(polite.is_at_end());
  TestClient bad(server.port());
  bad.send("GET / HTTP/1.1\r\n\r\n" + get_request("/ping"));
  const std::string all = bad.read_to_end();
  CHECK(all.find("400 Bad Request") != std::string::npos);
  CHECK(all.find("200 OK") == std::string::npos);
  TestClient busy(server.port());
  for (int i = 0; i < 3; ++i) {
    busy.send(get_request("/ping"));
    CHECK(busy.read_response().status == 200);
  }
  CHECK(busy.is_at_end());
}

TEST_CASE("client gone: hanging up cancels at once, streaming or not, before and after the first token") {
  enum class Way { kClose, kHalfClose, kReset };
  for (const Way way : {Way::kClose, Way::kHalfClose, Way::kReset}) {
    for (const bool stream : {true, false}) {
      for (const bool accepted : {false, true}) {
        RunningServer server;
        TestClient client(server.port());
        client.send(chat(stream ? kChat : kWholeChat));
        const RequestId id = server.script().wait_for_request(1);
        if (accepted) {
          server.script().deliver(id, Accepted{});
          server.script().deliver(id, TextDelta{.text = "x", .usage = {}});
          if (stream) client.read_until("\"x\"");
        }
        if (way == Way::kClose) client.close();
        if (way == Way::kHalfClose) client.half_close();
        if (way == Way::kReset) client.reset();
        CHECK(server.script().wait_until_cancelled(id));
        server.script().deliver(
            id,
            Finished{.reason = FinishReason::kCancelled, .stop_string = {}, .stop_token = {}, .usage = {}});
        CHECK(server.metric("troupe_http_client_disconnects_total") == "1");
      }
    }
  }
}

TEST_CASE("client gone: at every byte of the request and of the answer, and nothing is left behind") {
  RunningServer server;
  server.script().on_submit = [&](RequestId id) { server.script().answer(id, {"one", "two"}); };
  const std::string request = chat();
  for (std::size_t i = 0; i <= request.size(); ++i) {
    TestClient client(server.port());
    client.send(std::string_view(request).substr(0, i));
    if (i % 3 == 0) client.half_close();
    if (i % 3 == 1) client.reset();
  }
  for (std::size_t i = 1; i < 1200; i += 13) {
    TestClient client(server.port());
    client.send(request);
    std::size_t seen = 0;
    while (seen < i) {
      const std::string some = client.read_some(std::chrono::milliseconds(200));
      if (some.empty()) break;
      seen += some.size();
    }
    if (i % 2 == 0) client.reset();
  }
  TestClient last(server.port());
  last.send(request);
  CHECK(text_of(last.read_response()) == "onetwo");
  last.close();
  CHECK(eventually([&] { return server.metric("troupe_http_connections") == "0"; }));
  CHECK(server.metric("troupe_http_sse_streams") == "0");
  CHECK(server.script().num_unfinished() == 0);
}

TEST_CASE("slow reader: is resumed when it has taken everything") {
  RunningServer server;
  TestClient client(server.port(), 4096);
  client.send(chat());
  const RequestId id = server.script().wait_for_request(1);
  server.script().deliver(id, Accepted{});
  const std::string big(20'000, 'x');
  const auto sink = server.script().submitted(id).sink;
  for (int i = 0; i < 100 && sink->pending_bytes() < 64 * 1024; ++i) {
    server.script().deliver(id, TextDelta{.text = big, .usage = {}});
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(sink->pending_bytes() >= 64 * 1024);
  server.script().deliver(id, TextDelta{.text = "end", .usage = {}});
  CHECK(client.read_until("end").find("end") != std::string::npos);
  CHECK(server.script().wait_until_resumed(id));
  // It may be for an earlier part, while the last one is still counted.
  CHECK(eventually([&] { return sink->pending_bytes() == 0; }));
  server.script().deliver(id, Finished{});
  client.read_until("[DONE]");
}

TEST_CASE("slow reader: one that takes nothing is cut off by time, or by what has piled up") {
  for (const bool by_size : {false, true}) {
    RunningServer server([&](ServerOptions& options) {
      options.limits.stall_timeout_ms = by_size ? 60'000 : 100;
      options.limits.max_stream_buffer_bytes = by_size ? 100'000 : 100'000'000;
    });
    TestClient client(server.port(), 4096);
    client.send(chat());
    const RequestId id = server.script().wait_for_request(1);
    server.script().deliver(id, Accepted{});
    // What piled up is looked at when more comes.
    CHECK(eventually([&] {
      if (server.script().num_unfinished() == 0) return true;
      server.script().deliver(id, TextDelta{.text = std::string(10'000, 'x'), .usage = {}});
      return false;
    }));
    CHECK(server.script().wait_until_cancelled(id));
    CHECK(client.read_to_end().find("[DONE]") == std::string::npos);
  }
}

TEST_CASE("slow reader: others are not held up") {
  RunningServer server;
  TestClient slow(server.port(), 4096), quick(server.port());
  slow.send(chat());
  const RequestId stalled = server.script().wait_for_request(1);
  server.script().deliver(stalled, Accepted{});
  server.script().deliver(stalled, TextDelta{.text = std::string(1'000'000, 'x'), .usage = {}});
  server.script().on_submit = [&](RequestId id) { server.script().answer(id, {"quick"}); };
  quick.send(chat());
  CHECK(text_of(quick.read_response()) == "quick");
}

TEST_CASE("slow client: header, body and silence have their times") {
  RunningServer server([](ServerOptions& options) {
    options.limits.header_timeout_ms = 60;
    options.limits.body_timeout_ms = 60;
    options.limits.idle_timeout_ms = 60;
  });
  TestClient header(server.port());
  header.send("GET / HTT");
  CHECK(header.read_response().status == 408);
  CHECK(header.is_at_end());
  TestClient body(server.port());
  body.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n123");
  CHECK(body.read_response().status == 408);
  CHECK(body.is_at_end());
  TestClient idle(server.port());
  CHECK(idle.read_some().empty());
  CHECK(idle.is_at_end());
}

TEST_CASE("connection: too much sent ahead of an answer closes it") {
  RunningServer server([](ServerOptions& options) { options.limits.max_read_ahead_bytes = 1000; });
  TestClient client(server.port());
  client.send(chat());
  const RequestId id = server.script().wait_for_request(1);
  for (int i = 0; i < 100; ++i) client.send(get_request("/ping"));
  CHECK(server.script().wait_until_cancelled(id));
}

TEST_CASE("server: 64 streams at once over two io threads, every one whole") {
  RunningServer server([](ServerOptions& options) { options.io_threads = 2; });
  std::vector<TestClient> clients;
  for (int i = 0; i < 64; ++i) {
    clients.emplace_back(server.port());
    clients.back().send(chat());
    server.script().wait_for_request(static_cast<RequestId>(i) + 1);
  }
  std::thread engine([&] {
    for (RequestId id = 1; id <= 64; ++id) server.script().deliver(id, Accepted{});
    for (int token = 0; token < 50; ++token) {
      for (RequestId id = 1; id <= 64; ++id) {
        server.script().deliver(
            id, TextDelta{.text = std::to_string(id) + "." + std::to_string(token) + " ", .usage = {}});
      }
    }
    for (RequestId id = 1; id <= 64; ++id) server.script().deliver(id, Finished{});
  });
  for (std::size_t i = 0; i < clients.size(); ++i) {
    std::string expected;
    for (int token = 0; token < 50; ++token) {
      expected += std::to_string(i + 1) + "." + std::to_string(token) + " ";
    }
    CHECK(text_of(clients[i].read_response()) == expected);
  }
  engine.join();
  CHECK(server.metric("troupe_http_sse_events_total") == "3200");
  CHECK(std::stod(server.metric("troupe_http_sse_wakeups_total")) < 1600);
}

TEST_CASE("server: past the most connections probes are answered, everything else is told to come back") {
  RunningServer server([](ServerOptions& options) { options.limits.max_connections = 2; });
  TestClient a(server.port());
  TestClient b(server.port());
  for (TestClient* client : {&a, &b}) {
    client->send(get_request("/ping"));
    CHECK(client->read_response().status == 200);
  }
  const auto ask_once = [&](const std::string& request) {
    TestClient client(server.port());
    client.send(request);
    const auto response = client.read_response();
    CHECK(response.field("Connection") == "close");
    CHECK(client.is_at_end());
    return response;
  };
  for (const std::string path : {"/health", "/ready", "/live"})
    CHECK(ask_once(get_request(path)).status == 200);
  for (const std::string& request :
       {get_request("/v1/models"), get_request("/metrics"), chat(),
        std::string(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n")}) {
    const auto refused = ask_once(request);
    CHECK(refused.status == 503);
    CHECK(!refused.field("Retry-After").empty());
  }
  CHECK(server.script().num_submitted() == 0);
  a.close();
  CHECK(eventually([&] { return ask_once_with_room(server); }));
}

TEST_CASE("server: a probe gets its answer though others hold the reserve and say nothing") {
  RunningServer server([](ServerOptions& options) {
    options.limits.max_connections = 1;
    options.limits.reserved_connections = 2;
    options.limits.reserve_timeout_ms = 600'000;
  });
  TestClient first(server.port());
  first.send(get_request("/ping"));
  CHECK(first.read_response().status == 200);
  std::vector<TestClient> silent;
  for (int i = 0; i < 5; ++i) silent.emplace_back(server.port());
  TestClient probe(server.port());
  probe.send(get_request("/health"));
  CHECK(probe.read_response().status == 200);
  CHECK(silent.front().is_at_end());
}

TEST_CASE("server: what holds the reserve and says nothing is closed after a moment") {
  RunningServer server([](ServerOptions& options) {
    options.limits.max_connections = 1;
    options.limits.reserve_timeout_ms = 40;
  });
  TestClient first(server.port());
  first.send(get_request("/ping"));
  CHECK(first.read_response().status == 200);
  TestClient silent(server.port());
  CHECK(silent.is_at_end());
  first.send(get_request("/ping"));
  CHECK(first.read_response().status == 200);
}

TEST_CASE("drain: new work is refused, probes say so, what is under way finishes") {
  RunningServer server;
  TestClient streaming(server.port()), idle(server.port());
  idle.send(get_request("/ping"));
  CHECK(idle.read_response().status == 200);
  streaming.send(chat());
  const RequestId id = server.script().wait_for_request(1);
  server.script().deliver(id, Accepted{});
  std::thread drain([&] { server.server().drain(std::chrono::seconds(10)); });
  CHECK(idle.is_at_end());
  TestClient probe(server.port()), late(server.port());
  probe.send(get_request("/ready"));
  CHECK(probe.read_response().status == 503);
  late.send(chat());
  const TestResponse refused = late.read_response();
  CHECK(refused.status == 503);
  CHECK(!refused.field("Retry-After").empty());
  CHECK(server.script().num_submitted() == 1);
  server.script().deliver(id, TextDelta{.text = "end", .usage = {}});
  server.script().deliver(id, Finished{});
  CHECK(text_of(streaming.read_response()) == "end");
  drain.join();
  CHECK(streaming.is_at_end());
}

TEST_CASE("drain: at the deadline streams get an error, whole answers a 503") {
  RunningServer server;
  TestClient streaming(server.port()), whole(server.port());
  streaming.send(chat());
  server.script().deliver(server.script().wait_for_request(1), Accepted{});
  whole.send(chat(kWholeChat));
  server.script().wait_for_request(2);
  server.server().drain(std::chrono::milliseconds(20));
  const auto data = sse_data(streaming.read_response().body);
  CHECK(data.back().find(R"({"error":{"message":"the server is shutting down")") == 0);
  CHECK(whole.read_response().status == 503);
  CHECK(server.script().wait_until_cancelled(1));
  CHECK(server.script().wait_until_cancelled(2));
}

TEST_CASE("stop: cancels what runs and survives events that come later") {
  RunningServer server;
  TestClient client(server.port());
  client.send(chat());
  const RequestId id = server.script().wait_for_request(1);
  server.script().deliver(id, Accepted{});
  server.server().stop();
  CHECK(server.script().submitted(id).is_cancelled);
  server.script().deliver(id, TextDelta{.text = "late", .usage = {}});
  server.script().deliver(id, Finished{});
  client.read_to_end();
  server.server().stop();
}

}  // namespace streaming_test
