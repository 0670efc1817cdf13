// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/grammar_matcher.hpp"

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/text/grammar/grammar_run.hpp"
#include "text/grammar/gbnf.hpp"
#include "text/grammar/grammar_builder.hpp"
#include "text/grammar/grammar_masks.hpp"
#include "text/grammar/grammar_states.hpp"
#include "text/grammar/json_schema.hpp"

namespace troupe {
namespace {

// An expression that a plain recogniser runs: the ends of all its matches in a text, found by trying.
struct PlainExpression {
  enum class Kind { kText, kSequence, kAny, kRepeat, kRule };
  Kind kind = Kind::kText;
  std::string text = {};
  std::vector<PlainExpression> parts = {};
  std::size_t min = 0, max = 0, rule = 0;
};

class PlainRecogniser {
 public:
  explicit PlainRecogniser(std::vector<PlainExpression> rules) : rules_(std::move(rules)) {}

  // True if `text`, followed by something or nothing, is in rule 0. Texts are extended until `longest`.
  bool is_whole(const std::string& text) const { return ends(rules_[0], text, 0, 0).contains(text.size()); }

 private:
  using Ends = std::set<std::size_t>;
  Ends ends(const PlainExpression& expression, const std::string& text, std::size_t at, int depth) const {
    using Kind = PlainExpression::Kind;
    Ends found;
    switch (expression.kind) {
      case Kind::kText:
        if (text.substr(at).starts_with(expression.text)) found.insert(at + expression.text.size());
        return found;
      case Kind::kSequence:
        found.insert(at);
        for (const PlainExpression& part : expression.parts) {
          Ends next;
          for (const std::size_t end : found) next.merge(ends(part, text, end, depth));
          found = next;
        }
        return found;
      case Kind::kAny:
        for (const PlainExpression& part : expression.parts) found.merge(ends(part, text, at, depth));
        return found;
      case Kind::kRepeat: {
        Ends reached{at};
        if (expression.min == 0) found.insert(at);
        for (std::size_t i = 1; i <= expression.max && !reached.empty(); ++i) {
          Ends next;
          for (const std::size_t end : reached) next.merge(ends(expression.parts[0], text, end, depth));
          reached = next;
          if (i >= expression.min) found.insert(reached.begin(), reached.end());
        }
        return found;
      }
      case Kind::kRule: return ends(rules_[expression.rule], text, at, depth + 1);
    }
    return found;
  }

  std::vector<PlainExpression> rules_;
};

// Rules that call one another only behind a letter, so none is left recursive.
class RandomGrammar {
 public:
  explicit RandomGrammar(std::uint64_t seed) : random_(seed) {
    for (std::size_t i = 0; i < kNumRules; ++i) rules_.push_back(expression(3));
  }
  const std::vector<PlainExpression>& rules() const { return rules_; }

  Grammar build() const {
    GrammarBuilder builder;
    std::vector<GrammarRule> rules;
    for (std::size_t i = 0; i < rules_.size(); ++i) rules.push_back(builder.declare_rule());
    for (std::size_t i = 0; i < rules_.size(); ++i)
      builder.define(rules[i], built(builder, rules, rules_[i]));
    return builder.build(builder.call(rules[0]));
  }

 private:
  static constexpr std::size_t kNumRules = 3;
  using Kind = PlainExpression::Kind;

  PlainExpression letters() {
    std::string text;
    for (std::size_t i = 0; i < 1 + random_() % 2; ++i) text += "abc"[random_() % 3];
    return {.kind = Kind::kText, .text = text};
  }

  PlainExpression expression(int depth) {
    if (depth == 0) return letters();
    PlainExpression made;
    switch (random_() % 5) {
      case 0: return letters();
      case 1: made.kind = Kind::kSequence; break;
      case 2: made.kind = Kind::kAny; break;
      case 3:
        made.kind = Kind::kRepeat;
        made.min = random_() % 3;
        made.max = made.min + random_() % 12;
        made.parts.push_back(expression(depth - 1));
        return made;
      default:
        made.kind = Kind::kSequence;
        made.parts.push_back(letters());
        made.parts.push_back({.kind = Kind::kRule, .rule = random_() % kNumRules});
        return made;
    }
    for (std::size_t i = 0; i < 2 + random_() % 2; ++i) made.parts.push_back(expression(depth - 1));
    return made;
  }

  static GrammarExpression built(GrammarBuilder& builder, const std::vector<GrammarRule>& rules,
                                 const PlainExpression& plain) {
    std::vector<GrammarExpression> parts;
    for (const PlainExpression& part : plain.parts) parts.push_back(built(builder, rules, part));
    switch (plain.kind) {
      case Kind::kText: return builder.text(plain.text);
      case Kind::kSequence: return builder.sequence(parts);
      case Kind::kAny: return builder.any_of(parts);
      case Kind::kRepeat:
        return builder.repeat(parts[0], static_cast<std::uint32_t>(plain.min),
                              static_cast<std::uint32_t>(plain.max));
      case Kind::kRule: return builder.call(rules[plain.rule]);
    }
    return builder.nothing();
  }

