// SPDX-License-Identifier: Apache-2.0
// Ways to cut the same bytes into pieces, for readers of streams, whose outcome must
// not depend on it: one by one, and in two at every place, or at evenly spread ones
// where the bytes are many.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

namespace troupe::fuzz {

using Pieces = std::vector<std::string_view>;

// Calls `check` for each way but the whole.
inline void for_each_split(std::string_view bytes, const std::function<void(const Pieces&)>& check) {
  constexpr std::size_t kMostPlaces = 48;
  Pieces singles;
  for (std::size_t i = 0; i < bytes.size(); ++i) singles.push_back(bytes.substr(i, 1));
  check(singles);
  const std::size_t step = bytes.size() / kMostPlaces + 1;
  for (std::size_t i = 1; i < bytes.size(); i += step) check({bytes.substr(0, i), bytes.substr(i)});
}

}  // namespace troupe::fuzz
