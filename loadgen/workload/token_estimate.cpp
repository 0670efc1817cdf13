// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/token_estimate.hpp"

#include <algorithm>

namespace troupe::loadgen {

std::uint32_t estimated_tokens(std::string_view text) {
  std::uint64_t num_words = 0;
  bool is_in_word = false;
  for (const char c : text) {
    const bool is_space = c == ' ' || (c >= '\t' && c <= '\r');
    num_words += !is_space && !is_in_word ? 1 : 0;
    is_in_word = !is_space;
  }
  const auto num_tokens = std::max<std::uint64_t>((num_words * 4 + 2) / 3, text.empty() ? 0 : 1);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(num_tokens, UINT32_MAX));
}

}  // namespace troupe::loadgen
