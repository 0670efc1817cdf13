// SPDX-License-Identifier: Apache-2.0
// The config.json of transformer encoder-decoders with waves for positions: Marian and M2M100, as
// transformers writes them, with a few fields of ours (docs/models.md).
#pragma once

#include <filesystem>
#include <string>

#include "gpu/model/config_fields.hpp"
#include "gpu/model/model_config.hpp"

namespace troupe {

// architecture: one of families/translator.cpp. Throws std::runtime_error that names
// the file, the field and the value.
ModelConfig read_translator_config(const std::string& architecture, const ConfigFields& fields,
                                   const std::filesystem::path& model_dir);

}  // namespace troupe
