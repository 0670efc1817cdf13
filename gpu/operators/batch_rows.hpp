// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace troupe {

// The rows of a batch that are one slice's.
struct BatchRows {
  std::uint32_t first_token = 0;
  std::uint32_t num_tokens = 0;   // >= 1
  std::uint32_t num_padding = 0;  // of these, at the end: as SequenceSlice::num_padding

  std::uint32_t num_content() const { return num_tokens - num_padding; }
};

}  // namespace troupe
