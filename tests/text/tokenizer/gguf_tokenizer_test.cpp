// SPDX-License-Identifier: Apache-2.0
// A GGUF file's keys give the tokens of the tokenizer.json from which they were made.
#include "text/tokenizer/gguf_tokenizer.hpp"

#include <doctest/doctest.h>

#include <random>
#include <stdexcept>

#include "tests/text/text_data.hpp"
#include "text/tokenizer/file/gguf_words.hpp"

namespace troupe {
namespace {

using nlohmann::json;
using Tokens = std::vector<TokenId>;

constexpr std::int64_t kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;

GgufVocabulary with_tokens_of(const json& tokenizer) {
  GgufVocabulary vocabulary;
  const auto place = [&](std::size_t id, const std::string& content, std::int64_t type) {
    if (id >= vocabulary.tokens.size()) {
      vocabulary.tokens.resize(id + 1);
      vocabulary.token_type.resize(id + 1, kUnused);
    }
    vocabulary.tokens[id] = content;
    vocabulary.token_type[id] = type;
  };
  for (const auto& [content, id] : tokenizer.at("model").at("vocab").items()) place(id, content, kNormal);
  for (const auto& token : tokenizer.at("added_tokens"))
    place(token.at("id"), token.at("content"), token.at("special").get<bool>() ? kControl : kUserDefined);
  return vocabulary;
}

// The fixture without what the format can't say: tokens that take spaces or whole words.
json byte_level() {
  json tokenizer = file_json(fixture_dir() / "byte_level" / "tokenizer.json");
  auto& added = tokenizer["added_tokens"];
  json kept = json::array();
  for (auto& token : added) {
    token["lstrip"] = token["rstrip"] = false;
    if (!token["single_word"].get<bool>()) kept.push_back(token);
  }
  added = kept;
  tokenizer["normalizer"] = nullptr;
  tokenizer["model"]["ignore_merges"] = true;
  return tokenizer;
}

GgufVocabulary byte_level_keys() {
  const json tokenizer = byte_level();
  GgufVocabulary vocabulary = with_tokens_of(tokenizer);
  vocabulary.model = "gpt2";
  vocabulary.pre = "llama-bpe";
  for (const auto& merge : tokenizer["model"]["merges"]) vocabulary.merges.push_back(merge);
  return vocabulary;
}

json sentencepiece() {
  json tokenizer = file_json(fixture_dir() / "sentencepiece" / "tokenizer.json");
  for (auto& token : tokenizer["added_tokens"]) token["rstrip"] = false;
  return tokenizer;
}

// A merge's result has the score that puts it at the merge's place.
GgufVocabulary sentencepiece_keys() {
  const json tokenizer = sentencepiece();
  GgufVocabulary vocabulary = with_tokens_of(tokenizer);
  vocabulary.model = "llama";
  vocabulary.scores.assign(vocabulary.tokens.size(), -1e6);
  const auto& vocab = tokenizer["model"]["vocab"];
  double score = 0;
  for (const auto& merge : tokenizer["model"]["merges"]) {
    std::string result = merge;
    result.erase(result.find(' '), 1);
    double& of_result = vocabulary.scores.at(vocab.at(result).get<std::size_t>());
    if (of_result == -1e6) of_result = --score;
  }
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& token = vocabulary.tokens[id];
    if (token.size() == 6 && token.starts_with("<0x")) vocabulary.token_type[id] = kByte;
  }
  vocabulary.token_type[vocab.at("<unk>").get<std::size_t>()] = 2;
  vocabulary.add_bos_token = false;
  return vocabulary;
}

std::vector<std::string> texts() {
  std::vector<std::string> texts = {
      "",      " ",        "Hello, world!",           "the  cat\n\n sat.",
      "12345", "don't 'S", "e\u0301\u4e2d\U0001F600", "<|im_end|> <think>the</think> <s> <0x0A>"};
  std::mt19937 random(3);
  static const std::vector<std::string> kParts = {"the",    " ",   "  ", "\n",         "world",      "he",
                                                  "12",     "'s",  "in", "\u4e2d",     "<think>",    "_",
                                                  "\u00a0", "ing", "a",  "<|im_end|>", "\U0001F600", "."};
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (std::size_t n = random() % 12; n > 0; --n) text += kParts[random() % kParts.size()];
    texts.push_back(text);
  }
  return texts;
}

