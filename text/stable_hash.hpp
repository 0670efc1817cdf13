// SPDX-License-Identifier: Apache-2.0
// FNV-1a: a hash that is the same in every process and release, for what is
// stored or shown. Not for hash tables that an attacker may fill.
#pragma once

#include <cstdint>
#include <string_view>

namespace troupe {

// `hash`: of what comes before the text.
constexpr std::uint64_t stable_hash(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace troupe
