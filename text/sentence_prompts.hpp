// SPDX-License-Identifier: Apache-2.0
// Texts that a sentence encoder was trained to see in front of its inputs ("query: "), as
// sentence-transformers keeps them in config_sentence_transformers.json.
#pragma once

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

namespace troupe {

struct SentencePrompts {
  std::map<std::string, std::string, std::less<>> texts;  // by name
  std::string default_text;                               // of inputs that name none; may be empty

  // The text of the first of these names that there is; else the default.
  const std::string& find_or_default(std::initializer_list<std::string_view> names) const;
};

// Empty without the file. Throws std::runtime_error naming the file and what is wrong.
SentencePrompts load_sentence_prompts(const std::filesystem::path& model_dir);

}  // namespace troupe
