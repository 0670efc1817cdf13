// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding (Hugging Face's Llama convention: element i is
// paired with i + head_dim / 2) and the append of keys and values to KV pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/batch.hpp"
#include "gpu/host/kernels/isa.hpp"
#include "gpu/host/kernels/kv_pages.hpp"

namespace troupe {

enum class RotaryScaling : std::uint8_t { kNone, kLinear, kLlama3 };

struct RotaryParameters {
  std::size_t head_dim = 0;
  std::size_t max_positions = 0;
  double theta = 10000.0;
  RotaryScaling scaling = RotaryScaling::kNone;
  double factor = 1.0;                   // kLinear, kLlama3
  double low_frequency_factor = 1.0;     // kLlama3
  double high_frequency_factor = 4.0;    // kLlama3
  double original_max_positions = 8192;  // kLlama3
};

// Inverse frequencies after scaling, [head_dim / 2].
std::vector<float> rotary_frequencies(const RotaryParameters& parameters);

// cos and sin of every position, computed once.
class RotaryTable {
 public:
  RotaryTable() = default;
  explicit RotaryTable(const RotaryParameters& parameters);
  std::size_t head_dim() const { return head_dim_; }
  std::size_t max_positions() const { return max_positions_; }
  // [head_dim / 2] cosines, then [head_dim / 2] sines.
  const float* row(std::size_t position) const { return values_.data() + position * head_dim_; }

 private:
  std::size_t head_dim_ = 0;
  std::size_t max_positions_ = 0;
  std::vector<float> values_;
};

// Where a token of the batch is in its sequence, and the page that holds its
// key and value (at position % 32). Filled once a batch, used by every layer.
struct TokenPlace {
  std::uint32_t position = 0;  // < RotaryTable::max_positions()
  PageId page = 0;
};
void place_tokens(std::span<const SequenceSlice> slices, std::span<const PageId> page_table,
                  std::vector<TokenPlace>& places);

struct RotaryAppendKvArguments {
  float* qkv = nullptr;  // [tokens, (num_heads + 2 num_kv_heads) * head_dim]; queries
                         // are rotated in place, keys and values are only read
  std::size_t qkv_stride = 0;
  std::span<const TokenPlace> places;  // one a token
  std::size_t num_heads = 0;
  const RotaryTable* table = nullptr;
  void* kv_pool = nullptr;
  KvLayout layout;
  std::size_t layer = 0;
  Isa isa = best_isa();
};

// A task is a few tokens. No two tokens of a batch share a place.
std::size_t rotary_append_kv_num_tasks(const RotaryAppendKvArguments& arguments);
void rotary_append_kv_run_task(const RotaryAppendKvArguments& arguments, std::size_t task);

}  // namespace troupe