  std::mt19937_64 random_;
  std::vector<PlainExpression> rules_;
};

// All texts of up to `longest` letters, each with whether it is in the grammar; and all their beginnings.
struct Language {
  std::set<std::string> texts, beginnings;
};

void add_texts(const PlainRecogniser& recogniser, std::string& text, std::size_t longest,
               Language& language) {
  if (recogniser.is_whole(text)) {
    language.texts.insert(text);
    for (std::size_t i = 0; i <= text.size(); ++i) language.beginnings.insert(text.substr(0, i));
  }
  if (text.size() == longest) return;
  for (const char letter : {'a', 'b', 'c'}) {
    text += letter;
    add_texts(recogniser, text, longest, language);
    text.pop_back();
  }
}

std::shared_ptr<const GrammarVocabulary> letter_vocabulary() {
  const std::vector<std::string> tokens{"a", "b", "c", "ab", "ba", "cc", "abc", "aab", "", "ca", "ab", "x"};
  return std::make_shared<GrammarVocabulary>(tokens, std::vector<TokenId>{8});
}

std::vector<TokenId> allowed(const GrammarMatcher& matcher) { return allowed_tokens(matcher, 12); }

}  // namespace

TEST_CASE("grammar matcher: masks of random grammars are what trying every text says") {
  constexpr std::size_t kLongest = 7;
  const auto vocabulary = letter_vocabulary();
  int num_grammars = 0, num_masks = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const RandomGrammar random(seed);
    std::shared_ptr<const Grammar> grammar;
    try {
      grammar = std::make_shared<const Grammar>(random.build());
    } catch (const GrammarError&) {
      continue;  // no text ends
    }
    ++num_grammars;
    Language language;
    std::string text;
    add_texts(PlainRecogniser(random.rules()), text, kLongest, language);
    const GrammarMatcher start(grammar, vocabulary);
    for (const std::string& beginning : language.beginnings) {
      if (beginning.size() > 4) continue;
      GrammarMatcher matcher = start;
      for (const char letter : beginning) REQUIRE(matcher.accept(letter - 'a'));
      CHECK(matcher.may_end() == language.texts.contains(beginning));
      const std::vector<TokenId> tokens = allowed(matcher);
      const std::set<TokenId> set(tokens.begin(), tokens.end());
      ++num_masks;
      CHECK(set.contains(8) == language.texts.contains(beginning));
      for (TokenId token = 0; token < 12; ++token) {
        if (token == 8) continue;
        GrammarMatcher next = matcher;
        CHECK(next.accept(token) == set.contains(token));
        // A text of the language that is longer than all tried says more: only one way is certain.
        const std::string after = beginning + std::string(vocabulary->bytes(token));
        if (language.beginnings.contains(after)) CHECK(set.contains(token));
        if (!set.contains(token)) CHECK_FALSE(language.beginnings.contains(after));
      }
    }
    // Texts that the automaton allows and that end within what was tried are in the language.
    std::mt19937_64 draws(seed);
    for (int round = 0; round < 20; ++round) {
      GrammarMatcher matcher = start;
      for (std::string answer; answer.size() <= 40 && !matcher.is_finished();) {
        const std::vector<TokenId> tokens = allowed(matcher);
        REQUIRE_FALSE(tokens.empty());
        const TokenId token = tokens[draws() % tokens.size()];
        REQUIRE(matcher.accept(token));
        answer += vocabulary->bytes(token);
        if (answer.size() <= kLongest) CHECK(matcher.may_end() == language.texts.contains(answer));
      }
    }
  }
  CHECK(num_grammars > 200);
  CHECK(num_masks > 1000);
}

