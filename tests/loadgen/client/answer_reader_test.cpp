// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/http/answer_reader.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "tests/loadgen/client/scripted_server.hpp"

using namespace troupe::loadgen;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

constexpr SteadyTime kStart{std::chrono::hours(1)};

// Feeds pieces as a connection does: what is not taken comes again.
class Feeder {
 public:
  explicit Feeder(bool is_streamed) : reader(is_streamed) {}

  void feed(std::string_view bytes, std::chrono::milliseconds at = 0ms) {
    kept_ += bytes;
    kept_.erase(0, reader.feed(kept_, kStart + at));
  }
  Answer close(std::string_view error = {}) {
    reader.end(error, kStart + 1s);
    return reader.take_answer();
  }

  AnswerReader reader;

 private:
  std::string kept_;
};

std::string whole_stream() {
  return event_stream_head() + text_event("Hel") + chunk_of(": ping\n\n") + text_event("lo") +
         finish_events(2);
}

Answer read_all(bool is_streamed, std::string_view bytes) {
  Feeder feeder(is_streamed);
  feeder.feed(bytes);
  return feeder.close();
}

std::string plain_head(std::string_view fields) {
  return "HTTP/1.1 200 OK\r\n" + std::string(fields) + "\r\n";
}

std::string text_data(std::string_view text) {
  return "data: {\"choices\":[{\"delta\":{\"content\":\"" + std::string(text) + "\"}}]}\n\n";
}
const std::string kStopData = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";

}  // namespace

TEST_CASE("answer reader: a stream reads the same at every split") {
  const auto stream = whole_stream();
  for (std::size_t split = 0; split <= stream.size(); ++split) {
    Feeder feeder(true);
    feeder.feed(stream.substr(0, split));
    feeder.feed(stream.substr(split));
    REQUIRE(feeder.reader.is_at_end());
    CHECK(feeder.reader.is_connection_kept());
    const auto answer = feeder.reader.take_answer();
    CHECK(answer.outcome == Outcome::kCompleted);
    CHECK(answer.status == 200);
    CHECK(answer.error == "");
    CHECK(answer.content.text == "Hello");
    CHECK(answer.content.finish_reason == "stop");
    CHECK(answer.content.usage->output_tokens == 2);
    CHECK(answer.content.usage->cached_tokens == 3);
    CHECK(answer.content.queue_ms == 1.5);
    CHECK(answer.num_chunks == 2);
    CHECK(answer.gaps_us.size() == 1);
  }
}

TEST_CASE("answer reader: a stream byte by byte, each with its own time") {
  const auto stream = whole_stream();
  Feeder feeder(true);
  std::chrono::milliseconds now = 0ms;
  for (const char byte : stream) feeder.feed({&byte, 1}, now += 1ms);
  const auto answer = feeder.reader.take_answer();
  const auto head = event_stream_head().size();
  const auto first = text_event("Hel").size();
  const auto until_second = first + chunk_of(": ping\n\n").size() + text_event("lo").size();
  // An event is there with its blank line; the chunk's own line end is not waited for.
  CHECK(answer.first_token == kStart + std::chrono::milliseconds(head + first - 2));
  CHECK(answer.last_token == kStart + std::chrono::milliseconds(head + until_second - 2));
  CHECK(answer.gaps_us ==
        std::vector<std::uint32_t>{static_cast<std::uint32_t>((until_second - first) * 1000)});
  // [DONE] is the end; what HTTP adds is not.
  CHECK(answer.finished == now - 7ms + kStart);
}

TEST_CASE("answer reader: bodies by chunks, by length and up to the end of the connection") {
  const std::string events = text_data("a") + kStopData + "data: [DONE]\n\n";
  const std::string type = "Content-Type: text/event-stream\r\n";
  const auto length = "Content-Length: " + std::to_string(events.size()) + "\r\n";
  for (const auto& stream :
       {plain_head(type) + events, plain_head(type + length) + events,
        plain_head(type + "Transfer-Encoding: chunked\r\n") + chunk_of(events) + "0\r\n\r\n"}) {
    const auto answer = read_all(true, stream);
    CHECK_MESSAGE(answer.outcome == Outcome::kCompleted, answer.error);
    CHECK(answer.content.text == "a");
  }
  // A server that ends without [DONE], but with a finish reason and a proper end.
  CHECK(read_all(true, plain_head(type) + text_data("a") + kStopData).outcome == Outcome::kCompleted);
}

