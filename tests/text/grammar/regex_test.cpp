// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/regex.hpp"

#include <doctest/doctest.h>

#include <string>

#include "tests/text/grammar/grammar_run.hpp"
#include "text/grammar/regex_syntax.hpp"

namespace troupe {
namespace {

bool is_match(std::string_view pattern, std::string_view text) {
  return matches(matcher_of(parse_regex(pattern)), text);
}

std::string message_of(std::string_view pattern) {
  try {
    parse_regex(pattern);
  } catch (const GrammarError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("regex: the whole text must match") {
  CHECK(is_match("a|bc", "bc"));
  CHECK_FALSE(is_match("a|bc", "abc"));
  CHECK(is_match("^a+$", "aaa"));
}

TEST_CASE("regex: classes, escapes and counts") {
  CHECK(is_match("\\d{3}-\\w+", "123-a_9"));
  CHECK_FALSE(is_match("\\d{3}-\\w+", "12-a"));
  CHECK(is_match("[^a-c\\d-]{2,}", "xyz"));
  CHECK_FALSE(is_match("[^a-c\\d-]{2,}", "x-"));
  CHECK(is_match("[\\]\\-a]+", "]-a"));
  CHECK(is_match("\\u00e9\\x41\\u{1F600}\\uD83D\\uDE00",
                 "\xC3\xA9"
                 "A\xF0\x9F\x98\x80\xF0\x9F\x98\x80"));
  CHECK(is_match("(?<year>\\d{4})(?:-x)?", "2024-x"));
  CHECK(is_match("a{,2}", "a{,2}"));
  CHECK(is_match("x*?y+?z??", "xxyy"));
  CHECK(is_match(".", "\xE2\x82\xAC"));
  CHECK_FALSE(is_match(".", "\n"));
  CHECK_FALSE(is_match(".", "\xE2\x82"));
  CHECK(is_match("[^x]", "\xF4\x8F\xBF\xBF"));
  CHECK_FALSE(is_match("[^x]", "\xF4\x90\x80\x80"));
  CHECK_FALSE(is_match("[^x]", "\xED\xA0\x80"));
}

TEST_CASE("regex: a pattern that is searched for may stand anywhere but for its anchors") {
  const auto found = [](std::string_view pattern, std::string_view text) {
    GrammarBuilder builder;
    const auto spell = [&](const CharacterSet& set) { return one_character(builder, set); };
    const auto root = regex_expression(builder, found_anywhere(parse_regex_syntax(pattern)), spell);
    return matches(matcher_of(builder.build(root)), text);
  };
  CHECK(found("b", "abc"));
  CHECK_FALSE(found("^b", "abc"));
  CHECK(found("^b", "bc"));
  CHECK(found("^a$|(b$|^c)", "xb"));
  CHECK(found("^a$|(b$|^c)", "cx"));
  CHECK_FALSE(found("^a$|(b$|^c)", "ax"));
}

TEST_CASE("regex: unsupported constructs are refused by name and offset") {
  CHECK(message_of("a(?=b)") == "pattern, offset 3: look-around is not supported");
  CHECK(message_of("a(?<!b)") == "pattern, offset 3: look-around is not supported");
  CHECK(message_of("(a)\\1") == "pattern, offset 5: back references (\\1) are not supported");
  CHECK(message_of("\\bword") == "pattern, offset 2: word boundaries (\\b) are not supported");
  CHECK(message_of("\\p{L}") == "pattern, offset 2: Unicode properties (\\p) are not supported");
  CHECK(message_of("(?i)a") == "pattern, offset 2: flags inside a pattern are not supported");
  CHECK(message_of("a^b") == "pattern: ^ and $ are supported at the beginning and the end only");
  CHECK(message_of("(") == "pattern, offset 1: '(' without ')'");
  CHECK(message_of("a)") == "pattern, offset 1: ')' without '('");
  CHECK(message_of("[a") == "pattern, offset 2: '[' without ']'");
  CHECK(message_of("*") == "pattern, offset 0: nothing to repeat");
  CHECK(message_of("a**") == "pattern, offset 2: a repetition of a repetition");
  CHECK(message_of("a{2}{3}") == "pattern, offset 7: a repetition of a repetition");
  CHECK(message_of("a*{3}") == "pattern, offset 5: a repetition of a repetition");
  CHECK(message_of("a{2}{b").empty());  // a brace that begins no count is a character
  CHECK(message_of("a{3,2}") == "pattern, offset 6: a repetition whose least count is above its most");
  CHECK(message_of("a{1000000}") == "pattern, offset 8: a count above 100000");
  CHECK(message_of("[]") == "the grammar allows no text that ends");
  CHECK(message_of("\\uD800") == "pattern, offset 6: half of a surrogate pair");
  CHECK(message_of(std::string(5000, '(')) == "pattern, offset 100: groups nested deeper than 100");
  CHECK(message_of("((((((a{1000}){1000}){1000}){1000}){1000}){1000})").empty());
}

TEST_CASE("regex: empty groups may be repeated at any depth") {
  std::string pattern = "(?:)";
  for (int i = 0; i < 40; ++i) pattern = "(?:" + pattern + "){2}";
  CHECK(is_match(pattern + "a", "a"));
}

TEST_CASE("regex: lengths are those of the texts") {
  const auto lengths = [](std::string_view pattern) {
    const RegexLengths found = lengths_of(whole_match(parse_regex_syntax(pattern)));
    return std::pair(found.min, found.max);
  };
  CHECK(lengths("a(bc|d){2,3}") == std::pair(3U, 7U));
  CHECK(lengths("a*b?") == std::pair(0U, kUnboundedCount));
  CHECK(lengths("(a{1000}){90000}") == std::pair(90'000'000U, 90'000'000U));
}

TEST_CASE("regex: a pattern that is too ambiguous ends in an empty mask, not in a long wait") {
  const GrammarMatcher start = matcher_of(parse_regex("((a{0,900}){0,900}){0,900}b"));
  GrammarMatcher matcher = start;
  for (int i = 0; i < 50 && matcher.accept('a'); ++i) allowed_tokens(matcher, 257);
  CHECK(allowed_tokens(matcher, 257).size() <= 2);
}

}  // namespace troupe
