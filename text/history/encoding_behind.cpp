// SPDX-License-Identifier: Apache-2.0
#include "text/history/encoding_behind.hpp"

#include <algorithm>
#include <cstdint>

#include "telemetry/system_random.hpp"

namespace troupe {

std::string draw_marker() {
  std::string marker = "Marker";
  for (int i = 0; i < 2; ++i) {
    auto bits = system_random();
    for (int letter = 0; letter < 16; ++letter, bits >>= 4) marker += static_cast<char>('a' + bits % 16);
  }
  return marker + "0End";
}

std::optional<std::vector<TokenId>> encode_behind_marker(const Tokenizer& tokenizer, std::string_view marker,
                                                         std::string_view marked,
                                                         std::span<const TextRange> trusted,
                                                         std::size_t num_before, EncodingBudget& budget) {
  EncodingBudget unbounded;
  const auto alone = tokenizer.encode_within(unbounded, marker, {});
  budget.set_other_tokens(num_before, alone.size());
  auto tokens = tokenizer.encode_within(budget, marked, trusted);
  budget.set_other_tokens(0);
  if (tokens.size() < alone.size() || !std::equal(alone.begin(), alone.end(), tokens.begin()))
    return std::nullopt;
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(alone.size()));
  return tokens;
}

}  // namespace troupe
