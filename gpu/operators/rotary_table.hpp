// SPDX-License-Identifier: Apache-2.0
// The angles of rotary position embedding, which every device computes alike: the
// frequencies that a model's configuration asks for, and a table of cosines and sines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace troupe {

enum class RotaryScaling : std::uint8_t { kNone, kLinear, kLlama3, kYarn };

struct RotaryParameters {
  std::size_t rotary_dim = 0;  // elements of a head that are rotated, the first ones
  std::size_t max_positions = 0;
  double theta = 10000.0;
  RotaryScaling scaling = RotaryScaling::kNone;
  double factor = 1.0;                    // all but kNone
  double low_frequency_factor = 1.0;      // kLlama3
  double high_frequency_factor = 4.0;     // kLlama3
  double original_max_positions = 8192;   // kLlama3, kYarn, and where long_divisors begin
  double fast_rotations = 32.0;           // kYarn: frequencies of more over the original context are kept
  double slow_rotations = 1.0;            // kYarn: of fewer are divided by the factor
  bool rounds_bounds = true;              // kYarn: of the blend between them
  double magnitude = 1.0;                 // of every cosine and sine
  std::vector<float> divisors = {};       // of the scaled frequencies, [rotary_dim / 2]; empty: none
  std::vector<float> long_divisors = {};  // instead of them where positions exceed the original ones
};

// Inverse frequencies after scaling, [rotary_dim / 2].
std::vector<float> rotary_frequencies(const RotaryParameters& parameters);

// cos and sin of every position, computed once.
class RotaryTable {
 public:
  RotaryTable() = default;
  explicit RotaryTable(const RotaryParameters& parameters);
  std::size_t rotary_dim() const { return rotary_dim_; }
  std::size_t max_positions() const { return max_positions_; }
  // [rotary_dim / 2] cosines, then [rotary_dim / 2] sines.
  const float* row(std::size_t position) const { return values_.data() + position * rotary_dim_; }

 private:
  std::size_t rotary_dim_ = 0;
  std::size_t max_positions_ = 0;
  std::vector<float> values_;
};

// The tables of a model; null: no layer rotates by it.
struct RotaryTables {
  std::shared_ptr<const RotaryTable> all;    // of all layers
  std::shared_ptr<const RotaryTable> local;  // but for those that have one of their own
};

}  // namespace troupe
