// SPDX-License-Identifier: Apache-2.0
#include "app/loading/model_source.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "gpu/model/gguf_file.hpp"
#include "text/tokenizer/gguf_tokenizer.hpp"

namespace troupe {
namespace {

const std::string kPrefix = "tokenizer.ggml.";

[[noreturn]] void refuse_elements(const GgufFile& file, const std::string& key, const char* expected) {
  file.refuse(key + " has elements of another type, expected " + expected);
}

std::vector<std::string> texts_of(const GgufFile& file, const std::string& key) {
  std::vector<std::string> texts;
  const auto* array = file.find_array(key);
  if (array == nullptr) return texts;
  texts.reserve(array->size());
  for (const GgufValue& value : *array) {
    if (value.as_text() == nullptr) refuse_elements(file, key, "strings");
    texts.push_back(*value.as_text());
  }
  return texts;
}

std::vector<double> numbers_of(const GgufFile& file, const std::string& key) {
  std::vector<double> numbers;
  const auto* array = file.find_array(key);
  if (array == nullptr) return numbers;
  for (const GgufValue& value : *array) {
    if (value.as_number() == nullptr || *value.as_number() != *value.as_number())
      refuse_elements(file, key, "numbers with a point");
    numbers.push_back(*value.as_number());
  }
  return numbers;
}

// Kinds of tokens are small numbers; others mean nothing.
std::vector<std::int64_t> kinds_of(const GgufFile& file, const std::string& key) {
  std::vector<std::int64_t> kinds;
  const auto* array = file.find_array(key);
  if (array == nullptr) return kinds;
  for (const GgufValue& value : *array) {
    if (value.as_unsigned() == nullptr || *value.as_unsigned() > 255)
      refuse_elements(file, key, "integers from 0 to 255");
    kinds.push_back(static_cast<std::int64_t>(*value.as_unsigned()));
  }
  return kinds;
}

GgufVocabulary vocabulary_of(const GgufFile& file) {
  const std::string* model = file.find_text(kPrefix + "model");
  if (model == nullptr) file.refuse("has no tokenizer (" + kPrefix + "model)");
  const std::string* pre = file.find_text(kPrefix + "pre");
  const std::string* huggingface = file.find_text("tokenizer.huggingface.json");
  return {.model = *model,
          .pre = pre == nullptr ? "" : *pre,
          .tokens = texts_of(file, kPrefix + "tokens"),
          .scores = numbers_of(file, kPrefix + "scores"),
          .token_type = kinds_of(file, kPrefix + "token_type"),
          .merges = texts_of(file, kPrefix + "merges"),
          .bos_token_id = file.find_unsigned(kPrefix + "bos_token_id"),
          .eos_token_id = file.find_unsigned(kPrefix + "eos_token_id"),
          .add_bos_token = file.find_bool(kPrefix + "add_bos_token"),
          .add_eos_token = file.find_bool(kPrefix + "add_eos_token"),
          .add_space_prefix = file.find_bool(kPrefix + "add_space_prefix"),
          .huggingface = huggingface == nullptr ? "" : *huggingface};
}

}  // namespace

std::unique_ptr<Tokenizer> load_model_tokenizer(const std::filesystem::path& model) {
  if (!is_gguf_path(model)) return load_tokenizer(model);
  const GgufVocabulary vocabulary = vocabulary_of(GgufFile(model));
  try {
    return make_gguf_tokenizer(vocabulary);
  } catch (const std::exception& error) {
    throw std::runtime_error(model.string() + ": " + error.what());
  }
}

std::optional<ChatTemplate> load_model_template(const std::filesystem::path& model) {
  if (!is_gguf_path(model)) return load_chat_template(model);
  const GgufFile file(model);
  const std::string* source = file.find_text("tokenizer.chat_template");
  if (source == nullptr) return std::nullopt;
  try {
    return ChatTemplate::parse(*source);
  } catch (const std::exception& error) {
    file.refuse(std::string("tokenizer.chat_template: ") + error.what());
  }
}

std::vector<std::filesystem::path> weight_files(const std::filesystem::path& model) {
  if (is_gguf_path(model)) {
    std::vector<std::filesystem::path> files;  // as they are opened, whatever their names say
    const GgufFile file(model);
    for (const auto& part : file.parts()) files.push_back(part->path());
    return files;
  }
  std::vector<std::filesystem::path> files{model / "config.json"};
  if (const auto older = model / "quantize_config.json"; std::filesystem::exists(older))
    files.push_back(older);
  for (const auto& entry : std::filesystem::directory_iterator(model))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace troupe
