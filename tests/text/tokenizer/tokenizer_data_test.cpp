// SPDX-License-Identifier: Apache-2.0
// Real tokenizers and expected encodings outside the repository.
#include "text/tokenizer/tokenizer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <sstream>
#include <unordered_map>

#include "tests/text/text_data.hpp"
#include "text/tokenizer/byte_alphabet.hpp"

namespace troupe {
namespace {

using nlohmann::json;
using Tokens = std::vector<TokenId>;

constexpr const char* kCl100kWords =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwenWords =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

json special_token(TokenId id, const std::string& content) {
  return {{"id", id}, {"content", content}, {"special", true}, {"normalized", false}};
}

json byte_level(const json& vocabulary, const json& merges) {
  return {{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}}}};
}

std::unique_ptr<Tokenizer> load_gpt2() {
  const auto directory = data_dir() / "tokenizers" / "gpt2";
  json merges = json::array();
  std::istringstream lines(file_text(directory / "merges.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && !line.starts_with("#version")) merges.push_back(line);
  }
  json tokenizer = byte_level(file_json(directory / "vocab.json"), merges);
  tokenizer["added_tokens"] = json::array({special_token(50256, "<|endoftext|>")});
  return load_json(tokenizer);
}

std::string from_base64(std::string_view text) {
  std::string bytes;
  unsigned bits = 0;
  int num_bits = 0;
  for (const char c : text) {
    static constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) break;
    bits = (bits << 6) | static_cast<unsigned>(digit);
    num_bits += 6;
    if (num_bits >= 8) bytes += static_cast<char>(bits >> (num_bits -= 8));
  }
  return bytes;
}

