// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/otlp_http_exporter.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "telemetry/http/retry_after.hpp"
#include "tests/support/observability/logged_lines.hpp"
#include "tests/support/observability/otlp_sink.hpp"

namespace troupe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::OtlpSink;
using Clock = std::chrono::steady_clock;

// Patient where it must not give up, quick where it waits between attempts.
const OtlpHttpOptions kOptions{
    .attempt_timeout = seconds(20), .first_pause = milliseconds(1), .max_attempts = 3};

std::vector<SpanTree> three_spans() {
  const Span span{.name = "span", .context = {.trace = {.high = 1, .low = 2}, .span = 3}};
  return {std::make_shared<const std::vector<Span>>(3, span)};
}

OtlpHttpExporter exporter_to(const OtlpSink& sink, OtlpHttpOptions options = kOptions) {
  return OtlpHttpExporter(parse_otlp_endpoint(sink.url()), {}, options);
}

TEST_CASE("otlp http: spans arrive at /v1/traces, over one connection") {
  OtlpSink sink;
  auto exporter = exporter_to(sink);
  for (int i = 0; i < 5; ++i) CHECK(exporter.send(three_spans(), {}) == 3);
  CHECK(sink.spans().size() == 15);
  CHECK(sink.last_path() == "/v1/traces");
  CHECK(sink.num_connections() == 1);
}

TEST_CASE("otlp http: a body is protobuf, or JSON if asked for, and says which it is") {
  for (const auto& [format, type] : {std::pair(OtlpFormat::kProtobuf, "application/x-protobuf"),
                                     std::pair(OtlpFormat::kJson, "application/json")}) {
    CAPTURE(type);
    OtlpSink sink;
    OtlpHttpOptions options = kOptions;
    options.format = format;
    CHECK(exporter_to(sink, options).send(three_spans(), {}) == 3);
    CHECK(sink.last_header("Content-Type") == type);
    CHECK(sink.last_header("Content-Encoding") == "");
    REQUIRE(sink.spans().size() == 3);
    CHECK(sink.spans()[2].name == "span");
  }
}

TEST_CASE("otlp http: a compressed body is smaller and holds the same spans") {
  OtlpSink sink;
  OtlpHttpOptions options = kOptions;
  const auto length = [&] { return std::stoul(sink.last_header("Content-Length")); };
  CHECK(exporter_to(sink, options).send(three_spans(), {}) == 3);
  const auto plain_length = length();
  options.is_gzipped = true;
  CHECK(exporter_to(sink, options).send(three_spans(), {}) == 3);
  CHECK(sink.last_header("Content-Encoding") == "gzip");
  CHECK(length() < plain_length);
  CHECK(sink.spans().size() == 6);
}

TEST_CASE("otlp http: headers go with every body, and may name the sender") {
  OtlpSink sink;
  OtlpHttpOptions options = kOptions;
  options.headers = {{"Authorization", "Bearer key"}, {"User-Agent", "mine"}};
  auto exporter = exporter_to(sink, options);
  for (int i = 0; i < 2; ++i) {
    CHECK(exporter.send(three_spans(), {}) == 3);
    CHECK(sink.last_header("Authorization") == "Bearer key");
    CHECK(sink.last_header("User-Agent") == "mine");
    CHECK(sink.last_header("Host") == "127.0.0.1:" + std::to_string(sink.port()));
  }
}

TEST_CASE("otlp http: a collector that is busy or restarting is asked again") {
  for (const unsigned status : {429U, 502U, 503U, 504U}) {
    CAPTURE(status);
    OtlpSink sink;
    sink.answer_next({{.status = status}, {.status = status}});
    CHECK(exporter_to(sink).send(three_spans(), {}) == 3);
    CHECK(sink.num_requests() == 3);
    CHECK(sink.spans().size() == 3);
  }
}

TEST_CASE("otlp http: it is not asked again for ever, and not at all where that is of no use") {
  OtlpSink sink;
  sink.answer_otherwise({.status = 503});
  CHECK(exporter_to(sink).send(three_spans(), {}) == 0);
  CHECK(sink.num_requests() == 3);
  for (const unsigned status : {400U, 401U, 404U, 413U, 500U, 301U}) {
    CAPTURE(status);
    OtlpSink other;
    other.answer_otherwise({.status = status});
    CHECK(exporter_to(other).send(three_spans(), {}) == 0);
    CHECK(other.num_requests() == 1);
  }
}

TEST_CASE("otlp http: Retry-After is waited for") {
  OtlpSink sink;
  sink.answer_next({{.status = 429, .headers = "Retry-After: 1\r\n"}});
  const auto start = Clock::now();
  CHECK(exporter_to(sink).send(three_spans(), {}) == 3);
  CHECK(Clock::now() - start >= seconds(1));
}

