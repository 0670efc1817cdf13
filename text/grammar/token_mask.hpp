// SPDX-License-Identifier: Apache-2.0
// Masks of tokens: bit t % 32 of word t / 32 is set for token t.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "text/token_id.hpp"

namespace troupe {

inline void set_bit(std::span<std::uint32_t> mask, TokenId token) {
  mask[static_cast<std::size_t>(token) / 32] |= std::uint32_t{1} << (token % 32);
}

inline bool has_bit(std::span<const std::uint32_t> mask, TokenId token) {
  return (mask[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1) != 0;
}

}  // namespace troupe