TEST_CASE("grammar matcher: tokens of plain characters are allowed as trying each says") {
  std::vector<std::string> longer{
      "ab",  "abcd", " the", "\xC3\xA9t\xC3\xA9", "\xC3", "\xA9", "\"",  "\",",   "\"}", "a\"", "a\"}", "a\\",
      "\\u", "\\n",  "\x7F", "abcdefghij",        "\n",   "ab\n", "{\"", "\": \""};
  longer.emplace_back(60, 'x');
  longer.emplace_back(48, 'y');
  const auto vocabulary = byte_vocabulary(longer);
  for (const char* schema :
       {R"({"type":"object","properties":{"a":{"type":"string"}},"required":["a"]})",
        R"({"type":"string","maxLength":5})", R"({"type":"string","minLength":3,"maxLength":70})",
        R"({"type":"string","pattern":"^[a-d]{2,9}$"})", R"({"type":"string","pattern":"e"})"}) {
    const auto grammar = std::make_shared<const Grammar>(grammar_of_json_schema(schema));
    std::mt19937_64 random(3);
    for (int round = 0; round < 30; ++round) {
      GrammarMatcher matcher(grammar, vocabulary);
      for (int step = 0; step < 12 && !matcher.is_finished(); ++step) {
        const std::vector<TokenId> tokens = allowed_tokens(matcher, vocabulary->size());
        REQUIRE_FALSE(tokens.empty());
        const std::set<TokenId> set(tokens.begin(), tokens.end());
        for (std::size_t i = 0; i < vocabulary->size(); ++i) {
          GrammarMatcher next = matcher;
          REQUIRE(next.accept(static_cast<TokenId>(i)) == set.contains(static_cast<TokenId>(i)));
        }
        REQUIRE(matcher.accept(tokens[random() % tokens.size()]));
      }
    }
  }
}

TEST_CASE("grammar matcher: an answer ends with an end token, once it may") {
  const auto vocabulary = letter_vocabulary();
  GrammarMatcher matcher(std::make_shared<const Grammar>(parse_gbnf("root ::= \"ab\" \"c\"?")), vocabulary);
  CHECK(allowed(matcher) == std::vector<TokenId>{0, 3, 6, 10});
  CHECK_FALSE(matcher.accept(8));
  CHECK_FALSE(matcher.accept(-1));
  CHECK_FALSE(matcher.accept(12));
  CHECK(matcher.accept(3));
  CHECK(matcher.may_end());
  CHECK_FALSE(matcher.is_finished());
  GrammarMatcher other = matcher;
  CHECK(other.accept(2));
  CHECK(other.is_finished());
  CHECK(allowed(other) == std::vector<TokenId>{8});
  CHECK(matcher.accept(8));
  CHECK(matcher.is_finished());
  CHECK(allowed(matcher).empty());
  CHECK_FALSE(matcher.accept(2));
}

TEST_CASE("grammar matcher: nesting ends where the stack does, never in a dead end") {
  const auto vocabulary = byte_vocabulary();
  GrammarMatcher matcher(std::make_shared<const Grammar>(json_object_grammar()), vocabulary);
  REQUIRE(accepts_bytes(matcher, "{\"a\":"));
  int depth = 0;
  while (matcher.accept('[')) ++depth;
  CHECK(depth > 100);
  CHECK(depth < 1000);
  CHECK(accepts_bytes(matcher, std::string(static_cast<std::size_t>(depth), ']') + "}"));
  CHECK(matcher.is_finished());
}