TEST_CASE("answer reader: a stream that ends early is broken, whatever its framing") {
  const std::string type = "Content-Type: text/event-stream\r\n";
  const auto cut_chunks = read_all(true, event_stream_head() + text_event("a"));
  CHECK(cut_chunks.outcome == Outcome::kBroken);
  CHECK(cut_chunks.error == "the server closed the connection in mid-answer");
  CHECK(cut_chunks.num_chunks == 1);
  const auto cut_length =
      read_all(true, plain_head(type + "Content-Length: 9999\r\n") + text_data("a") + kStopData);
  CHECK(cut_length.outcome == Outcome::kBroken);
  const auto no_finish = read_all(true, plain_head(type) + text_data("a"));
  CHECK(no_finish.outcome == Outcome::kBroken);
  CHECK(no_finish.error == "the stream ended without a finish reason");
  CHECK(read_all(true, plain_head(type) + text_data("a") + "data: [DONE]\n\n").outcome == Outcome::kBroken);
  Feeder reset(true);
  reset.feed(plain_head(type) + text_data("a") + kStopData);
  CHECK(reset.close("Connection reset by peer").error == "Connection reset by peer in mid-answer");
}

TEST_CASE("answer reader: lost before the head is complete is unreachable") {
  for (const auto* begin : {"", "HTTP/1.1 200 OK\r\nContent-Ty"}) {
    const auto answer = read_all(true, begin);
    CHECK(answer.outcome == Outcome::kUnreachable);
    CHECK(answer.error == "the server closed the connection before it answered");
  }
}

TEST_CASE("answer reader: a head that never ends is judged the same at every split") {
  const auto outcomes_of = [](const std::string& bytes) {
    std::set<Outcome> outcomes;
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
      Feeder feeder(true);
      feeder.feed(bytes.substr(0, cut));
      if (!feeder.reader.has_verdict()) feeder.feed(bytes.substr(cut));
      outcomes.insert(feeder.close().outcome);
    }
    return outcomes;
  };
  CHECK(outcomes_of("HTTP/9 200 OK\r\nA: b\r\n") == std::set{Outcome::kUnreachable});
  CHECK(outcomes_of("HTTP/9 200 OK\r\n\r\n") == std::set{Outcome::kBroken});
  CHECK(outcomes_of("SSH-2.0-server\r\n") == std::set{Outcome::kBroken});
}

TEST_CASE("answer reader: a head longer than 32 KiB is broken, however it is cut") {
  const std::string rest = "\r\nContent-Length: 0\r\n\r\n";
  const auto head_of = [&](std::size_t size) {
    const std::string begin = "HTTP/1.1 503 Busy\r\nA: ";
    return begin + std::string(size - begin.size() - rest.size(), 'x') + rest;
  };
  constexpr std::size_t kLimit = 32 * 1024;
  for (const std::size_t size : {kLimit, kLimit + 1, kLimit + 8, 2 * kLimit}) {
    const auto head = head_of(size);
    for (const std::size_t cut : {std::size_t{0}, kLimit - 1, kLimit, size - 1}) {
      CAPTURE(size);
      CAPTURE(cut);
      Feeder feeder(true);
      feeder.feed(head.substr(0, cut));
      if (!feeder.reader.has_verdict()) feeder.feed(head.substr(cut));
      const auto answer = feeder.close();
      CHECK(answer.outcome == (size == kLimit ? Outcome::kRefused : Outcome::kBroken));
      if (size > kLimit) CHECK(answer.error.find("header limit") != std::string::npos);
    }
  }
}

