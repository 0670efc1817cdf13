// SPDX-License-Identifier: Apache-2.0
// Whole tokenizers of BERT's family, over a small vocabulary.
#include "text/tokenizer/tokenizer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tests/text/text_data.hpp"
#include "tests/text/tokenizer/bert_file.hpp"
#include "text/tokenizer/normalizer/bert_character.hpp"
#include "text/tokenizer/normalizer/bert_normalizer.hpp"
#include "text/utf8.hpp"

namespace troupe {
namespace {

using nlohmann::json;
using Tokens = std::vector<TokenId>;

std::unique_ptr<Tokenizer> load_small() { return load_json(bert_file(small_bert_words())); }

Tokens encode_enclosed(const Tokenizer& tokenizer, const std::string& text) {
  EncodingBudget budget;
  return tokenizer.encode_enclosed(budget, text);
}

// Their spellings, with spaces between them.
std::string spelled(const Tokenizer& tokenizer, const Tokens& tokens) {
  std::string text;
  for (const TokenId token : tokens) {
    if (!text.empty()) text += ' ';
    text += tokenizer.token_content(token);
  }
  return text;
}

std::string spelled(const Tokenizer& tokenizer, const std::string& text) {
  return spelled(tokenizer, tokenizer.encode(text));
}

std::string load_error(const json& file) {
  try {
    load_json(file);
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

// A word of letters that the vocabulary has, so that it can be spelled.
std::string random_word(std::mt19937& random) {
  static const std::vector<std::string> kParts = {"the",    "un", "aff", "able", "run", "ning",
                                                  "\u00e9", "A",  "z",   "Q",    "x",   "token"};
  std::string word;
  for (std::size_t n = 1 + random() % 4; n > 0; --n) word += kParts[random() % kParts.size()];
  return word;
}

}  // namespace

TEST_CASE("bert: a text is encoded between [CLS] and [SEP], by ids") {
  const auto tokenizer = load_small();
  CHECK(encode_enclosed(*tokenizer, "The unaffable, running tokenizer.") ==
        Tokens{2, 5, 6, 7, 8, 22, 14, 15, 11, 12, 13, 21, 3});
  CHECK(encode_enclosed(*tokenizer, "") == Tokens{2, 3});
  CHECK(tokenizer->encode("the") == Tokens{5});
  CHECK(tokenizer->enclosed(Tokens{5}) == Tokens{2, 5, 3});
}

// What Hugging Face's tokenizers 0.23 makes of the same texts.
TEST_CASE("bert: texts of many kinds become the expected tokens") {
  const auto tokenizer = load_small();
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"CAFE caf\u00e9 cafe\u0301", "cafe cafe cafe"},
      {"na\u00efve \u00c6", "naive [UNK]"},
      {"the\tthe\nthe\u00a0the\u3000the", "the the the the the"},
      {"t\x01he\u200b t\u00adhe\ufeff", "the the"},
      {"the\u0085the", "the ##t ##h ##e"},
      {"\u4e2d\u6587a\u4e2d", "\u4e2d \u6587 a \u4e2d"},
      {"\u65e5", "[UNK]"},
      {"it's $12.", "i ##t ' s $ 12 ."},
      {"\u20ac12", "[UNK]"},
      {"\u201cthe\u201d", "[UNK] the [UNK]"},
      {"\u03a3", "\u03c3"},
      {"\u00df \u1e9e", "\u00df \u00df"},
      {"\U0001F600 \U0001F600\U0001F600", "\U0001F600 [UNK]"},
      {"1222", "12 ##2 ##2"},
      {"the-the", "the - the"},
      {std::string(100, 'a'), "a" +
                                  [] {
                                    std::string rest;
                                    for (int i = 0; i < 99; ++i) rest += " ##a";
                                    return rest;
                                  }()},
      {std::string(101, 'a') + " the", "[UNK] the"},
      {" \n\t ", ""},
  };
  for (const auto& [text, tokens] : expected) {
    CAPTURE(text);
    CHECK(spelled(*tokenizer, text) == tokens);
  }
}

TEST_CASE("bert: special tokens come from trusted text only, and unknown words from any") {
  const auto tokenizer = load_small();
  const std::string text = "the [CLS][MASK] [SEP]";
  CHECK(spelled(*tokenizer, tokenizer->encode_with_specials(text)) == "the [CLS] [MASK] [SEP]");
  CHECK(spelled(*tokenizer, text) == "the [ cls ] [ m ##a ##s ##k ] [ sep ]");
  CHECK(spelled(*tokenizer, "\u65e5 [UNK]") == "[UNK] [ un ##k ]");
}

TEST_CASE("bert: no special token is a word, whatever cuts the words") {
  json file = bert_file(small_bert_words());
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "Removed"}};
  const auto tokenizer = load_json(file);
  CHECK(spelled(*tokenizer, "the [CLS] [MASK]") == "the [UNK] [UNK]");
}

