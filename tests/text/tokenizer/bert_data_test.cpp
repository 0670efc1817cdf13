// SPDX-License-Identifier: Apache-2.0
// BERT's tokenizers against expected encodings that lie outside the repository.
#include "text/tokenizer/tokenizer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "tests/text/text_data.hpp"
#include "tests/text/tokenizer/bert_file.hpp"

namespace troupe {
namespace {

using nlohmann::json;
using Tokens = std::vector<TokenId>;

std::filesystem::path vectors_dir() { return data_dir() / "tokenizers" / "vectors"; }

std::unique_ptr<Tokenizer> load_bert(const std::string& file, bool is_lowercase) {
  std::vector<std::string> words;
  std::istringstream lines(file_text(data_dir() / "tokenizers" / "bert" / file));
  for (std::string line; std::getline(lines, line);) words.push_back(line);
  return load_json(bert_file(words, is_lowercase));
}

Tokens encoded(const Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.enclosed(tokenizer.encode_with_specials(text));
}

bool is_ascii(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return (c & 0x80) != 0; });
}

// Vectors of transformers.js, but for pairs of texts: {name: {text, ids, …}}.
void check_vectors(const Tokenizer& tokenizer, const std::string& file, const std::string& model,
                   std::size_t expected_count, bool only_ascii = false) {
  const json vectors = file_json(vectors_dir() / "transformers_js" / file)[model];
  std::size_t num_checked = 0;
  for (const auto& [name, vector] : vectors.items()) {
    CAPTURE(name);
    const auto text = vector["text"].get<std::string>();
    if (vector.contains("text_pair") || (only_ascii && !is_ascii(text))) continue;
    CHECK(encoded(tokenizer, text) == vector["ids"].get<Tokens>());
    ++num_checked;
  }
  CHECK(num_checked == expected_count);
}

// Vectors of swift-transformers: [{input, encoded: {input_ids}, …}].
void check_swift_vectors(const Tokenizer& tokenizer, const std::string& model) {
  const json vectors = file_json(vectors_dir() / "swift_transformers" / "tokenizer_tests.json")[model];
  CHECK(vectors.size() == 18);
  for (const json& vector : vectors) {
    const auto text = vector["input"].get<std::string>();
    CAPTURE(text);
    CHECK(encoded(tokenizer, text) == vector["encoded"]["input_ids"].get<Tokens>());
  }
}

void check_article(const Tokenizer& tokenizer, const std::string& file) {
  const json article = file_json(vectors_dir() / "swift_transformers" / file);
  CHECK(encoded(tokenizer, article["text"].get<std::string>()) == article["token_ids"].get<Tokens>());
}

// The folder of the model, unpacked by hand; TROUPE_MINILM names another.
std::filesystem::path minilm_dir() {
  if (const char* dir = std::getenv("TROUPE_MINILM")) return dir;
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home == nullptr ? "" : home) / ".cache/troupe/models/all-MiniLM-L6-v2";
}

}  // namespace

TEST_CASE("bert data: the uncased vocabulary") {
  if (is_data_missing(data_dir() / "tokenizers" / "bert")) return;
  const auto tokenizer = load_bert("vocab.txt", true);
  check_vectors(*tokenizer, "bert.json", "Xenova/bert-base-uncased", 29);
  check_vectors(*tokenizer, "distilbert.json", "Xenova/distilbert-base-uncased-finetuned-sst-2-english", 12);
  check_swift_vectors(*tokenizer, "bert-base-uncased");
  check_swift_vectors(*tokenizer, "google-bert/bert-base-uncased");
  check_article(*tokenizer, "bert_uncased_encoded.json");
}

// The file has its other characters in UTF-8 twice over.
TEST_CASE("bert data: the cased vocabulary, as far as it is ASCII") {
  if (is_data_missing(data_dir() / "tokenizers" / "bert")) return;
  const auto tokenizer = load_bert("cased_vocab.txt", false);
  check_vectors(*tokenizer, "bert.json", "Xenova/bert-base-cased", 2, true);
  check_vectors(*tokenizer, "distilbert.json", "Xenova/distilbert-base-cased-distilled-squad", 14, true);
}

TEST_CASE("bert data: all-MiniLM-L6-v2") {
  if (!std::filesystem::exists(minilm_dir() / "tokenizer.json")) {
    MESSAGE("SKIPPED: no tokenizer.json in " << minilm_dir().string() << " (set TROUPE_MINILM)");
    return;
  }
  const auto tokenizer = load_tokenizer(minilm_dir());
  CHECK(tokenizer->vocabulary_size() == 30522);
  CHECK(encoded(*tokenizer, "How are you doing?") == Tokens{101, 2129, 2024, 2017, 2725, 1029, 102});
  CHECK(encoded(*tokenizer, "Tokenization na\u00efvely") == Tokens{101, 19204, 3989, 15743, 2135, 102});
  CHECK(tokenizer->decode(encoded(*tokenizer, "How are you doing?")) == "how are you doing?");
}

// tests/text/tokenizer/tokenizer_parity.py writes the file, with Hugging Face's tokenizers.
TEST_CASE("bert data: parity with another implementation") {
  const char* file = std::getenv("TROUPE_TOKENIZER_PARITY");
  if (file == nullptr) {
    MESSAGE("SKIPPED: no TROUPE_TOKENIZER_PARITY (tests/text/tokenizer/tokenizer_parity.py makes the file)");
    return;
  }
  const json parity = file_json(file);
  const auto tokenizer = load_tokenizer(parity["model"].get<std::string>());
  std::size_t num_ids = 0;
  for (const json& expected : parity["texts"]) {
    const auto text = expected["text"].get<std::string>();
    CAPTURE(text);
    const auto tokens = encoded(*tokenizer, text);
    CHECK(tokens == expected["ids"].get<Tokens>());
    CHECK(tokenizer->decode(tokens) == expected["decoded"].get<std::string>());
    num_ids += tokens.size();
  }
  MESSAGE(parity["texts"].size() << " texts, " << num_ids << " ids");
}

}  // namespace troupe
