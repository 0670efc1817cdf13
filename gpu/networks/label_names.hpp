// SPDX-License-Identifier: Apache-2.0
// The names of a classifier's labels in config.json.
#pragma once

#include <string>
#include <vector>

#include "gpu/model/config_fields.hpp"

namespace troupe {

// Names in "id2label", or LABEL_0, LABEL_1, … as many as "num_labels" says. Throws std::runtime_error.
std::vector<std::string> read_labels(const ConfigFields& fields);

}  // namespace troupe
