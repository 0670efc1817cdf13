// SPDX-License-Identifier: Apache-2.0
// The SHA-256 of an API key, kept in the key's place: no key is found from it.
#pragma once

#include <array>
#include <string_view>

namespace troupe {

class KeyDigest {
 public:
  // Not explicit: where a digest is wanted, a key is given.
  KeyDigest(std::string_view key);
  KeyDigest(const char* key) : KeyDigest(std::string_view(key)) {}

  // Takes the same time wherever the two differ.
  bool operator==(const KeyDigest& other) const;

 private:
  std::array<unsigned char, 32> bytes_{};
};

}  // namespace troupe
