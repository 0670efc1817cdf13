// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/model/unigram_model.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "tests/text/text_data.hpp"
#include "text/tokenizer/normalizer/precompiled_map.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace troupe {
namespace {

using nlohmann::json;
using Tokens = std::vector<TokenId>;

constexpr TokenId kUnknown = 9;

Tokens tokens_of(const UnigramParts& parts, std::string_view word) {
  UnigramScratch scratch;
  EncodingBudget budget;
  Tokens tokens;
  UnigramModel(parts).encode(word, scratch, budget, tokens);
  return tokens;
}

UnigramParts small_parts() {
  return {.pieces = {{"a", 0, -2.0}, {"b", 1, -2.0}, {"ab", 2, -4.0}, {"abc", 3, -9.0}, {"c", 4, -2.5}},
          .unknown_token = kUnknown,
          .unknown_score = -19.0};
}

// [[piece, score], ...]: braces alone would make an object of strings and numbers.
json pieces_of(const std::vector<std::pair<std::string, json>>& scores) {
  json pieces = json::array();
  for (const auto& [piece, score] : scores) pieces.push_back(json::array({piece, score}));
  return pieces;
}

// A tokenizer as of XLM-R; <unk> is the first piece.
json file_of(const json& vocabulary) {
  return {{"added_tokens", {{{"id", 0}, {"content", "<unk>"}, {"special", true}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "▁"}}},
          {"decoder", {{"type", "Metaspace"}, {"replacement", "▁"}}},
          {"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocabulary}}}};
}

json with_map(const std::string& base64) {
  json file = file_of(pieces_of({{"<unk>", 0.0}, {"a", -1.0}}));
  file["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", base64}};
  return file;
}

// A map that replaces U+0301, a mark in UTF-8 of CC 81, and nothing else.
PrecompiledMap map_of_acute(const std::string& replacement) {
  std::vector<std::uint32_t> units(512);
  units[0] = 256U << 10;
  units[256 ^ 0xCC] = 0xCC;                      // the next unit is 256 ^ 0xCC ^ 0x81
  units[256 ^ 0xCC ^ 0x81] = 0x181U | 1U << 10;  // an end, whose leaf is one beside it: the replacement at 0
  const auto size = static_cast<std::uint32_t>(units.size() * sizeof units[0]);
  std::string bytes(sizeof size + size, '\0');
  std::memcpy(bytes.data(), &size, sizeof size);
  std::memcpy(bytes.data() + sizeof size, units.data(), size);
  return PrecompiledMap(bytes + replacement + '\0');
}

std::string letter_with_marks(std::size_t num_marks) {
  std::string text = "e";
  for (std::size_t i = 0; i < num_marks; ++i) text += "\u0301";
  return text;
}

}  // namespace

TEST_CASE("unigram: the pieces with the largest sum of scores win, the longer one where sums are equal") {
  CHECK(tokens_of(small_parts(), "ab") == Tokens{2});      // -4 = -2 - 2
  CHECK(tokens_of(small_parts(), "abc") == Tokens{2, 4});  // -6.5 > -9
  CHECK(tokens_of(small_parts(), "aab") == Tokens{0, 2});
  CHECK(tokens_of(small_parts(), "").empty());
}

TEST_CASE("unigram: neighbouring unknown characters are one token, or their bytes' tokens if each has one") {
  CHECK(tokens_of(small_parts(), "aéxb") == Tokens{0, kUnknown, 1});
  CHECK(tokens_of(small_parts(), "\xC3") == Tokens{kUnknown});
  UnigramParts parts = small_parts();
  parts.has_byte_fallback = true;
  parts.byte_tokens.fill(-1);
  parts.byte_tokens[0xC3] = 20;
  CHECK(tokens_of(parts, "aé") == Tokens{0, kUnknown});
  parts.byte_tokens[0xA9] = 21;
  CHECK(tokens_of(parts, "aéé") == Tokens{0, 20, 21, 20, 21});
  CHECK(tokens_of(parts, "aéx") == Tokens{0, kUnknown});  // x has none
}

TEST_CASE("unigram: a vocabulary of long pieces and a text of them is refused after a bounded time") {
  UnigramParts parts = small_parts();
  parts.pieces.push_back({std::string(100'000, 'a'), 5, -1.0});
  const UnigramModel model(parts);
  UnigramScratch scratch;
  EncodingBudget budget;
  Tokens tokens;
  const std::string text(200'000, 'a');
  budget.begin_text(text.size());
  CHECK_THROWS_AS(model.encode(text, scratch, budget, tokens), EncodingStopped);
}

TEST_CASE("unigram: texts of every kind are encoded as by Hugging Face's tokenizers") {
  for (const char* name : {"unigram_xlm_roberta", "unigram_bytes"}) {
    CAPTURE(name);
    const auto tokenizer = load_tokenizer(fixture_dir() / name);
    const json expected = file_json(fixture_dir() / name / "expected.json").at("texts");
    CHECK(expected.size() == 30);
    for (const json& text : expected) {
      CAPTURE(text.dump());
      const Tokens tokens =
          tokenizer->enclosed(tokenizer->encode_with_specials(text.at("text").get<std::string>()));
      CHECK(tokens == text.at("ids").get<Tokens>());
      CHECK(tokenizer->decode(tokens) == text.at("decoded").get<std::string>());
    }
  }
}

TEST_CASE("unigram: a special token is not what a user's text becomes") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "unigram_xlm_roberta");
  const Tokens tokens = tokenizer->encode("</s> <mask>");
  for (const char* special : {"</s>", "<mask>"})
    CHECK(std::find(tokens.begin(), tokens.end(), *tokenizer->token_id(special)) == tokens.end());
}

TEST_CASE("unigram: a file that can't be is refused with the field") {
  const auto problem = [](const json& file) {
    try {
      load_json(file);
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto says = [&](const json& file, const char* part) {
    const std::string text = problem(file);
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  CHECK(problem(file_of(pieces_of({{"<unk>", 0.0}, {"a", -1.0}}))).empty());
  says(file_of(json::array()), "model.vocab: has no pieces");
  says(file_of(pieces_of({{"<unk>", 0.0}, {"a", "b"}})),
       "expected a piece and its score for token 1, got [\"a\",\"b\"]");
  says(file_of({json::array({"<unk>", 0.0}), json::array({"a"})}),
       "expected a piece and its score for token 1");
  says(file_of(pieces_of({{"<unk>", 0.0}, {"a", -1.0}, {"a", -2.0}})), "token \"a\" has two ids");
  json file = file_of(pieces_of({{"<unk>", 0.0}, {"a", -1.0}}));
  file["model"]["unk_id"] = 7;
  says(file, "model.unk_id: expected an id from 0 to 1, got 7");
  file["model"].erase("unk_id");
  says(file, "model.unk_id: expected an id from 0 to 1, got null");
  says(with_map("AA"), "precompiled_charsmap: has no size of its double array");
  says(with_map("/////wAA"), "precompiled_charsmap: states a double array of 4294967295 bytes");
  says(with_map("A*AA"), "precompiled_charsmap: expected base64");
  says(with_map("BAAAAAAAAAD/"), "precompiled_charsmap: has replacements that are not UTF-8");
}

TEST_CASE("unigram: a map whose units lead out of it replaces nothing") {
  for (const std::uint32_t unit : {0xFFFFFFFFU, 0x100U, 0x561U, 0x00000161U}) {
    std::string bytes(4 + 4 * 256, '\0');
    const std::uint32_t size = 4 * 256;
    std::memcpy(bytes.data(), &size, sizeof size);
    for (std::size_t i = 0; i < 256; ++i) std::memcpy(bytes.data() + 4 + 4 * i, &unit, sizeof unit);
    EncodingBudget budget;
    CHECK(PrecompiledMap(bytes).apply("abc é\r\n", 1000, budget) == "abc é\r\n");
  }
}

TEST_CASE("unigram: marks on one letter end at the size that the result may have") {
  EncodingBudget budget;
  const PrecompiledMap map = map_of_acute("xy");
  CHECK(map.apply(letter_with_marks(3), 7, budget) == "exyxyxy");
  CHECK_THROWS_AS(map.apply(letter_with_marks(3), 6, budget), EncodingStopped);
  // 12 GB, were they all written before their size is looked at.
  const PrecompiledMap large = map_of_acute(std::string(1'000'000, 'x'));
  CHECK_THROWS_AS(large.apply(letter_with_marks(12'000), 2'000'000, budget), EncodingStopped);
}

TEST_CASE("unigram: an encoding can be interrupted between the marks of one letter") {
  const auto is_stopped_after = [](int num_questions) {
    int asked = 0;
    EncodingBudget budget(EncodingBudget::kUnlimited, [&] { return ++asked > num_questions; });
    const std::string text = letter_with_marks(100'000);
    CHECK_THROWS_AS(map_of_acute("x").apply(text, text.size(), budget), EncodingStopped);
    return asked == num_questions + 1 &&
           budget.num_steps() < (num_questions + 2) * EncodingBudget::kStepsAQuestion;
  };
  CHECK(is_stopped_after(0));
  CHECK(is_stopped_after(5));
}

}  // namespace troupe
