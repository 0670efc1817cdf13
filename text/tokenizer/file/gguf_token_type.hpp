// SPDX-License-Identifier: Apache-2.0
// A GGUF file has a number for the kind of each token: its reader and its writer have the same.
#pragma once

#include <cstdint>

namespace troupe::gguf {

enum TokenType : std::int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

}  // namespace troupe::gguf
