// SPDX-License-Identifier: Apache-2.0
#include "http/wire/request_parser.hpp"

#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace troupe;

namespace {

const Limits kDefaults;

struct Outcome {
  std::vector<std::string> requests;  // "METHOD target [body]"
  unsigned refused = 0;               // status, 0: not refused
  bool is_waiting = false;            // for more of a request

  bool operator==(const Outcome&) const = default;
};

Outcome parse(const std::vector<std::string_view>& pieces, const Limits& limits) {
  RequestParser parser(limits);
  Outcome outcome;
  for (const auto piece : pieces) {
    parser.feed(piece);
    while (parser.state() == RequestParser::State::kComplete) {
      const HttpRequest request = parser.take();
      outcome.requests.push_back(request.method + " " + request.target + " [" + request.body + "]");
    }
  }
  if (parser.state() == RequestParser::State::kRefused) outcome.refused = parser.error().status;
  outcome.is_waiting = outcome.refused == 0 && parser.has_started();
  return outcome;
}

// The same bytes whole, one by one and cut in two at every place.
Outcome parse_every_way(std::string_view bytes, const Limits& limits = {}) {
  const Outcome whole = parse({bytes}, limits);
  std::vector<std::string_view> singles;
  for (std::size_t i = 0; i < bytes.size(); ++i) singles.push_back(bytes.substr(i, 1));
  CHECK(parse(singles, limits) == whole);
  const std::size_t step = bytes.size() > 2000 ? 97 : 1;
  for (std::size_t i = 1; i < bytes.size(); i += step) {
    const bool same = parse({bytes.substr(0, i), bytes.substr(i)}, limits) == whole;
    if (!same) CAPTURE(i);
    if (!same) CHECK(same);
  }
  return whole;
}

std::string header(std::string_view fields, std::string_view start = "POST /x HTTP/1.1") {
  return std::string(start) + "\r\nHost: h\r\n" + std::string(fields) + "\r\n";
}

}  // namespace

TEST_CASE("request parser: requests come out whole, one after the other") {
  const Outcome outcome =
      parse_every_way(header("Content-Length: 3\r\n") + "abc" + header("", "GET /y?z HTTP/1.1") +
                      header("Transfer-Encoding: chunked\r\n") + "2\r\nde\r\n1;a=b\r\nf\r\n0\r\n\r\n" +
                      header("Content-Length: 0\r\n", "POST /e HTTP/1.1") + "POST /par");
  CHECK(outcome.requests ==
        std::vector<std::string>{"POST /x [abc]", "GET /y?z []", "POST /x [def]", "POST /e []"});
  CHECK(outcome.is_waiting);
}

TEST_CASE("request parser: the fields that matter are handed out") {
  RequestParser parser(kDefaults);
  parser.feed(
      header("authorization: Bearer k\r\nContent-TYPE: application/json\r\n"
             "Origin: http://o\r\nX-Request-Id: r\r\nConnection: x, Close\r\n"));
  REQUIRE(parser.state() == RequestParser::State::kComplete);
  const HttpRequest request = parser.take();
  CHECK(request.authorization == "Bearer k");
  CHECK(request.content_type == "application/json");
  CHECK(request.origin == "http://o");
  CHECK(request.request_id == "r");
  CHECK(!request.keep_alive);
}

TEST_CASE("request parser: keep-alive as each version has it") {
  const auto keeps = [](std::string_view start, std::string_view fields) {
    RequestParser parser(kDefaults);
    parser.feed(header(fields, start));
    REQUIRE(parser.state() == RequestParser::State::kComplete);
    return parser.take().keep_alive;
  };
  CHECK(keeps("GET / HTTP/1.1", ""));
  CHECK(!keeps("GET / HTTP/1.1", "Connection: close\r\n"));
  CHECK(!keeps("GET / HTTP/1.0", ""));
  CHECK(keeps("GET / HTTP/1.0", "Connection: keep-alive\r\n"));
  CHECK(!keeps("GET / HTTP/1.1", "Connection: keep-alive\r\nConnection: close\r\n"));
}