TEST_CASE("grammar matcher: a long answer outgrows its automaton and goes on in a new one") {
  const auto vocabulary = byte_vocabulary();
  const GrammarMatcher start(
      std::make_shared<const Grammar>(parse_gbnf(R"(root ::= ("a" | "b" "c"){60000})")), vocabulary);
  GrammarMatcher matcher = start, copy = start;
  for (int i = 0; i < 60'000; ++i) {
    REQUIRE_FALSE(matcher.may_end());
    REQUIRE(accepts_bytes(matcher, i % 3 == 0 ? "bc" : "a"));
    if (i == 20'000) copy = matcher;
  }
  CHECK(matcher.is_finished());
  for (int i = 20'001; i < 60'000; ++i) REQUIRE(copy.accept('a'));
  CHECK(copy.is_finished());
}

TEST_CASE("grammar matcher: a mask whose states would take too much memory is empty") {
  const auto vocabulary = byte_vocabulary({std::string(200, 'a')});
  std::string text = "root ::= [a]{2,900}";
  for (int i = 1; i < 2000; ++i) text += " | [a]{2,900}";
  const GrammarMatcher matcher(std::make_shared<const Grammar>(parse_gbnf(text)), vocabulary);
  CHECK(allowed_tokens(matcher, vocabulary->size()).empty());
  CHECK(allowed_tokens(matcher, vocabulary->size()).empty());
  const auto short_tokens = byte_vocabulary({"aaa"});
  const GrammarMatcher other(std::make_shared<const Grammar>(parse_gbnf(text)), short_tokens);
  CHECK(allowed_tokens(other, short_tokens->size()) == std::vector<TokenId>{'a', 256});
}

TEST_CASE("grammar matcher: copies run in several threads") {
  const auto vocabulary = byte_vocabulary();
  const GrammarMatcher start(std::make_shared<const Grammar>(json_object_grammar()), vocabulary);
  std::vector<std::thread> threads;
  std::vector<int> num_answers(4, 0);
  for (std::size_t i = 0; i < num_answers.size(); ++i)
    threads.emplace_back([&, i] {
      std::mt19937_64 random(i);
      for (int round = 0; round < 20; ++round)
        if (random_answer(start, *vocabulary, random)) ++num_answers[i];
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(num_answers == std::vector<int>(4, 20));
}

TEST_CASE("grammar builder: shared parts that add no states are bounded too") {
  GrammarBuilder builder;
  GrammarExpression part = builder.empty();
  for (int i = 0; i < 40; ++i) part = builder.sequence({part, part});
  CHECK_THROWS_WITH_AS(builder.build(part), "the grammar is too large", GrammarError);
}

TEST_CASE("grammar vocabulary: tokens that can't be are refused") {
  CHECK_THROWS_WITH(GrammarVocabulary({std::string(70'000, 'a')}, {}), "token 0 has 70000 bytes");
  CHECK_THROWS_WITH(GrammarVocabulary({"a"}, {1}), "end token 1 is not in the vocabulary");
}

// Texts of an "s", two letters, then an "x": of so many lists, each of which lacks some letters, at least one
// has both. A state of it has a position in each list that goes on.
Grammar many_lists(std::size_t num_lists) {
  std::mt19937_64 random(9);
  GrammarBuilder builder;
  std::vector<GrammarExpression> lists;
  for (std::size_t list = 0; list < num_lists; ++list) {
    std::vector<GrammarExpression> letters;
    for (int place = 0; place < 2; ++place) {
      ByteSet set;
      for (unsigned char letter = 'a'; letter <= 'z'; ++letter) set.set(letter, random() % 10 != 0);
      letters.push_back(builder.byte_of(set));
    }
    letters.push_back(builder.text("x"));
    lists.push_back(builder.sequence(std::move(letters)));
  }
  const auto text = builder.any_of(std::move(lists));
  return builder.build(builder.sequence({builder.text("s"), text}));
}

TEST_CASE("grammar matcher: a mask that is too dear is so whatever was computed before it") {
  // Behind an "s" twice as many may follow as with it.
  std::vector<std::string> words;
  for (char first = 'a'; first <= 'z'; ++first)
    for (char second = 'a'; second <= 'z'; ++second) {
      words.push_back({first, second});
      if (first < 'n') words.push_back({'s', first, second});
    }
  const auto vocabulary = byte_vocabulary(words);
  for (const auto& [num_lists, is_dear] : {std::pair{3000U, true}, std::pair{1000U, false}}) {
    CAPTURE(num_lists);
    const auto grammar = std::make_shared<const Grammar>(many_lists(num_lists));
    const auto num_allowed = [&](bool is_warm) {
      GrammarMatcher matcher(grammar, vocabulary);
      REQUIRE(matcher.accept('s'));
      GrammarMatcher before(grammar, vocabulary);
      if (is_warm) {
        REQUIRE(!allowed_tokens(before, vocabulary->size()).empty());
        REQUIRE(before.accept('s'));
        matcher = before;
      }
      return allowed_tokens(matcher, vocabulary->size()).size();
    };
    CHECK((num_allowed(false) == 0) == is_dear);
    CHECK(num_allowed(true) == num_allowed(false));
  }
}

TEST_CASE("grammar matcher: a mask that is made in no time is not kept, however much was computed before") {
  std::vector<std::string> words;
  for (char first = 'a'; first <= 'z'; ++first)
    for (char second = 'a'; second <= 'z'; ++second) words.push_back({first, second});
  const auto vocabulary = byte_vocabulary(words);
  GrammarMatcher dear(std::make_shared<const Grammar>(many_lists(5000)), vocabulary);
  REQUIRE(dear.accept('s'));
  GrammarMatcher cheap = dear;
  REQUIRE(accepts_bytes(cheap, "ab"));
  const auto expected = allowed_tokens(cheap, vocabulary->size());
  CHECK(expected == std::vector<TokenId>{'x'});
  REQUIRE(allowed_tokens(dear, vocabulary->size()).empty());
  const std::size_t num_bytes = cheap.size_bytes();
  for (int time = 0; time < 2; ++time) CHECK(allowed_tokens(cheap, vocabulary->size()) == expected);
  CHECK(cheap.size_bytes() < num_bytes + vocabulary->num_mask_words() * sizeof(std::uint32_t));
}

TEST_CASE("grammar matcher: a grammar that is too ambiguous from its beginning is soon given up") {
  std::string text = "x ::= \"y\"\nroot ::= x \"end 0\"";
  for (int i = 1; i < 3500; ++i) text += " | x \"end " + std::to_string(i) + "\"";
  const Grammar grammar = parse_gbnf(text);
  const GrammarStates states(grammar);
  CHECK(states.start() == GrammarStates::kDead);
  CHECK(states.work() < GrammarStates::kMaxStartWork + 100'000);
}

}  // namespace troupe