TEST_CASE("retry after: seconds, or the time to a date, and nothing else") {
  using std::chrono::system_clock;
  const auto now = system_clock::from_time_t(784111777);  // Sun, 06 Nov 1994 08:49:37 GMT
  CHECK(parse_retry_after("120", now) == seconds(120));
  CHECK(parse_retry_after("Sun, 06 Nov 1994 08:50:00 GMT", now) == seconds(23));
  CHECK(parse_retry_after("Sun, 06 Nov 1994 08:49:38 GMT", now - milliseconds(500)) == seconds(2));
  CHECK(parse_retry_after("Fri, 31 Dec 9999 23:59:59 GMT", now) == seconds(253402300799 - 784111777));
  for (const char* nothing : {"", "0", "-5", "12x", "99999999999999999999", "Sun, 06 Nov 1994 08:49:00 GMT",
                              "Sun, 06 Foo 1994 08:50:00 GMT", "tomorrow"}) {
    CAPTURE(nothing);
    CHECK(parse_retry_after(nothing, now) == seconds(0));
  }
}

TEST_CASE("otlp http: spans that the collector rejects are not counted as delivered") {
  OtlpSink sink;
  sink.answer_next({{.body = R"({"partialSuccess":{"rejectedSpans":"2","errorMessage":"too old"}})"},
                    {.body = R"({"partialSuccess":{"rejectedSpans":"99"}})"},
                    {.body = R"({"partialSuccess":{}})"},
                    {.body = "<html>"}});
  auto exporter = exporter_to(sink);
  CHECK(exporter.send(three_spans(), {}) == 1);
  CHECK(exporter.send(three_spans(), {}) == 0);
  CHECK(exporter.send(three_spans(), {}) == 3);
  CHECK(exporter.send(three_spans(), {}) == 3);  // it said 200: it has them
}

TEST_CASE("otlp http: an answer that is no HTTP, or endless, is a failure and no crash") {
  for (const std::string& raw :
       {std::string("garbage\r\n\r\n"), std::string(1000, '\0'), std::string("HTTP/1.1 200 OK\r\n"),
        "HTTP/1.1 200 OK\r\n" + std::string(20'000, 'x') + "\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + std::string(200'000, 'x')}) {
    CAPTURE(raw.size());
    OtlpSink sink;
    sink.answer_otherwise({.raw = raw});
    CHECK(exporter_to(sink).send(three_spans(), {}) == 0);
  }
}

TEST_CASE("otlp http: interim answers are passed over, but not for ever") {
  const std::string interim = "HTTP/1.1 100 Continue\r\n\r\n";
  std::string many;
  for (int i = 0; i < 9; ++i) many += interim;
  OtlpSink sink;
  sink.answer_next({{.before = interim}, {.status = 400}, {.before = interim + interim}});
  auto exporter = exporter_to(sink);
  CHECK(exporter.send(three_spans(), {}) == 3);
  CHECK(exporter.send(three_spans(), {}) == 0);
  CHECK(exporter.send(three_spans(), {}) == 3);
  CHECK(sink.num_connections() == 1);
  sink.answer_otherwise({.before = many});
  CHECK(exporter.send(three_spans(), {}) == 0);
}

TEST_CASE("otlp http: an answer that nobody asked for is none to the next batch") {
  OtlpSink sink;
  sink.answer_next({{.after = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}, {.status = 400}});
  auto exporter = exporter_to(sink);
  CHECK(exporter.send(three_spans(), {}) == 3);
  CHECK(exporter.send(three_spans(), {}) == 0);
  CHECK(sink.num_connections() == 2);
}

TEST_CASE("otlp http: a connection closed between two batches costs neither of them") {
  OtlpSink sink;
  sink.answer_next({{.headers = "Connection: close\r\n"}, {.status = 200}, {.hangs_up = true}});
  auto exporter = exporter_to(sink);
  for (int i = 0; i < 4; ++i) CHECK(exporter.send(three_spans(), {}) == 3);
  CHECK(sink.spans().size() == 12);
}

TEST_CASE("otlp http: nobody listens: the batch is given up, the next one tried anew") {
  std::uint16_t port = 0;
  {
    const OtlpSink gone;
    port = gone.port();
  }
  OtlpHttpExporter exporter(parse_otlp_endpoint("http://127.0.0.1:" + std::to_string(port)), {}, kOptions);
  CHECK(exporter.send(three_spans(), {}) == 0);
  CHECK(exporter.send(three_spans(), {}) == 0);
}

TEST_CASE("otlp http: the log names the collector without its path, which may hold a key") {
  OtlpSink sink;
  sink.answer_otherwise({.status = 400});
  const auto endpoint = parse_otlp_endpoint(sink.url() + "/secret/traces");
  const auto lines = test::logged_by(
      LogFormat::kJson, [&] { OtlpHttpExporter(endpoint, {}, kOptions).send(three_spans(), {}); });
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("\"to\":\"" + sink.url() + "\"") != std::string::npos);
}

