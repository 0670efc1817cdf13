// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/newer_characters.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/text/text_data.hpp"
#include "text/tokenizer/normalizer/normalizer.hpp"
#include "text/tokenizer/pre_tokenizer.hpp"
#include "text/tokenizer/text_pattern.hpp"
#include "text/utf8.hpp"

namespace troupe {
namespace newer_characters_test {

using Pieces = std::vector<std::string>;

// Llama 3's, and the words of DeepSeek V3.
const std::string kLlamaWords =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string kDeepSeekWords =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::string utf8(char32_t code_point) {
  std::string bytes;
  append_utf8(bytes, code_point);
  return bytes;
}

Pieces cut(const std::string& expression, const std::string& text) {
  const PreTokenizer words({SplitStep{TextPattern::regex(expression), SplitBehavior::kIsolated}});
  PatternScratch scratch;
  EncodingBudget budget;
  Pieces pieces;
  words.cut(text, true, scratch, budget, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

std::string read(std::string_view text) {
  std::string copy;
  return std::string(with_stand_ins(text, copy, EncodingBudget()));
}

bool matches(const std::string& expression, const std::string& text) {
  const TextPattern pattern = TextPattern::regex(expression);
  PatternScratch scratch;
  EncodingBudget budget;
  std::string copy;
  return pattern.find(pattern.readable(text, copy, budget), 0, scratch, budget).has_value();
}

TEST_CASE("newer characters: ranges are sorted, apart, and as long as their stand-ins") {
  char32_t free = 0;
  for (const NewerCharacters& range : newer_characters()) {
    CAPTURE(static_cast<std::uint32_t>(range.first));
    CHECK(range.first >= free);
    CHECK(range.first <= range.last);
    CHECK(utf8(range.first).size() == utf8(range.stand_in).size());
    CHECK(utf8(range.last).size() == utf8(range.stand_in).size());
    free = range.last + 1;
  }
}

TEST_CASE("newer characters: each is replaced, its neighbours and stand-ins are not") {
  char32_t free = 0;
  for (const NewerCharacters& range : newer_characters()) {
    const std::string stand_in = utf8(range.stand_in);
    CHECK(read(stand_in) == stand_in);
    for (char32_t c = range.first; c <= range.last; ++c) REQUIRE(read(utf8(c)) == stand_in);
    if (range.first > free) CHECK(read(utf8(range.first - 1)) == utf8(range.first - 1));
    free = range.last + 1;
  }
}

TEST_CASE("newer characters: the matcher knows all stand-ins") {
  for (const NewerCharacters& range : newer_characters()) {
    CAPTURE(static_cast<std::uint32_t>(range.first));
    CHECK(!matches(R"(\p{Cn})", utf8(range.first)));
    CHECK(matches(R"([\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}])", utf8(range.last)));
  }
}

// Each text has been cut by the reference, too.
TEST_CASE("newer characters: patterns cut numbers, letters, marks and signs after Unicode 14") {
  CHECK(cut(kLlamaWords, "\U0001D2CA/L") == Pieces{"\U0001D2CA", "/L"});
  CHECK(cut(kLlamaWords,
            "1\U0001D2CA\U00011F50"
            "1") == Pieces{"1\U0001D2CA\U00011F50", "1"});
  CHECK(cut(kLlamaWords, "!\U00011F04\U0001D2CA") == Pieces{"!\U00011F04", "\U0001D2CA"});
  CHECK(cut(kDeepSeekWords, "\U00031350/L") == Pieces{"\U00031350", "/L"});
  CHECK(cut(kDeepSeekWords, "a\U00031350\U00011F00\U0001FAE8") ==
        Pieces{"a\U00031350\U00011F00", "\U0001FAE8"});
  CHECK(matches(R"(^\p{Han}$)", "\U00031350"));
  CHECK(matches(R"(^\p{Han}$)", "\U0002EBF0"));
  CHECK(!matches(R"(\p{Han})", "\U00016D43"));
}

TEST_CASE("newer characters: U+180E is no white space") {
  CHECK(cut(kLlamaWords, "a\u180E a") == Pieces{"a", "\u180E", " a"});
  CHECK(!matches(R"(\s)", "\u180E"));
}

TEST_CASE("newer characters: an expression that names one finds it") {
  CHECK(matches("\U0001D2CA", "a\U0001D2CA"));
  CHECK(matches("[\U0001D2C0-\U0001D2D3]", "\U0001D2CA"));
  CHECK(matches(R"(\x{1D2CA})", "a\U0001D2CA"));
  CHECK(matches(R"([\x{31350}-\x{323AF}])", "\U00031350"));
  CHECK(!matches("[\u1C89]", "\u13F5"));
  CHECK(!matches("\u13F5", "a"));
}

TEST_CASE("newer characters: an expression that names a stand-in does not find what it stands for") {
  CHECK(!matches("\u200B", "a\u180E"));
  CHECK(!matches(R"(\x{200B})", "a\u180E"));
  CHECK(!matches("[\U00030000-\U0003134A]", "\U00031350"));
  CHECK(!matches(R"(\p{Han})", "\u31E4"));
  CHECK(matches(R"([^\p{Han}])", "\u31EF"));
}

TEST_CASE("newer characters: a backreference tells two that have one stand-in apart") {
  CHECK(!matches(R"((.)\1)", "\U0001D2C0\U0001D2C1"));
  CHECK(matches(R"((.)\1)", "\U0001D2C0\U0001D2C0"));
}

TEST_CASE("newer characters: a replacement's expression finds them, the text keeps the others") {
  const Normalizer numbers({ReplaceStep{TextPattern::regex(R"(\p{N})"), "#"}});
  PatternScratch scratch;
  EncodingBudget budget;
  CHECK(numbers.apply("\U0001D2CA\U00011F04\U0001FAE8", scratch, budget) == "#\U00011F04\U0001FAE8");
}

TEST_CASE("newer characters: stand-ins lie where the characters do, whatever is around them") {
  for (const std::string around : {"", "a", "abcdefg", "abcdefgh", "\u00e9", "\u4e2d", "\U0001F600"}) {
    CAPTURE(around);
    CHECK(read(around + "\U0001D2CA" + around) == around + read("\U0001D2CA") + around);
    CHECK(read(around + around) == around + around);
  }
  for (std::size_t length = 65'530; length < 65'540; ++length) {
    const std::string before(length, 'x');
    REQUIRE(read(before + "\U0001D2CA\u1C89" + before) == before + read("\U0001D2CA\u1C89") + before);
  }
}

TEST_CASE("newer characters: a text without any is not copied") {
  const std::string text = "plain \u00e9 \u4e2d \U0001F600 \U00010000";
  std::string copy;
  CHECK(with_stand_ins(text, copy, EncodingBudget()).data() == text.data());
  CHECK(copy.empty());
}

TEST_CASE("newer characters: looking for them can be interrupted") {
  const std::string text(1 << 20, 'x');
  std::string copy;
  const EncodingBudget stopped(EncodingBudget::kUnlimited, [] { return true; });
  CHECK_THROWS_AS(with_stand_ins(text, copy, stopped), EncodingStopped);
}

nlohmann::json words(const Pieces& vocabulary) {
  nlohmann::json ids = {{"?", 0}};
  for (const std::string& word : vocabulary) ids[word] = ids.size();
  return {{"model", {{"type", "WordLevel"}, {"vocab", ids}, {"unk_token", "?"}}}};
}

// The reference's Punctuation has categories of Unicode 8, its regular expressions of Unicode 16.
TEST_CASE("newer characters: Punctuation leaves alone what was none in Unicode 8") {
  nlohmann::json tokenizer = words({"a", "!", "\u00a7", "\u0964", "a\u1B4Ea", "a\u2E5Da", "a$", "$"});
  tokenizer["pre_tokenizer"] = {{"type", "Punctuation"}};
  const auto loaded = load_json(tokenizer);
  using Tokens = std::vector<TokenId>;
  CHECK(loaded->encode("a!\u0964$\u00a7a") == Tokens{1, 2, 4, 8, 3, 1});
  CHECK(loaded->encode("a\u1B4Ea!") == Tokens{5, 2});
  CHECK(loaded->encode("a\u2E5Da!") == Tokens{6, 2});
  tokenizer["pre_tokenizer"]["behavior"] = "Contiguous";
  CHECK(load_json(tokenizer)->encode("a!!a") == Tokens{1, 0, 1});
}

TEST_CASE("newer characters: capitals after Unicode 15 have a lower case") {
  const Normalizer lower({LowercaseStep{}});
  PatternScratch scratch;
  EncodingBudget budget;
  CHECK(lower.apply("\u1C89\uA7CB\uA7CC\uA7CE\uA7D2\uA7D4\uA7DA\uA7DC", scratch, budget) ==
        "\u1C8A\u0264\uA7CD\uA7CF\uA7D3\uA7D5\uA7DB\u019B");
  CHECK(lower.apply("\U00010D50\U00010D65\U00010D66\U00016EA0\U00016EB8", scratch, budget) ==
        "\U00010D70\U00010D85\U00010D66\U00016EBB\U00016ED3");
}

}  // namespace newer_characters_test
}  // namespace troupe