TEST_CASE("bert: case is kept where the file says so, and accents with it") {
  json file = bert_file({"[UNK]", "[CLS]", "[SEP]", "The", "the", "caf\u00e9", "cafe"}, false);
  CHECK(spelled(*load_json(file), "The the caf\u00e9 cafe") == "The the caf\u00e9 cafe");
  file["normalizer"]["strip_accents"] = true;
  CHECK(spelled(*load_json(file), "The the caf\u00e9 cafe") == "The the cafe cafe");
  file["normalizer"] = {{"type", "BertNormalizer"}, {"lowercase", true}, {"strip_accents", false}};
  CHECK(spelled(*load_json(file), "The the caf\u00e9 cafe") == "the the caf\u00e9 cafe");
}

TEST_CASE("bert: BertProcessing says the same as a template") {
  json file = bert_file(small_bert_words());
  file["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"[SEP]", 3}}, {"cls", {"[CLS]", 2}}};
  CHECK(encode_enclosed(*load_json(file), "the") == Tokens{2, 5, 3});
}

TEST_CASE("bert: decoding spells words with spaces between them, and none before punctuation") {
  const auto tokenizer = load_small();
  const auto decoded = [&](const std::string& text) {
    return tokenizer->decode(encode_enclosed(*tokenizer, text));
  };
  CHECK(decoded("The unaffable, running tokenizer.") == "the unaffable, running tokenizer.");
  CHECK(decoded("the \u65e5 the") == "the the");
  CHECK(decoded("the-the 12") == "the - the 12");
  json file = bert_file(small_bert_words());
  file["decoder"]["cleanup"] = false;
  const auto plain = load_json(file);
  CHECK(plain->decode(plain->encode("the, the.")) == "the , the .");
}

TEST_CASE("bert: decoding what was encoded gives the normalized words") {
  const auto tokenizer = load_small();
  std::mt19937 random(6);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    std::string expected;
    for (std::size_t n = random() % 8; n > 0; --n) {
      const std::string word = random_word(random);
      EncodingBudget budget;
      if (!expected.empty()) expected += ' ';
      expected += bert_normalized(word, {}, EncodingBudget::kUnlimited, budget);
      text += word + (random() % 2 == 0 ? " " : "\n\t");
    }
    REQUIRE(tokenizer->decode(tokenizer->encode(text)) == expected);
  }
}

TEST_CASE("bert: any bytes can be encoded") {
  const auto tokenizer = load_small();
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (std::size_t n = random() % 40; n > 0; --n) bytes += static_cast<char>(random() % 256);
    for (const TokenId token : tokenizer->encode(bytes)) {
      REQUIRE(static_cast<std::size_t>(token) < tokenizer->vocabulary_size());
    }
  }
  CHECK(spelled(*tokenizer, "the\xff\xfe the") == "the [UNK] the");
}

TEST_CASE("bert: a file that names no type is told by its fields") {
  json file = bert_file(small_bert_words());
  file["model"].erase("type");
  CHECK(spelled(*load_json(file), "unaffable") == "un ##aff ##able");
}

