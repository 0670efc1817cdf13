// SPDX-License-Identifier: Apache-2.0
#include "text/sentence_prompts.hpp"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "text/model_file.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;
constexpr std::size_t kMaxPrompts = 256;
constexpr std::size_t kMaxPromptBytes = 4096;  // of a name or a text

// A field that is absent reads as null.
nlohmann::json member(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nlohmann::json() : *found;
}

SentencePrompts read_prompts(const nlohmann::json& document) {
  SentencePrompts prompts;
  if (!document.is_object()) throw std::runtime_error("is no JSON object");
  const nlohmann::json texts = member(document, "prompts"), chosen = member(document, "default_prompt_name");
  if (!texts.is_null() && (!texts.is_object() || texts.size() > kMaxPrompts))
    throw std::runtime_error("prompts is no object of at most " + std::to_string(kMaxPrompts) + " texts");
  for (const auto& [name, text] : texts.items()) {
    const bool is_text = text.is_string() && text.get_ref<const std::string&>().size() <= kMaxPromptBytes &&
                         name.size() <= kMaxPromptBytes;
    if (!is_text)
      throw std::runtime_error("prompts: \"" + name.substr(0, 48) + "\" is no text of at most " +
                               std::to_string(kMaxPromptBytes) + " bytes");
    prompts.texts.emplace(name, text.get<std::string>());
  }
  if (chosen.is_null()) return prompts;
  if (!chosen.is_string()) throw std::runtime_error("default_prompt_name is no name");
  const auto found = prompts.texts.find(chosen.get<std::string>());
  if (found == prompts.texts.end()) throw std::runtime_error("default_prompt_name is none of the prompts");
  prompts.default_text = found->second;
  return prompts;
}

}  // namespace

const std::string& SentencePrompts::find_or_default(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names)
    if (const auto found = texts.find(name); found != texts.end()) return found->second;
  return default_text;
}

SentencePrompts load_sentence_prompts(const std::filesystem::path& model_dir) {
  const auto path = model_dir / "config_sentence_transformers.json";
  const auto text = read_model_file(path, kMaxFileBytes);
  if (!text) return {};
  const nlohmann::json document = parse_model_json(path, *text);
  try {
    return read_prompts(document);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(path.string() + ": " + error.what());
  }
}

}  // namespace troupe
