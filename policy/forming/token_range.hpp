// SPDX-License-Identifier: Apache-2.0
// Some tokens of a sequence that follow one another, by position.
#pragma once

#include <cstdint>

namespace troupe {

struct TokenRange {
  std::uint32_t begin = 0, end = 0;
  std::uint32_t size() const { return end - begin; }
  bool operator==(const TokenRange&) const = default;
};

}  // namespace troupe