TEST_CASE("framing: what leaves the end of a request in doubt is refused, however it is cut") {
  struct Row {
    std::string name, bytes;
    unsigned status;
  };
  const std::string chunks = "5\r\nhello\r\n0\r\n\r\n";
  const Row rows[] = {
      {"length and chunked", header("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n") + chunks, 400},
      {"chunked and length", header("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n") + chunks, 400},
      {"two lengths", header("Content-Length: 5\r\nContent-Length: 6\r\n") + "hello!", 400},
      {"the same length twice", header("Content-Length: 5\r\nContent-Length: 5\r\n") + "hello", 400},
      {"length list", header("Content-Length: 5, 5\r\n") + "hello", 400},
      {"length +5", header("Content-Length: +5\r\n") + "hello", 400},
      {"length -5", header("Content-Length: -5\r\n") + "hello", 400},
      {"length 0x5", header("Content-Length: 0x5\r\n") + "hello", 400},
      {"length empty", header("Content-Length: \r\n"), 400},
      {"length 2^64", header("Content-Length: 18446744073709551616\r\n"), 400},
      {"length of 11 digits", header("Content-Length: 00000000005\r\n") + "hello", 400},
      {"length beyond the body limit", header("Content-Length: 1048577\r\n"), 413},
      {"xchunked", header("Transfer-Encoding: xchunked\r\n") + chunks, 501},
      {"chunked, identity", header("Transfer-Encoding: chunked, identity\r\n") + chunks, 501},
      {"gzip, chunked", header("Transfer-Encoding: gzip, chunked\r\n") + chunks, 501},
      {"identity", header("Transfer-Encoding: identity\r\n"), 501},
      {"empty coding", header("Transfer-Encoding: \r\n"), 501},
      {"chunked twice", header("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n") + chunks, 400},
      {"chunked in HTTP/1.0", header("Transfer-Encoding: chunked\r\n", "POST /x HTTP/1.0") + chunks, 400},
      {"no Host", "GET / HTTP/1.1\r\n\r\n", 400},
      {"two Hosts", header("Host: i\r\n", "GET / HTTP/1.1"), 400},
      {"folded line", header("A: b\r\n c\r\n"), 400},
      {"folded by a tab", header("A: b\r\n\tc\r\n"), 400},
      {"space before the colon", header("Content-Length : 5\r\n") + "hello", 400},
      {"bare LF", "GET / HTTP/1.1\nHost: h\n\n", 400},
      {"bare CR", "GET / HTTP/1.1\r\nHost: h\r\nA: b\rc\r\n\r\n", 400},
      {"NUL", std::string("GET / HTTP/1.1\r\nHost: h\0\r\n\r\n", 28), 400},
      {"no colon", header("nonsense\r\n"), 400},
      {"empty field name", header(": x\r\n"), 400},
      {"TLS", "\x16\x03\x01", 400},
      {"an empty line first", "\r\nGET / HTTP/1.1\r\n", 400},
      {"lower case method", "get / HTTP/1.1\r\n", 400},
      {"unknown method", header("", "BREW /x HTTP/1.1"), 501},
      {"absolute target", header("", "GET http://h/x HTTP/1.1"), 400},
      {"asterisk target", header("", "OPTIONS * HTTP/1.1"), 400},
      {"authority target", header("", "CONNECT h:80 HTTP/1.1"), 400},
      {"target that is not ASCII", header("", "GET /\xC3\xA9 HTTP/1.1"), 400},
      {"HTTP/2.0", header("", "GET / HTTP/2.0"), 505},
      {"HTTP/0.9", "GET /\r\n\r\n", 400},
      {"no version", header("", "GET / x"), 505},
      {"trailers", header("Transfer-Encoding: chunked\r\n") + "5\r\nhello\r\n0\r\nA: b\r\n\r\n", 400},
      {"chunk size 2^64", header("Transfer-Encoding: chunked\r\n") + "10000000000000000\r\nx", 400},
      {"chunk size of no digits", header("Transfer-Encoding: chunked\r\n") + ";x\r\nx\r\n", 400},
      {"chunk without its CRLF", header("Transfer-Encoding: chunked\r\n") + "1\r\nab0\r\n\r\n", 400},
      {"gzip body", header("Content-Encoding: gzip\r\nContent-Length: 1\r\n") + "x", 415},
      {"unknown expectation", header("Expect: miracles\r\nContent-Length: 1\r\n") + "x", 417},
      {"two keys", header("Authorization: Bearer a\r\nAuthorization: Bearer b\r\n"), 400},
  };
  for (const auto& row : rows) {
    CAPTURE(row.name);
    const Outcome outcome = parse_every_way(row.bytes);
    CHECK(outcome.refused == row.status);
    CHECK(outcome.requests.empty());
  }
}

TEST_CASE("framing: what is right is not refused") {
  const std::string good[] = {
      header("Transfer-Encoding: Chunked\r\n") + "0\r\n\r\n",
      header("Content-Encoding: identity\r\nContent-Length: 1\r\n") + "x",
      header("Content-Length: 0000000001\r\n") + "x",
      "GET / HTTP/1.0\r\n\r\n",
      header("A:b\r\nC:  d  \r\nE:\r\n"),
  };
  for (const auto& bytes : good) {
    CAPTURE(bytes);
    CHECK(parse_every_way(bytes).requests.size() == 1);
  }
}

