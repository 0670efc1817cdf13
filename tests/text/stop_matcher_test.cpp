// SPDX-License-Identifier: Apache-2.0
#include "text/stop_matcher.hpp"

#include <doctest/doctest.h>

#include <random>

namespace troupe {
namespace {

struct Result {
  std::string text;
  std::optional<std::size_t> matched;
};

// The definition: the stop string completed by the earliest byte, of several
// the longest.
Result expected(const std::vector<std::string>& stops, const std::string& text, bool include) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < stops.size(); ++i) {
      if (stops[i].empty() || !text.substr(0, end).ends_with(stops[i])) continue;
      if (!best || stops[i].size() > stops[*best].size()) best = i;
    }
    if (best) return {text.substr(0, include ? end : end - stops[*best].size()), best};
  }
  return {text, std::nullopt};
}

}  // namespace

TEST_CASE("stop matcher: text without a stop string passes at once") {
  StopMatcher matcher({"STOP"}, false);
  CHECK(matcher.push("hello").text == "hello");
  CHECK(matcher.finish().empty());
}

TEST_CASE("stop matcher: only what could become a stop string is held back") {
  StopMatcher matcher({"\n\nUser:"}, false);
  CHECK(matcher.push("fine.\n").text == "fine.");
  CHECK(matcher.push("\nUs").text.empty());
  CHECK(matcher.push("ual").text == "\n\nUsual");
  CHECK(matcher.push("\n\n").text.empty());
  CHECK(matcher.finish() == "\n\n");
}

TEST_CASE("stop matcher: text behind a match is dropped, also in later portions") {
  StopMatcher matcher({"b"}, false);
  const StopMatcher::Output output = matcher.push("abc");
  CHECK(output.text == "a");
  CHECK(output.matched == 0);
  CHECK(matcher.push("more").text.empty());
  CHECK(matcher.finish().empty());
}

TEST_CASE("stop matcher: the stop string is shown on demand") {
  StopMatcher matcher({"END"}, true);
  CHECK(matcher.push("a E").text == "a ");
  CHECK(matcher.push("ND b").text == "END");
}

TEST_CASE("stop matcher: empty stop strings are ignored") {
  StopMatcher matcher({"", "x"}, false);
  CHECK(matcher.push("abc").text == "abc");
  CHECK(matcher.push("x").matched == 1);
}

TEST_CASE("stop matcher: agrees with its definition however the text is cut") {
  std::mt19937 random(7);
  const auto word = [&](std::size_t max) {
    std::string text;
    for (std::size_t i = random() % (max + 1); i > 0; --i) text += "abc"[random() % 3];
    return text;
  };
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::string> stops;
    for (std::size_t i = random() % 4; i > 0; --i) stops.push_back(word(5));
    const std::string text = word(20);
    const bool include = random() % 2 == 0;
    StopMatcher matcher(stops, include);
    Result result;
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t length = 1 + random() % 4;
      const auto output = matcher.push(std::string_view(text).substr(i, length));
      result.text += output.text;
      if (output.matched) result.matched = output.matched;
      i += length;
    }
    result.text += matcher.finish();
    const Result right = expected(stops, text, include);
    REQUIRE(result.text == right.text);
    REQUIRE(result.matched.has_value() == right.matched.has_value());
    if (right.matched) REQUIRE(stops[*result.matched] == stops[*right.matched]);
  }
}

}  // namespace troupe