TEST_CASE("answer reader: errors by status, with JSON or HTML, and Retry-After") {
  const auto refused = read_all(
      true,
      whole_response("429 Too Many Requests", R"({"error":{"message":"queue full"}})", "Retry-After: 3\r\n")
          .steps[0]
          .bytes);
  CHECK(refused.outcome == Outcome::kRefused);
  CHECK(refused.status == 429);
  CHECK(refused.error == "HTTP 429: queue full (Retry-After: 3)");
  const auto html = read_all(true, whole_response("502 Bad Gateway", "<h1>oops</h1>").steps[0].bytes);
  CHECK(html.outcome == Outcome::kRejected);
  CHECK(html.error == "HTTP 502: <h1>oops</h1>");
  CHECK(read_all(false, whole_response("503 Busy", "").steps[0].bytes).outcome == Outcome::kRefused);
  CHECK(read_all(false, whole_response("400 Bad Request", "").steps[0].bytes).error == "HTTP 400");
}

TEST_CASE("answer reader: an answer that is no event stream, or no HTTP, is broken") {
  const auto json = read_all(
      true,
      whole_response("200 OK", R"({"choices":[]})", "Content-Type: application/json\r\n").steps[0].bytes);
  CHECK(json.outcome == Outcome::kBroken);
  CHECK(json.error.starts_with("expected text/event-stream, got 'application/json'"));
  const auto ssh = read_all(true, "SSH-2.0-OpenSSH_9.2p1\r\n");
  CHECK(ssh.outcome == Outcome::kBroken);
  CHECK(ssh.error.starts_with("the answer is not HTTP"));
  CHECK(read_all(true, "HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'x')).outcome == Outcome::kBroken);
}

TEST_CASE("answer reader: error events, malformed events and endless lines break a stream") {
  const auto failed = read_all(true, event_stream_head() + text_event("a") +
                                         chunk_of("data: {\"error\":{\"message\":\"worker lost\"}}\n\n"));
  CHECK(failed.outcome == Outcome::kBroken);
  CHECK(failed.error == "error event: worker lost");
  CHECK(read_all(true, event_stream_head() + chunk_of("event: error\ndata: down\n\n")).error ==
        "error event: down");
  const auto malformed = read_all(true, event_stream_head() + chunk_of("data: {\"choices\":[\n\n"));
  CHECK(malformed.outcome == Outcome::kBroken);
  CHECK(malformed.error == "expected a chunk in JSON, got '{\"choices\":['");

  Feeder endless(true);
  endless.feed(event_stream_head() + "200000\r\n");  // a chunk of 2 MiB
  const std::string filler(64 * 1024, 'x');
  for (int i = 0; i < 32 && !endless.reader.has_verdict(); ++i) endless.feed(filler);
  CHECK(endless.reader.has_verdict());
  CHECK(endless.reader.take_answer().error == "an event is longer than 1048576 bytes");
}

TEST_CASE("answer reader: whole answers have one time for all tokens") {
  const auto body =
      R"({"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"completion_tokens":4}})";
  const auto answer = read_all(false, whole_response("200 OK", body).steps[0].bytes);
  CHECK(answer.outcome == Outcome::kCompleted);
  CHECK(answer.content.text == "hi");
  CHECK(answer.first_token == kStart);
  CHECK(answer.last_token == answer.finished);
  CHECK(answer.gaps_us.empty());
  CHECK(read_all(false, whole_response("200 OK", "<html>").steps[0].bytes).outcome == Outcome::kBroken);
  CHECK(read_all(false, whole_response("200 OK", R"({"choices":[]})").steps[0].bytes).error ==
        "the answer has no finish reason");
}

TEST_CASE("answer reader: connections are kept open only if the server says so") {
  const auto kept = [](std::string_view bytes) {
    Feeder feeder(false);
    feeder.feed(bytes);
    return feeder.reader.is_connection_kept();
  };
  CHECK(kept("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"));
  CHECK_FALSE(kept("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"));
  CHECK_FALSE(kept("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}"));
  CHECK_FALSE(kept("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}"));
}
