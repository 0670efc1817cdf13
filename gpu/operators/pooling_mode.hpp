// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace troupe {

// How the vectors of a text's tokens become one. Tokens that a tokenizer adds count.
enum class PoolingMode : std::uint8_t {
  kMean,
  kCls,   // the first token's
  kMax,   // the largest value of each column
  kLast,  // the last token's
};

}  // namespace troupe
