// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/answer_json.hpp"

#include <algorithm>
#include <optional>

#include <doctest/doctest.h>

#include "http/json/json_text.hpp"
#include "http/wire/outgoing_bytes.hpp"

using namespace troupe;

namespace {

// Of every kind of byte that JSON escapes, and of characters of several bytes.
std::string long_text() {
  std::string text;
  for (int i = 0; text.size() < 40'000; ++i) text += "é\"\\\n\x01 line " + std::to_string(i);
  return text;
}

std::vector<AnswerToken> many_tokens() {
  std::vector<AnswerToken> tokens;
  for (std::uint32_t i = 0; i < 500; ++i) {
    const std::string text = "t" + std::to_string(i);
    tokens.push_back({.token = {.text = text, .bytes = text, .logprob = -0.5F},
                      .top = {{.text = "\"", .bytes = "\"", .logprob = -1.5F}},
                      .text_offset = i,
                      .has_logprob = i > 0});
  }
  return tokens;
}

std::string in_pieces(LongAnswer answer, std::size_t num_bytes) {
  std::string out;
  while (answer.append_some(out, num_bytes)) {
  }
  return out;
}

struct Written {
  std::string bytes;
  std::optional<LongAnswer> rest;
};
Written write(const std::string& text, const std::vector<AnswerToken>& tokens, ResponseShape shape,
              AnswerJson::Long when) {
  Written written;
  AnswerJson json(written.bytes, when);
  json.out() += "{\"text\":";
  json.text(text);
  json.out() += ",\"logprobs\":";
  json.logprobs(shape, tokens);
  json.out() += ",\"prompt_logprobs\":";
  json.prompt_logprobs(tokens);
  json.out() += ",\"settings\":";
  json.raw(text);
  json.out() += "}";
  if (json.has_gaps()) written.rest = json.take(nullptr);
  return written;
}

}  // namespace

TEST_CASE("answer json: in pieces of any size it is the same bytes as at once, and their number is known") {
  const auto text = long_text();
  const auto tokens = many_tokens();
  for (const auto shape : {ResponseShape::kChat, ResponseShape::kCompletion, ResponseShape::kResponse}) {
    const auto whole = write(text, tokens, shape, AnswerJson::Long::kAtOnce);
    CHECK(!whole.rest);
    auto later = write(text, tokens, shape, AnswerJson::Long::kLater);
    REQUIRE(later.rest);
    CHECK(later.bytes.empty());
    CHECK(later.rest->num_left() == whole.bytes.size());
    for (const std::size_t size : {1, 7, 1000, 65536, 1 << 24})
      CHECK(in_pieces(*later.rest, size) == whole.bytes);
  }
}

TEST_CASE("answer json: short answers have no gaps") {
  const auto tokens = many_tokens();
  CHECK(!write("short", {tokens.begin(), tokens.begin() + 8}, ResponseShape::kChat, AnswerJson::Long::kLater)
             .rest);
}

TEST_CASE("outgoing bytes: of a long event only a piece is in memory, however long it is") {
  const std::string text(8'000'000, '\n');  // two bytes each in JSON
  OutgoingBytes out;
  out.tail() += "before";
  std::string bytes;
  const EventFramer framer(EventFraming::kChunked);
  const std::size_t start = framer.begin(bytes);
  AnswerJson event(bytes);
  event.text(text);
  out.add(*framer.end(bytes, start, event, nullptr, true));
  CHECK(bytes.empty());
  out.tail() += "after";

  std::string sent;
  std::size_t most = 0;
  for (std::string_view next = out.next(); !next.empty(); next = out.next()) {
    most = std::max(most, out.num_bytes());
    const std::size_t some = std::min<std::size_t>(next.size(), 10'000);
    sent += next.substr(0, some);
    out.sent(some);
  }
  CHECK(out.is_empty());
  CHECK(most < 256 * 1024);

  CHECK(sent.starts_with("before"));
  CHECK(sent.ends_with("\r\n0\r\n\r\nafter"));
  std::string joined;
  std::string_view rest = std::string_view(sent).substr(6);
  for (std::size_t size = 1; size != 0;) {
    const std::size_t line = rest.find("\r\n");
    size = std::stoul(std::string(rest.substr(0, line)), nullptr, 16);
    joined += rest.substr(line + 2, size);
    REQUIRE(rest.substr(line + 2 + size, 2) == "\r\n");
    rest.remove_prefix(line + 2 + size + 2);
  }
  CHECK(rest == "after");
  CHECK(joined == json_string(text));
}

TEST_CASE("outgoing bytes: what was sent does not stay in memory while more comes") {
  OutgoingBytes out;
  const std::string event(1000, 'x');
  for (int i = 0; i < 10'000; ++i) {
    out.tail() += event;
    CHECK(out.next().size() <= 2000 + 64 * 1024);
    if (i > 0) out.sent(1000);  // always one behind
    REQUIRE(out.num_bytes() == 1000);
  }
  CHECK(out.tail().size() < 128 * 1024);
}