TEST_CASE("bert: every wrong or unsupported field is named") {
  struct Case {
    std::string pointer;
    std::string value;  // JSON
    std::string complaint;
  };
  const std::vector<Case> cases = {
      {"/model/type", "\"Unheard\"", "model.type: Unheard is not supported"},
      {"/model/type", "\"Unigram\"", "model.vocab: expected an array of pieces and scores, got object"},
      {"/model/unk_token", "\"nope\"", "model.unk_token: \"nope\" is not in the vocabulary"},
      {"/model/unk_token", "1", "model.unk_token: expected a string"},
      {"/model/continuing_subword_prefix", "2", "continuing_subword_prefix: expected a string"},
      {"/model/max_input_chars_per_word", "-1", "expected a number of characters, got -1"},
      {"/model/max_input_chars_per_word", "\"a\"", "expected a number of characters"},
      {"/model/vocab", "[]", "model.vocab: expected an object"},
      {"/normalizer/lowercase", "1", "normalizer.lowercase: expected true or false"},
      {"/normalizer/strip_accents", "1", "normalizer.strip_accents: expected true or false"},
      {"/decoder/prefix", "1", "decoder.prefix: expected a string"},
      {"/decoder", R"({"type":"Sequence","decoders":[{"type":"WordPiece"},{"type":"ByteFallback"}]})",
       "WordPiece with others"},
      {"/pre_tokenizer", R"({"type":"ByteLevel"})", "ByteLevel in only one"},
      {"/post_processor", R"({"type":"BertProcessing","cls":["[CLS]",2],"sep":["[SEP]",4]})",
       "post_processor.sep[1]: expected 3"},
  };
  for (const Case& c : cases) {
    json file = bert_file(small_bert_words());
    file[json::json_pointer(c.pointer)] = json::parse(c.value);
    const std::string error = load_error(file);
    CHECK_MESSAGE(error.find(c.complaint) != std::string::npos,
                  c.pointer << " = " << c.value << " gave: " << error);
  }
  json bytes = bert_file(small_bert_words());
  bytes["pre_tokenizer"] = {{"type", "ByteLevel"}};
  bytes["decoder"] = {{"type", "ByteLevel"}};
  CHECK(load_error(bytes).find("WordPiece after ByteLevel") != std::string::npos);
}

TEST_CASE("bert: a damaged file loads or is refused, nothing else") {
  std::mt19937 random(9);
  const std::string good = bert_file(small_bert_words()).dump();
  std::size_t num_loaded = 0;
  for (int round = 0; round < 500; ++round) {
    std::string text = good;
    const std::size_t at = random() % text.size();
    switch (random() % 3) {
      case 0: text[at] = "0123456789\"{}[],:ab"[random() % 19]; break;
      case 1: text.erase(at, 1 + random() % 20); break;
      default: text.insert(at, text.substr(random() % text.size(), random() % 20));
    }
    const TemporaryDirectory directory;
    directory.write("tokenizer.json", text);
    try {
      const auto tokenizer = load_tokenizer(directory.path());
      ++num_loaded;
      tokenizer->decode(encode_enclosed(*tokenizer, "The unaffable, caf\u00e9 \u4e2d."), false);
    } catch (const std::runtime_error& error) {
      REQUIRE(std::string(error.what()).find("tokenizer.json") != std::string::npos);
    }
  }
  CHECK(num_loaded > 0);
}

TEST_CASE("bert tokenizer: do_lower_case of sentence_bert_config.json makes text lower case first") {
  const auto load = [](bool has_modules, const json& sentence) {
    const TemporaryDirectory directory;
    directory.write("tokenizer.json", bert_file(small_bert_words(), false).dump());
    if (has_modules) directory.write("modules.json", "[]");
    if (!sentence.is_null()) directory.write("sentence_bert_config.json", sentence.dump());
    return load_tokenizer(directory.path());
  };
  const auto lowercasing = load(true, {{"max_seq_length", 512}, {"do_lower_case", true}});
  CHECK(spelled(*lowercasing, "THE Cafe") == "the cafe");
  CHECK(lowercasing->encode("[CLS]") == lowercasing->encode("[cls]"));
  CHECK(spelled(*load(true, {{"do_lower_case", false}}), "THE cafe") == "[UNK] cafe");
  CHECK(spelled(*load(true, json::object()), "THE cafe") == "[UNK] cafe");
  CHECK(spelled(*load(true, nullptr), "THE cafe") == "[UNK] cafe");  // there is no such file
  CHECK(spelled(*load(false, {{"do_lower_case", true}}), "THE cafe") == "[UNK] cafe");
  CHECK_THROWS_WITH_AS(load(true, {{"do_lower_case", "yes"}}),
                       doctest::Contains("sentence_bert_config.json.do_lower_case"), std::runtime_error);
}

}  // namespace troupe