TEST_CASE("otlp http: a collector that never answers is given up at the deadline") {
  OtlpSink sink;
  sink.answer_otherwise({.says_nothing = true});
  ExportDeadline deadline;
  std::thread stopper([&] {
    CHECK(sink.wait_for_requests(1));
    deadline.set(Clock::now());
  });
  CHECK(exporter_to(sink, {.attempt_timeout = std::chrono::hours(1)}).send(three_spans(), deadline) == 0);
  stopper.join();
}

TEST_CASE("otlp http: an attempt has a time limit of its own") {
  OtlpSink sink;
  sink.answer_next({{.says_nothing = true}});
  CHECK(exporter_to(sink, {.attempt_timeout = milliseconds(100), .first_pause = milliseconds(1)})
            .send(three_spans(), {}) == 3);
  CHECK(sink.num_requests() == 2);
}

TEST_CASE("otlp http: without a limit an attempt waits for its answer") {
  OtlpSink sink;
  CHECK(exporter_to(sink, {.attempt_timeout = milliseconds(0)}).send(three_spans(), {}) == 3);
}

TEST_CASE("otlp endpoint: what people write is understood") {
  const auto plain = parse_otlp_endpoint("http://localhost:4318");
  CHECK(plain.host == "localhost");
  CHECK(plain.port == 4318);
  CHECK(plain.path == "/v1/traces");
  CHECK(parse_otlp_endpoint("http://collector").port == 4318);
  CHECK(parse_otlp_endpoint("http://collector/").path == "/v1/traces");
  CHECK(parse_otlp_endpoint("http://collector/otlp/traces").path == "/otlp/traces");
  CHECK(parse_otlp_endpoint("http://collector", "/").path == "/");
  CHECK(parse_otlp_endpoint("https://collector:4318").is_https);
  CHECK(parse_otlp_endpoint("https://collector:4318").port == 4318);
  CHECK(parse_otlp_endpoint("https://collector").port == 443);
  const auto v6 = parse_otlp_endpoint("http://[::1]:14318/x");
  CHECK(v6.host == "::1");
  CHECK(v6.port == 14318);
  CHECK(v6.url == "http://[::1]:14318/x");
  CHECK(parse_otlp_endpoint("http://[::1]").url == "http://[::1]:4318/v1/traces");
}

TEST_CASE("otlp endpoint: clear HTTP to another machine is exposed") {
  for (const char* exposed :
       {"http://collector", "http://10.0.0.1:4318", "http://[fe80::1]", "http://127.evil"})
    CHECK(parse_otlp_endpoint(exposed).is_exposed());
  for (const char* safe :
       {"https://collector", "http://localhost", "http://127.0.0.1", "http://127.1.2.3", "http://[::1]"})
    CHECK_FALSE(parse_otlp_endpoint(safe).is_exposed());
}

TEST_CASE("otlp endpoint: anything else is refused with what was expected and what came") {
  for (const char* wrong : {"", "localhost:4318", "ftp://host", "http://", "http://:4318", "http://host:0",
                            "http://host:99999", "http://host:43x", "http://host:", "http://[::1",
                            "http://[::1]junk:99", "http://[::1]]", "http://[]:99", "http://[[::1]:99",
                            "http://ho[st", "http://host]:99", "http://ho st", "http://host\r\nX: y"}) {
    CAPTURE(wrong);
    try {
      parse_otlp_endpoint(wrong);
      FAIL("was accepted");
    } catch (const std::runtime_error& error) {
      const std::string text = error.what();
      CHECK(text.find("http://localhost:4318") != std::string::npos);
      CHECK(text.find("got '" + std::string(wrong)) != std::string::npos);
    }
  }
}

TEST_CASE("otlp endpoint: a refusal repeats no password and no query") {
  const std::pair<const char*, const char*> kShown[] = {
      {"http://user:secret@host/v1", "***@host/v1"},
      {"http://user:sec/ret@host/v1?a", "***@host/v1?***"},
      {"http://user:80/sec?ret@host", "***"},
      {"user:secret@host:4318", "***@host:4318"},
      {"https://host/v1/traces?key=secret", "https://host/v1/traces?***"},
      {"http://host?key=secret", "http://host?***"},
      {"http://host#secret", "http://host#***"},
      {"http://host/v1#secret", "http://host/v1#***"},
      {"http://host/v1?key=sec@ret", "***"}};
  for (const auto& [url, shown] : kShown) {
    CAPTURE(url);
    CHECK_THROWS_WITH_AS(parse_otlp_endpoint(url),
                         doctest::Contains(("got '" + std::string(shown) + "'").c_str()), std::runtime_error);
  }
}

}  // namespace
}  // namespace troupe
