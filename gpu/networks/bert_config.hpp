// SPDX-License-Identifier: Apache-2.0
// config.json of BERT and its relatives: each family has names and defaults of its own for
// the same sizes. Behind the encoder is a classifier, if the architecture's name says so,
// else the layers of modules.json (gpu/networks/sentence_modules.hpp).
#pragma once

#include <filesystem>
#include <string>

#include "gpu/model/config_fields.hpp"
#include "gpu/model/model_config.hpp"

namespace troupe {

inline constexpr const char* kBertArchitecture = "BertModel";

// `fields` are those of config.json, architecture one that is an encoder's. Throws
// std::runtime_error.
ModelConfig read_bert_config(const std::string& architecture, const ConfigFields& fields,
                             const std::filesystem::path& model_dir);

}  // namespace troupe
