// SPDX-License-Identifier: Apache-2.0
// Batches of whole texts for encoders. A device that computes texts of any length side by
// side takes them as they come. The other arms are those of TurboTransformers (Fang et al.,
// PPoPP 2021), where each text of a batch is padded to the longest: all that wait in one
// batch, each text alone, or the partition of least time (its Algorithm 2).
//
// Algorithm 2 with two corrections: its last loop steps back one text too far, which loses
// one, and here a batch has limits. Only the sum of times is least: it knows no deadlines.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace troupe {

// kDp: by dynamic programming.
enum class EncoderBatching : std::uint8_t { kRagged, kPadded, kNone, kDp };

struct EncoderBatchLimits {
  std::uint32_t max_texts = 1;
  std::uint32_t max_tokens = 1;  // computed, those of padding included
};

// A batch that grows by one text after the other.
class EncoderBatch {
 public:
  EncoderBatch(EncoderBatching batching, EncoderBatchLimits limits) : batching_(batching), limits_(limits) {}

  // The first text has room, whatever its length.
  bool has_room(std::uint32_t num_tokens) const;
  void add(std::uint32_t num_tokens);

  bool is_padded() const {
    return batching_ == EncoderBatching::kPadded || batching_ == EncoderBatching::kDp;
  }
  std::uint32_t num_texts() const { return num_texts_; }
  std::uint32_t longest() const { return longest_; }
  // That the device computes, padding included.
  std::uint32_t num_computed() const { return is_padded() ? num_texts_ * longest_ : num_tokens_; }

 private:
  EncoderBatching batching_;
  EncoderBatchLimits limits_;
  std::uint32_t num_texts_ = 0, num_tokens_ = 0, longest_ = 0;
};

// Nanoseconds of a batch of so many texts that are padded to that length.
using EncoderBatchCost = std::function<double(std::uint32_t length, std::uint32_t num_texts)>;

// Lengths in ascending order are cut into batches of neighbours, of least total cost: the
// number of texts in each batch, in the order of the texts. A text that is longer than
// max_tokens has a batch of its own. O(lengths * max_texts) calls of cost.
std::vector<std::uint32_t> plan_encoder_batches(std::span<const std::uint32_t> lengths,
                                                const EncoderBatchLimits& limits,
                                                const EncoderBatchCost& cost);

}  // namespace troupe