TEST_CASE("framing: a refused request hides nothing behind it") {
  const Outcome outcome =
      parse_every_way(header("Transfer-Encoding: xchunked\r\n") + header("", "GET /hidden HTTP/1.1"));
  CHECK(outcome.refused == 501);
  CHECK(outcome.requests.empty());
}

TEST_CASE("framing: header, request line and fields end at their limits") {
  const auto with_target = [](std::size_t size) {  // of the request line without CRLF
    return header("", "GET /" + std::string(size - 14, 'x') + " HTTP/1.1");
  };
  CHECK(parse_every_way(with_target(4096)).requests.size() == 1);
  CHECK(parse_every_way(with_target(4097)).refused == 414);
  CHECK(parse_every_way("GET /" + std::string(10'000, 'x')).refused == 414);

  const auto with_size = [](std::size_t size) {
    const std::size_t rest = header("A: \r\n", "GET / HTTP/1.1").size();
    return header("A: " + std::string(size - rest, 'x') + "\r\n", "GET / HTTP/1.1");
  };
  CHECK(with_size(8192).size() == 8192);
  CHECK(parse_every_way(with_size(8192)).requests.size() == 1);
  CHECK(parse_every_way(with_size(8193)).refused == 431);

  const auto with_fields = [](int num) {  // besides Host
    std::string fields;
    for (int i = 0; i < num; ++i) fields += "a: b\r\n";
    return header(fields, "GET / HTTP/1.1");
  };
  CHECK(parse_every_way(with_fields(63)).requests.size() == 1);
  CHECK(parse_every_way(with_fields(64)).refused == 431);
}

TEST_CASE("framing: bodies end at their limit, by length and by chunks") {
  Limits limits;
  limits.max_body_bytes = 100;
  limits.max_wire_overhead_bytes = 200;
  const auto by_length = [](std::size_t size) {
    return header("Content-Length: " + std::to_string(size) + "\r\n") + std::string(size, 'x');
  };
  const auto by_chunks = [](std::size_t size, std::string_view extension) {
    std::string out = header("Transfer-Encoding: chunked\r\n");
    for (std::size_t i = 0; i < size; ++i) out.append("1").append(extension).append("\r\nx\r\n");
    return out + "0\r\n\r\n";
  };
  CHECK(parse_every_way(by_length(100), limits).requests.size() == 1);
  CHECK(parse_every_way(by_length(101), limits).refused == 413);
  CHECK(parse_every_way(by_chunks(40, ""), limits).requests.size() == 1);
  CHECK(parse_every_way(by_chunks(101, ""), limits).refused == 413);
  // Framing costs more than it may: 60 one-byte chunks take 365 bytes.
  CHECK(parse_every_way(by_chunks(60, ""), limits).refused == 413);
  CHECK(parse_every_way(by_chunks(10, ";e=" + std::string(30, 'y')), limits).refused == 413);
  CHECK(parse_every_way(by_chunks(1, ";e=" + std::string(400, 'y')), limits).refused == 413);
}

TEST_CASE("request parser: an expectation is told once, and not if the body is there") {
  RequestParser parser(kDefaults);
  parser.feed(header("Expect: 100-continue\r\nContent-Length: 2\r\n"));
  CHECK(parser.take_expectation());
  CHECK(!parser.take_expectation());
  parser.feed("ab");
  CHECK(parser.take().body == "ab");
  parser.feed(header("Expect: 100-continue\r\nContent-Length: 2\r\n") + "a");
  CHECK(!parser.take_expectation());
}

TEST_CASE("request parser: noise is refused or waited for, the same however it is cut") {
  std::mt19937 random(7);
  const std::string seed = header("Content-Length: 3\r\n") + "abc" +
                           header("Transfer-Encoding: chunked\r\n") + "2\r\nde\r\n0\r\n\r\n";
  for (int round = 0; round < 300; ++round) {
    std::string bytes = seed;
    for (unsigned i = 0; i < 1 + random() % 3; ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const Outcome whole = parse({bytes}, {});
    const std::size_t a = random() % bytes.size();
    const std::string_view rest = std::string_view(bytes).substr(a);
    const std::size_t b = rest.size() / 2;
    CHECK(parse({std::string_view(bytes).substr(0, a), rest.substr(0, b), rest.substr(b)}, {}) == whole);
  }
}
