// SPDX-License-Identifier: Apache-2.0
#include "policy/forming/encoder_batches.hpp"

#include <algorithm>

namespace troupe {

bool EncoderBatch::has_room(std::uint32_t num_tokens) const {
  if (num_texts_ == 0) return true;
  if (batching_ == EncoderBatching::kNone || num_texts_ >= limits_.max_texts) return false;
  const std::uint64_t num_computed = is_padded()
                                         ? (std::uint64_t{num_texts_} + 1) * std::max(longest_, num_tokens)
                                         : std::uint64_t{num_tokens_} + num_tokens;
  return num_computed <= limits_.max_tokens;
}

void EncoderBatch::add(std::uint32_t num_tokens) {
  num_texts_ += 1;
  num_tokens_ += num_tokens;
  longest_ = std::max(longest_, num_tokens);
}

std::vector<std::uint32_t> plan_encoder_batches(std::span<const std::uint32_t> lengths,
                                                const EncoderBatchLimits& limits,
                                                const EncoderBatchCost& cost) {
  // Of the first i texts: the least cost, and the size of the last batch then.
  std::vector<double> least(lengths.size() + 1, 0.0);
  std::vector<std::uint32_t> last(lengths.size() + 1, 0);
  for (std::size_t i = 1; i <= lengths.size(); ++i) {
    const std::uint32_t length = lengths[i - 1];
    const std::uint32_t most_by_tokens = limits.max_tokens / std::max(length, 1U);
    const auto most = static_cast<std::uint32_t>(
        std::min<std::size_t>(i, std::max(std::min(limits.max_texts, most_by_tokens), 1U)));
    for (std::uint32_t size = 1; size <= most; ++size) {
      const double total = least[i - size] + cost(length, size);
      if (size > 1 && total >= least[i]) continue;
      least[i] = total;
      last[i] = size;
    }
  }
  std::vector<std::uint32_t> sizes;
  for (std::size_t i = lengths.size(); i > 0; i -= last[i]) sizes.push_back(last[i]);
  std::reverse(sizes.begin(), sizes.end());
  return sizes;
}

}  // namespace troupe
