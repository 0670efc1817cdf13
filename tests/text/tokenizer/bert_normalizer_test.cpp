// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/normalizer/bert_normalizer.hpp"

#include <doctest/doctest.h>

#include <random>

#include "text/tokenizer/normalizer/bert_character.hpp"
#include "text/utf8.hpp"

namespace troupe {
namespace {

constexpr BertNormalizerStep kNothing = {
    .cleans_text = false, .isolates_ideographs = false, .strips_accents = false, .lowercases = false};

std::string normalized(std::string_view text, const BertNormalizerStep& step = {}) {
  EncodingBudget budget;
  return bert_normalized(text, step, EncodingBudget::kUnlimited, budget);
}

}  // namespace

TEST_CASE("bert normalizer: case and accents go") {
  CHECK(normalized("H\u00e9LLo \u00c5ngstr\u00d6m") == "hello angstrom");
  CHECK(normalized("e\u0301\u0316\u0300") == "e");
  CHECK(normalized("\u03a3\u0391\u03a3") == "\u03c3\u03b1\u03c3");  // no final sigma
  CHECK(normalized("\u00df\u1e9e") == "\u00df\u00df");
}

TEST_CASE("bert normalizer: each part is done by itself") {
  BertNormalizerStep lower = kNothing;
  lower.lowercases = true;
  CHECK(normalized("\u00c9\u0130\tA", lower) == "\u00e9i\u0307\ta");
  BertNormalizerStep strip = kNothing;
  strip.strips_accents = true;
  CHECK(normalized("\u00c9\u0130\tA", strip) == "EI\tA");
  BertNormalizerStep clean = kNothing;
  clean.cleans_text = true;
  CHECK(normalized("A\tB\u00a0\u00c9", clean) == "A B \u00c9");
  BertNormalizerStep isolate = kNothing;
  isolate.isolates_ideographs = true;
  CHECK(normalized("a\u4e2d\u6587\tB", isolate) == "a \u4e2d  \u6587 \tB");
  CHECK(normalized("\u00c9\u0130\tA\u4e2d\x01", kNothing) == "\u00c9\u0130\tA\u4e2d\x01");
}

TEST_CASE("bert normalizer: controls go and white space becomes spaces") {
  CHECK(normalized(std::string("a\0b\x01"
                               "c\x7f"
                               "d",
                               7)) == "abcd");
  CHECK(normalized("a\ufffd\u00ad\u200d\ufeff\ue000\x0b\x0c\u0085\x1c"
                   "b") == "ab");
  CHECK(normalized("a\tb\nc\rd\u3000e\u2028f") == "a b c d e f");
  // Removing what is between two marks lets them be sorted, and stripped.
  CHECK(normalized("a\u0301\x01\u0316") == "a");
}

TEST_CASE("bert normalizer: only Chinese characters stand alone, not all of East Asia's") {
  CHECK(normalized("\u4e2dx\uf900") == " \u4e2d x \u8c48 ");
  CHECK(normalized("\u3042\u30a2") == "\u3042\u30a2");
  CHECK(normalized("\ud55c") == "\u1112\u1161\u11ab");  // decomposed, as accents are
  CHECK(!is_bert_ideograph(0x2B820));
  CHECK(is_bert_ideograph(0x2B920));
}

TEST_CASE("bert normalizer: classes of characters are those of Unicode 8") {
  CHECK(is_bert_mark(0x0301));
  CHECK(is_bert_mark(0x1734));
  CHECK(!is_bert_mark(0x1AC1));  // Unicode 13
  CHECK(!is_bert_mark(0x0903));  // takes space
  CHECK(!is_bert_mark(0x111C9));
  CHECK(is_bert_punctuation('$'));
  CHECK(is_bert_punctuation(0x2014));
  CHECK(is_bert_punctuation(0x166D));
  CHECK(is_bert_punctuation(0x111C9));
  CHECK(!is_bert_punctuation(0x2E52));  // Unicode 14
  CHECK(!is_bert_punctuation(0x20AC));  // a sign
  CHECK(!is_bert_punctuation('a'));
  CHECK(is_bert_control(0x200B));
  CHECK(!is_bert_control(0x08E2));  // Unicode 9
  CHECK(!is_bert_control(0x0378));  // not assigned
  CHECK(!is_bert_control('\n'));
  CHECK(is_bert_space(0x0085));
  CHECK(!is_bert_space(0x001C));
}

TEST_CASE("bert normalizer: what is normalized stays as it is") {
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (std::size_t n = random() % 12; n > 0; --n) {
      const char32_t c = random() % 2 == 0 ? random() % 0x300 : random() % 0x11000;
      if (c < 0xD800 || c > 0xDFFF) append_utf8(text, c);
    }
    // Isolating would add spaces again.
    BertNormalizerStep step;
    step.isolates_ideographs = false;
    const std::string once = normalized(text, step);
    REQUIRE(normalized(once, step) == once);
  }
}

TEST_CASE("bert normalizer: a long text of any kind is the same as its parts") {
  // Around the sizes of parts that are spent at once.
  for (const char* part : {"A", "\u00c9", "A\u00c9", "\u4e2d", "\n", "\x01"}) {
    std::string expected;
    std::string text;
    for (int i = 0; i < 5000; ++i) text += part, expected += normalized(part);
    CHECK(normalized(text) == expected);
  }
}

TEST_CASE("bert normalizer: growth beyond the limit ends it") {
  EncodingBudget budget;
  CHECK_THROWS_AS(bert_normalized(std::string("\u0390\u0390\u0390"), {}, 5, budget), EncodingStopped);
}

}  // namespace troupe
