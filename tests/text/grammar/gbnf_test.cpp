// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/gbnf.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>

#include "tests/text/grammar/grammar_run.hpp"

namespace troupe {

TEST_CASE("gbnf: literals, classes, choices and repetitions match as written") {
  const GrammarMatcher matcher = matcher_of(parse_gbnf(R"gbnf(
# a greeting
root ::= greeting " " name ("!" | "?"){1,2}
greeting ::= "hello" | "good" [ \t] "day"
name ::= [A-Z] [a-z]* | "\u00e9" .
)gbnf"));
  CHECK(matches(matcher, "hello Ann!"));
  CHECK(matches(matcher, "good\tday B?!"));
  CHECK(matches(matcher, "hello \xC3\xA9\xF0\x9F\x98\x80!"));
  CHECK_FALSE(matches(matcher, "hello ann!"));
  CHECK_FALSE(matches(matcher, "hello Ann"));
  CHECK_FALSE(matches(matcher, "hello Ann!!!"));
}

TEST_CASE("gbnf: rules go on over lines in parentheses and behind a bar") {
  const GrammarMatcher matcher =
      matcher_of(parse_gbnf("root ::= (\n  \"a\"\n  \"b\"\n) |\n  tail\ntail ::= \"c\"\n"));
  CHECK(matches(matcher, "ab"));
  CHECK(matches(matcher, "c"));
}

TEST_CASE("gbnf: rules that nest are counted") {
  const GrammarMatcher matcher = matcher_of(parse_gbnf(R"gbnf(root ::= "(" root ")" | "x")gbnf"));
  CHECK(matches(matcher, "(((x)))"));
  CHECK_FALSE(matches(matcher, "(((x))"));
  CHECK_FALSE(matches(matcher, "((x)))"));
}

TEST_CASE("gbnf: stacks that differ in each level are followed without growing") {
  const GrammarMatcher matcher = matcher_of(parse_gbnf(R"(root ::= "a" root "b" | "a" root "c" | "")"));
  CHECK(matches(matcher, std::string(200, 'a') + std::string(100, 'b') + std::string(100, 'c')));
  CHECK_FALSE(matches(matcher, std::string(200, 'a') + std::string(201, 'b')));
}

TEST_CASE("gbnf: long counts are exact") {
  const GrammarMatcher matcher = matcher_of(parse_gbnf(R"(root ::= ("ab" | "c"){3,700} "d")"));
  const auto repeated = [](int number) {
    std::string text;
    for (int i = 0; i < number; ++i) text += i % 2 == 0 ? "ab" : "c";
    return text + "d";
  };
  CHECK_FALSE(matches(matcher, repeated(2)));
  CHECK(matches(matcher, repeated(3)));
  CHECK(matches(matcher, repeated(700)));
  CHECK_FALSE(matches(matcher, repeated(701)));
}

TEST_CASE("gbnf: a counted part that may be empty needs no minimum and keeps its most") {
  const GrammarMatcher matcher = matcher_of(parse_gbnf(R"(root ::= ("a"? "b"? "c"? "d"? "e"?){2,60} "x")"));
  CHECK(matches(matcher, "x"));
  CHECK(matches(matcher, "edcbax"));
  std::string text;
  for (int i = 0; i < 60; ++i) text += "e";
  CHECK(matches(matcher, text + "x"));
  CHECK_FALSE(matches(matcher, text + "ex"));
}

TEST_CASE("gbnf: thousands of counts are kept apart at once") {
  std::string text = "root ::= \"x\" | ( \"a\"{40,50} \"c\"";
  for (int i = 0; i < 4000; ++i) text += i % 2 == 0 ? " | [ab]{20,90}" : " | [a]{30,90}";
  const GrammarMatcher matcher = matcher_of(parse_gbnf(text + ")"));
  CHECK_FALSE(matches(matcher, std::string(19, 'b')));
  CHECK(matches(matcher, std::string(90, 'b')));
  CHECK_FALSE(matches(matcher, std::string(91, 'a')));
  CHECK(matches(matcher, std::string(50, 'a') + "c"));
  CHECK_FALSE(matches(matcher, std::string(51, 'a') + "c"));
}

TEST_CASE("gbnf: counts of an ambiguous part are kept apart") {
  const GrammarMatcher matcher = matcher_of(parse_gbnf(R"(root ::= ("a" | "aa"){60} "b")"));
  CHECK_FALSE(matches(matcher, std::string(59, 'a') + "b"));
  CHECK(matches(matcher, std::string(60, 'a') + "b"));
  CHECK(matches(matcher, std::string(120, 'a') + "b"));
  CHECK_FALSE(matches(matcher, std::string(121, 'a') + "b"));
}

TEST_CASE("gbnf: tokens by id and by name are read as tokens, not as their spelling") {
  const auto vocabulary = byte_vocabulary({"<call>"});
  const TokenId call = 256, end = 257;
  const FindToken find = [&](std::string_view name) -> std::optional<TokenId> {
    if (name == "<think>") return 7;
    return std::nullopt;
  };
  const auto grammar = std::make_shared<const Grammar>(parse_gbnf(R"(root ::= <think>? <[256]> "a")", find));
  const GrammarMatcher start(grammar, vocabulary);
  CHECK(allowed_tokens(start, vocabulary->size()) == std::vector<TokenId>{7, call});
  GrammarMatcher matcher = start;
  CHECK_FALSE(matcher.accept('<'));
  CHECK(matcher.accept(7));
  CHECK(matcher.accept(call));
  CHECK(allowed_tokens(matcher, vocabulary->size()) == std::vector<TokenId>{'a'});
  CHECK(matcher.accept('a'));
  CHECK(matcher.is_finished());
  CHECK(allowed_tokens(matcher, vocabulary->size()) == std::vector<TokenId>{end});
}

TEST_CASE("gbnf: errors name the line and the construct") {
  const auto message = [](std::string_view text) -> std::string {
    try {
      parse_gbnf(text);
    } catch (const GrammarError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message("root ::= \"a\"\nx = y") == "grammar, line 2: expected '::=' after 'x'");
  CHECK(message("root ::= other") == "rule 'other' is used and not defined");
  CHECK(message("top ::= \"a\"") == "the grammar has no rule 'root'");
  CHECK(message("root ::= \"a\"\nroot ::= \"b\"") == "grammar, line 2: rule 'root' is defined twice");
  CHECK(message("root ::= [b-a]") == "grammar, line 1: a range whose first character is behind its last");
  CHECK(message("root ::= \"a") == "grammar, line 1: a literal without its closing quotation mark");
  CHECK(message("root ::= \"a\"{200000}") == "grammar, line 1: a number above 100000");
  CHECK(message("root ::= <think>") == "grammar, line 1: the vocabulary has no token '<think>'");
  CHECK(message("root ::= !<[3]>") == "grammar, line 1: '!<token>' is not supported");
  CHECK(message("root ::= root \"a\" | \"b\"") ==
        "a rule calls itself before it has read anything (left recursion)");
  CHECK(message("root ::= x root\nx ::= \"y\"*") == "the grammar allows no text that ends");
  CHECK(message("root ::= x root | \"z\"\nx ::= \"y\"*") ==
        "a rule calls itself before it has read anything (left recursion)");
  CHECK(message("root ::= \"\xFF\"") == "grammar, line 1: a byte that is not UTF-8");
}

TEST_CASE("gbnf: deep nesting is refused, not followed") {
  CHECK_THROWS_AS(parse_gbnf("root ::= " + std::string(100'000, '(') + "\"a\"" + std::string(100'000, ')')),
                  GrammarError);
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 20'000; ++i)
    chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + " \"x\"\n";
  CHECK_THROWS_AS(parse_gbnf(chain + "r20000 ::= \"y\""), GrammarError);
}

TEST_CASE("gbnf: repetitions of repetitions are compiled in steps that don't multiply") {
  const auto nested = [](const std::string& part) {
    std::string text = "root ::= " + part;
    for (int i = 0; i < 40; ++i) text += "{2}";
    return matcher_of(parse_gbnf(text + " \"b\""));
  };
  CHECK(matches(nested("\"\""), "b"));
  CHECK(matches(nested("(\"\" \"\")"), "b"));
  CHECK_FALSE(matches(nested("(\"\" \"\")"), "bb"));
  CHECK_FALSE(matches(nested("[a]"), "aab"));
  const GrammarMatcher eight = matcher_of(parse_gbnf("root ::= [a]{2}{2}{2}"));
  CHECK(matches(eight, std::string(8, 'a')));
  CHECK_FALSE(matches(eight, std::string(7, 'a')));
}

// Values that come down one at a time must not be carried through the whole grammar each time: this took
// 12 s and 1.1 GB.
TEST_CASE("gbnf: a chain of rules whose ends are ever nearer is settled once") {
  constexpr int kDepth = 2'000, kLength = 80'000;
  std::string text = "d0 ::= \"b\"\n";
  for (int i = 1; i <= kDepth; ++i)
    text += "d" + std::to_string(i) + " ::= \"a\" d" + std::to_string(i - 1) + " \"b\"\n";
  for (int i = 0; i < kDepth; ++i)
    text += "c" + std::to_string(i) + " ::= d" + std::to_string(kDepth - i) + " | \"x\" c" +
            std::to_string(i + 1) + "\n";
  text += "c" + std::to_string(kDepth) + " ::= \"z\"\n";
  text += "root ::= \"" + std::string(kLength, 'a') + "\" c0\n";
  const Grammar grammar = parse_gbnf(text);
  CHECK(grammar.frames_needed(grammar.start()) == 1);
}

TEST_CASE("gbnf: damaged grammars are refused or run") {
  const std::string whole = R"gbnf(root ::= "{" (pair ("," pair){0,3})? "}" | [^a-z\]] item+
pair ::= "\"" [a-z]{1,40} "\":" item
item ::= <[12]> | "\x41\u00e9" .? | ( "x" | root )*
)gbnf";
  std::mt19937_64 random(5);
  int num_run = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = whole;
    for (std::size_t i = 0; i < 1 + random() % 3; ++i) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0: text.erase(at, 1 + random() % 4); break;
        case 1: text[at] = static_cast<char>(random()); break;
        default: text.insert(at, 1, "()[]{}\"|*+?<>\\:=\n-"[random() % 19]); break;
      }
    }
    try {
      const GrammarMatcher matcher = matcher_of(parse_gbnf(text));
      CHECK_FALSE(allowed_tokens(matcher, 257).empty());
      ++num_run;
    } catch (const GrammarError&) {
    }
  }
  CHECK(num_run > 100);
}

}  // namespace troupe
