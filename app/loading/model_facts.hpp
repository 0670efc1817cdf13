// SPDX-License-Identifier: Apache-2.0
// Facts about a model's files that clients of Ollama are told.
#pragma once

#include "app/loading/model_loading.hpp"
#include "http/api/served_model_info.hpp"

namespace troupe {

// Reads the directory and the headers of the weights, not the weights. Throws std::runtime_error
// that names a file that can't be read. The noop device needs no weights: nothing is said of them.
ModelFacts model_facts(const LoadedModel& model);

}  // namespace troupe
