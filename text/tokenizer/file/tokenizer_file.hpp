// SPDX-License-Identifier: Apache-2.0
// tokenizer.json and tokenizer_config.json to the parts of a tokenizer.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "text/tokenizer/pipeline_tokenizer.hpp"

namespace troupe {

// `config` may be null. Throws std::runtime_error saying which field is wrong,
// or names the construct that is not supported.
PipelineTokenizerParts read_tokenizer(const nlohmann::json& tokenizer, const nlohmann::json& config);

}  // namespace troupe
