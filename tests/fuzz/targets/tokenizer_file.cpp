// SPDX-License-Identifier: Apache-2.0
// Tokenizers of a stranger: tokenizer.json and, behind a zero byte, tokenizer_config.json;
// and the keys of a GGUF file, here as the members of a JSON object.
#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "tests/fuzz/fuzz_targets.hpp"
#include "tests/fuzz/property.hpp"
#include "tests/fuzz/targets/tokenizer_checks.hpp"
#include "text/model_file.hpp"
#include "text/tokenizer/file/tokenizer_file.hpp"
#include "text/tokenizer/gguf_tokenizer.hpp"
#include "text/tokenizer/pipeline_tokenizer.hpp"

namespace troupe::fuzz {
namespace {

// As load_tokenizer() does, whose contract is that any exception is a refusal.
std::optional<PipelineTokenizer> loaded(std::string_view bytes) {
  const auto end = std::min(bytes.find('\0'), bytes.size());
  try {
    const auto tokenizer = parse_model_json("tokenizer.json", std::string(bytes.substr(0, end)));
    const auto config = end < bytes.size()
                            ? parse_model_json("tokenizer_config.json", std::string(bytes.substr(end + 1)))
                            : nlohmann::json();
    return std::optional<PipelineTokenizer>(std::in_place, read_tokenizer(tokenizer, config));
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

template <class Value>
void read(const nlohmann::json& keys, const char* key, Value& value) {
  if (keys.contains(key)) keys[key].get_to(value);
}

template <class Value>
void read(const nlohmann::json& keys, const char* key, std::optional<Value>& value) {
  if (keys.contains(key)) value = keys[key].get<Value>();
}

GgufVocabulary vocabulary_of(const nlohmann::json& keys) {
  GgufVocabulary vocabulary;
  read(keys, "model", vocabulary.model);
  read(keys, "pre", vocabulary.pre);
  read(keys, "tokens", vocabulary.tokens);
  read(keys, "scores", vocabulary.scores);
  read(keys, "token_type", vocabulary.token_type);
  read(keys, "merges", vocabulary.merges);
  read(keys, "bos_token_id", vocabulary.bos_token_id);
  read(keys, "eos_token_id", vocabulary.eos_token_id);
  read(keys, "add_bos_token", vocabulary.add_bos_token);
  read(keys, "add_eos_token", vocabulary.add_eos_token);
  read(keys, "add_space_prefix", vocabulary.add_space_prefix);
  return vocabulary;
}

}  // namespace

void fuzz_tokenizer_file(std::string_view bytes) {
  if (const auto tokenizer = loaded(bytes)) check_tokenizer(*tokenizer);
}

void fuzz_gguf_vocabulary(std::string_view bytes) {
  GgufVocabulary vocabulary;
  try {
    vocabulary = vocabulary_of(nlohmann::json::parse(bytes));
  } catch (const nlohmann::json::exception&) {
    return;
  }
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    tokenizer = make_gguf_tokenizer(vocabulary);
  } catch (const std::runtime_error&) {
    return;
  }
  check_tokenizer(*tokenizer);
}

}  // namespace troupe::fuzz
