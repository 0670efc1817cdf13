// SPDX-License-Identifier: Apache-2.0
// Text of a model that is given as a directory or as a GGUF file: its tokenizer and
// its chat template. Configuration and weights know both kinds themselves
// (gpu/model/model_config.hpp, gpu/model/weights.hpp).
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "text/chat_template.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace troupe {

// Throw std::runtime_error naming the file and the reason; nullopt: there is no template.
std::unique_ptr<Tokenizer> load_model_tokenizer(const std::filesystem::path& model);
std::optional<ChatTemplate> load_model_template(const std::filesystem::path& model);

// All that the numbers depend on: the configuration and the weights. Throws
// std::filesystem::filesystem_error if a directory can't be read.
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& model);

}  // namespace troupe
