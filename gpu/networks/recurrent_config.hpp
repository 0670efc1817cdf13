// SPDX-License-Identifier: Apache-2.0
// The config.json of networks of recurrent cells, a format of ours (docs/models.md).
#pragma once

#include <filesystem>
#include <string>

#include "gpu/model/config_fields.hpp"
#include "gpu/model/model_config.hpp"

namespace troupe {

// architecture: one of families/recurrent.cpp. Throws
// std::runtime_error that names the file, the field and the value.
ModelConfig read_recurrent_config(const std::string& architecture, const ConfigFields& fields,
                                  const std::filesystem::path& model_dir);

}  // namespace troupe
