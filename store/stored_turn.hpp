// SPDX-License-Identifier: Apache-2.0
// A part of a chat that a model has run, as the file of turns keeps it: its text and the
// tokens that it had (text/history/turn_memory.hpp). A plain value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

struct StoredTurn {
  struct Bytes {  // [begin, end) of the prompt's text
    std::uint64_t begin = 0, end = 0;
    bool operator==(const Bytes&) const = default;
  };

  std::uint64_t number = 0;  // its own, above 0
  std::uint64_t before = 0;  // of the part that it continues, a smaller one; 0: none
  std::int64_t written = 0;  // Unix seconds
  std::string tenant = {};
  std::string scope = {};
  std::uint64_t key = 0;
  std::uint64_t begin = 0;  // byte of the prompt's text
  std::string text = {};
  std::vector<Bytes> trusted = {};
  std::string answer = {};
  std::vector<Bytes> answer_specials = {};
  std::vector<std::int32_t> tokens = {};
  bool operator==(const StoredTurn&) const = default;
};

}  // namespace troupe