void check_alike(const Tokenizer& ours, const Tokenizer& expected) {
  CHECK(ours.vocabulary_size() == expected.vocabulary_size());
  for (const std::string& text : texts()) {
    CAPTURE(text);
    const Tokens tokens = expected.encode_with_specials(text);
    REQUIRE(ours.encode_with_specials(text) == tokens);
    REQUIRE(ours.encode(text) == expected.encode(text));
    REQUIRE(ours.decode(tokens) == expected.decode(tokens));
    REQUIRE(ours.decode(tokens, false) == expected.decode(tokens, false));
  }
}

std::string complaint(const GgufVocabulary& vocabulary) {
  try {
    make_gguf_tokenizer(vocabulary);
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("gguf tokenizer: bytes and merges give the tokens of tokenizer.json") {
  check_alike(*make_gguf_tokenizer(byte_level_keys()), *load_json(byte_level()));
}

TEST_CASE("gguf tokenizer: pieces and scores give the tokens of tokenizer.json") {
  check_alike(*make_gguf_tokenizer(sentencepiece_keys()), *load_json(sentencepiece()));
}

TEST_CASE("gguf tokenizer: without a space prefix nothing is put in front or taken off") {
  GgufVocabulary keys = sentencepiece_keys();
  keys.add_space_prefix = false;
  const auto tokenizer = make_gguf_tokenizer(keys);
  CHECK(tokenizer->num_stripped_leading_spaces() == 0);
  CHECK(tokenizer->decode(tokenizer->encode("the cat")) == "the cat");
  CHECK(tokenizer->decode(tokenizer->encode(" the cat")) == " the cat");
}

TEST_CASE("gguf tokenizer: the file says what goes around a text, else the kind of tokenizer does") {
  GgufVocabulary keys = byte_level_keys();
  keys.bos_token_id = keys.eos_token_id = 278;
  CHECK(make_gguf_tokenizer(keys)->prefix_tokens() == Tokens{278});  // llama-bpe
  CHECK(make_gguf_tokenizer(keys)->suffix_tokens().empty());
  keys.add_bos_token = false;
  keys.add_eos_token = true;
  CHECK(make_gguf_tokenizer(keys)->prefix_tokens().empty());
  CHECK(make_gguf_tokenizer(keys)->suffix_tokens() == Tokens{278});
  keys.add_bos_token.reset();
  keys.pre = "qwen2";
  CHECK(make_gguf_tokenizer(keys)->prefix_tokens().empty());
  CHECK(make_gguf_tokenizer(keys)->bos_token() == 278);

  GgufVocabulary pieces = sentencepiece_keys();
  pieces.add_bos_token.reset();
  pieces.bos_token_id = 1;
  CHECK(make_gguf_tokenizer(pieces)->prefix_tokens() == Tokens{1});
}

TEST_CASE("gguf tokenizer: what a user writes is no control token") {
  const auto tokenizer = make_gguf_tokenizer(byte_level_keys());
  const auto end = tokenizer->token_id("<|im_end|>");
  REQUIRE(end.has_value());
  CHECK(tokenizer->is_special(*end));
  CHECK(tokenizer->encode_with_specials("<|im_end|>") == Tokens{*end});
  for (const TokenId token : tokenizer->encode("<|im_end|>")) CHECK(token != *end);
}

TEST_CASE("gguf tokenizer: words are cut as their name says") {
  const auto words = [](const std::string& pre, const std::string& text) {
    GgufVocabulary keys = byte_level_keys();
    keys.merges.clear();
    keys.pre = pre;
    keys.tokens.insert(keys.tokens.end(), {"123", "1234"});
    keys.token_type.insert(keys.token_type.end(), 2, kNormal);
    keys.merges = {"1 2", "12 3", "123 4"};
    const auto tokenizer = make_gguf_tokenizer(keys);
    std::string cut;
    for (const TokenId token : tokenizer->encode(text))
      cut += std::string(tokenizer->token_content(token)) + "|";
    return cut;
  };
  CHECK(words("gpt-2", "1234") == "1234|");
  CHECK(words("llama-bpe", "1234") == "123|4|");
  CHECK(words("qwen2", "1234") == "1|2|3|4|");
  CHECK(words("smollm", "1234") == "1|2|3|4|");
  CHECK(words("gpt-4o", "1234") == "123|4|");
  CHECK(words("default", "1234") == "123|4|");
  CHECK(words("", "1234") == "123|4|");
  CHECK(words("deepseek-coder", "1234") == "1|2|3|4|");
  CHECK(words("llama4", "1234") == "123|4|");
  CHECK(words("megrez", "1234") == "1|2|3|4|");
  CHECK(words("exaone4", "1234") == "1234|");
  for (const char* pre : {"tekken", "gpt-4o", "falcon", "starcoder", "dbrx", "deepseek-coder"})
    CHECK(!words(pre, "A b\n  C4.").empty());
}

TEST_CASE("gguf tokenizer: keys that make no sense are refused by name") {
  struct Case {
    const char* says;
    void (*change)(GgufVocabulary&);
  };
  const std::vector<Case> cases = {
      {"tokenizer.ggml.model: \"bert\" is not supported", [](GgufVocabulary& v) { v.model = "bert"; }},
      {"tokenizer.ggml.pre: \"nobody\" is not supported", [](GgufVocabulary& v) { v.pre = "nobody"; }},
      {"tokenizer.ggml.tokens: are missing", [](GgufVocabulary& v) { v.tokens.clear(); }},
      {"tokenizer.ggml.token_type: 1 for", [](GgufVocabulary& v) { v.token_type.resize(1); }},
      {"tokenizer.ggml.scores: 1 for", [](GgufVocabulary& v) { v.scores.resize(1); }},
      {"tokenizer.ggml.scores: are missing", [](GgufVocabulary& v) { v.model = "llama"; }},
      {"tokenizer.ggml.tokens: token 7", [](GgufVocabulary& v) { v.tokens[7] = v.tokens[3]; }},
      {"is not UTF-8", [](GgufVocabulary& v) { v.tokens[7] = "\xFF"; }},
      {"tokenizer.ggml.merges: expected two tokens", [](GgufVocabulary& v) { v.merges[0] = "ab"; }},
      {"tokenizer.ggml.merges: expected two tokens", [](GgufVocabulary& v) { v.merges[0] = ""; }},
      {"tokenizer.ggml.merges: one is not UTF-8", [](GgufVocabulary& v) { v.merges[0] = "a \xFF"; }},
      {"is not in the vocabulary", [](GgufVocabulary& v) { v.merges[0] = "nothing here"; }},
      {"tokenizer.ggml.bos_token_id: 100000, expected an id below",
       [](GgufVocabulary& v) { v.bos_token_id = 100'000; }},
      {"add_eos_token: true, but there is no eos_token", [](GgufVocabulary& v) { v.add_eos_token = true; }},
  };
  for (const auto& wrong : cases) {
    GgufVocabulary vocabulary = byte_level_keys();
    vocabulary.add_bos_token = false;
    REQUIRE(complaint(vocabulary).empty());
    wrong.change(vocabulary);
    const std::string said = complaint(vocabulary);
    CHECK_MESSAGE(said.find(wrong.says) != std::string::npos, said);
  }
  GgufVocabulary pieces = sentencepiece_keys();
  pieces.tokens.push_back(std::string(2000, 'a'));
  pieces.token_type.push_back(kNormal);
  pieces.scores.push_back(0);
  CHECK(complaint(pieces).find("2000 bytes") != std::string::npos);
}

TEST_CASE("gguf tokenizer: tokens that fill holes stand for nothing") {
  GgufVocabulary keys = byte_level_keys();
  keys.tokens.push_back("[PAD]");
  keys.token_type.push_back(kUnused);
  const auto tokenizer = make_gguf_tokenizer(keys);
  CHECK_FALSE(tokenizer->token_id("[PAD]").has_value());
  keys.eos_token_id = keys.tokens.size() - 1;
  CHECK(complaint(keys).find("is a token without a text") != std::string::npos);
}

TEST_CASE("gguf tokenizer: a whole tokenizer.json is read in place of the keys, and refused by its name") {
  GgufVocabulary keys = byte_level_keys();
  json tokenizer = byte_level();
  tokenizer["normalizer"] = {{"type", "NFC"}};
  keys.huggingface = tokenizer.dump();
  check_alike(*make_gguf_tokenizer(keys), *load_json(tokenizer));
  keys.bos_token_id = 278;
  CHECK(make_gguf_tokenizer(keys)->bos_token() == 278);  // ids are the keys' still
  keys.huggingface = "{";
  CHECK(complaint(keys).find("tokenizer.huggingface.json") != std::string::npos);
}

}  // namespace troupe