// A file of ranks says which token comes first, not of which two it is made:
// those are what merging its bytes without itself ends with.
json tokenizer_from_ranks(const std::filesystem::path& path) {
  std::vector<std::string> tokens;
  std::istringstream lines(file_text(path));
  for (std::string line; std::getline(lines, line);) {
    tokens.push_back(from_base64(line.substr(0, line.find(' '))));
  }
  std::unordered_map<std::string, std::size_t> ranks;
  json vocabulary = json::object();
  json merges = json::array();
  for (std::size_t rank = 0; rank < tokens.size(); ++rank) {
    ranks[tokens[rank]] = rank;
    vocabulary[bytes_to_alphabet(tokens[rank])] = rank;
    std::vector<std::string> parts;
    for (const char byte : tokens[rank]) parts.emplace_back(1, byte);
    while (parts.size() > 2) {
      std::size_t best = rank;
      std::size_t at = 0;
      for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        const auto found = ranks.find(parts[i] + parts[i + 1]);
        if (found != ranks.end() && found->second < best) {
          best = found->second;
          at = i;
        }
      }
      REQUIRE(best < rank);
      parts[at] += parts[at + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    if (parts.size() == 2) {
      merges.push_back({bytes_to_alphabet(parts[0]), bytes_to_alphabet(parts[1])});
    }
  }
  return byte_level(vocabulary, merges);
}

json with_words(json tokenizer, const char* expression) {
  tokenizer["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  return tokenizer;
}

Tokens with_prefix(const Tokenizer& tokenizer, const std::string& text) {
  Tokens tokens = tokenizer.prefix_tokens();
  const Tokens encoded = tokenizer.encode_with_specials(text);
  tokens.insert(tokens.end(), encoded.begin(), encoded.end());
  return tokens;
}

// Vectors of transformers.js: {name: {text, ids, …}}.
void check_vectors(const Tokenizer& tokenizer, const std::string& file, const std::string& model,
                   std::size_t expected_count) {
  const auto path = data_dir() / "tokenizers" / "vectors" / "transformers_js" / file;
  const json vectors = file_json(path)[model];
  CHECK(vectors.size() == expected_count);
  for (const auto& [name, vector] : vectors.items()) {
    CAPTURE(name);
    CHECK(with_prefix(tokenizer, vector["text"].get<std::string>()) == vector["ids"].get<Tokens>());
  }
}

// Vectors of swift-transformers: [{input, encoded: {input_ids}, decoded_…}].
void check_swift_vectors(const Tokenizer& tokenizer, const std::string& model) {
  const auto path = data_dir() / "tokenizers" / "vectors" / "swift_transformers" / "tokenizer_tests.json";
  const json vectors = file_json(path)[model];
  CHECK(vectors.size() == 18);
  for (const json& vector : vectors) {
    const auto text = vector["input"].get<std::string>();
    CAPTURE(text);
    const auto expected = vector["encoded"]["input_ids"].get<Tokens>();
    CHECK(with_prefix(tokenizer, text) == expected);
  }
}

void check_round_trip(const Tokenizer& tokenizer) {
  const std::string book = file_text(data_dir() / "tokenizers" / "sentencepiece" / "botchan.txt");
  CHECK(tokenizer.decode(tokenizer.encode(book)) == book);
}

void check_no_specials_from_text(const Tokenizer& tokenizer) {
  std::size_t num_specials = 0;
  for (std::size_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    if (!tokenizer.is_special(static_cast<TokenId>(id))) continue;
    ++num_specials;
    const std::string content(tokenizer.token_content(static_cast<TokenId>(id)));
    const Tokens tokens = tokenizer.encode("a " + content + content + "\n" + content);
    CHECK(std::none_of(tokens.begin(), tokens.end(),
                       [&](TokenId token) { return tokenizer.is_special(token); }));
  }
  CHECK(num_specials > 0);
}

}  // namespace

TEST_CASE("tokenizer data: GPT-2") {
  if (is_data_missing(data_dir() / "tokenizers")) return;
  const auto tokenizer = load_gpt2();
  check_vectors(*tokenizer, "gpt2.json", "Xenova/gpt2", 26);
  check_vectors(*tokenizer, "gpt2.json", "openai-community/gpt2", 26);
  check_swift_vectors(*tokenizer, "distilgpt2");
  check_round_trip(*tokenizer);
  check_no_specials_from_text(*tokenizer);
}

TEST_CASE("tokenizer data: Llama 2, whose vocabulary Phi-3 shares") {
  if (is_data_missing(data_dir() / "tokenizers")) return;
  const auto tokenizer = load_tokenizer(data_dir() / "tokenizers" / "phi3");
  check_vectors(*tokenizer, "llama.json", "Xenova/llama-tokenizer", 37);
  check_swift_vectors(*tokenizer, "coreml-projects/Llama-2-7b-chat-coreml");
  const json article =
      file_json(data_dir() / "tokenizers" / "vectors" / "swift_transformers" / "llama_encoded.json");
  CHECK(with_prefix(*tokenizer, article["text"].get<std::string>()) == article["token_ids"].get<Tokens>());
  CHECK(tokenizer->decode(article["token_ids"].get<Tokens>()) == article["text"].get<std::string>());
  check_round_trip(*tokenizer);
  check_no_specials_from_text(*tokenizer);
}

TEST_CASE("tokenizer data: Qwen") {
  const auto ranks = data_dir() / "tokenizers" / "qwen" / "qwen.tiktoken";
  if (is_data_missing(ranks)) return;
  json tokenizer = with_words(tokenizer_from_ranks(ranks), kQwenWords);
  tokenizer["normalizer"] = {{"type", "NFC"}};
  tokenizer["added_tokens"] = {special_token(151643, "<|endoftext|>"), special_token(151644, "<|im_start|>"),
                               special_token(151645, "<|im_end|>")};
  const auto loaded = load_json(tokenizer);
  check_vectors(*loaded, "qwen2.json", "Xenova/Qwen1.5-0.5B-Chat", 25);
  check_round_trip(*loaded);
  check_no_specials_from_text(*loaded);
}

TEST_CASE("tokenizer data: GPT-4") {
  const auto ranks = data_dir() / "tokenizers" / "tiktoken" / "cl100k_base.tiktoken";
  if (is_data_missing(ranks)) return;
  const auto tokenizer = load_json(with_words(tokenizer_from_ranks(ranks), kCl100kWords));
  check_vectors(*tokenizer, "gpt2.json", "Xenova/gpt-4", 4);
  check_round_trip(*tokenizer);
}

}  // namespace troupe
