// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace troupe {

// Results of a model: text, token by token, or of one pass over an input a vector, or a
// number for each label.
enum class ModelKind : std::uint8_t { kGenerative, kEmbedding, kClassifying };

}  // namespace troupe
