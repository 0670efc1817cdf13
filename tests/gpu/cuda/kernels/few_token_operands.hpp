// SPDX-License-Identifier: Apache-2.0
// What a product of few tokens reads, in the memory of a kernel under test, and
// its sums in f64.
#pragma once

#include <cmath>
#include <vector>

#include "gpu/cuda/kernels/gemm/few_token_input.hpp"
#include "tests/gpu/cuda/kernels/typed_buffer.hpp"

namespace troupe {

struct FewTokenCase {
  std::uint32_t tokens = 1, outputs = 1, depth = 8;
  bool has_bias = false;
  bool is_scaled = false;
  DataType type = DataType::kBF16;
};

// Tokens [first, first + count) of those of a case; all of them by default.
class FewTokenOperands {
 public:
  explicit FewTokenOperands(const FewTokenCase& c) : FewTokenOperands(c, 0, c.tokens) {}
  FewTokenOperands(const FewTokenCase& c, std::uint32_t first, std::uint32_t count)
      : case_(c),
        a_(rows(as_stored(c.type, random_values(c.tokens * c.depth, 1)), c.depth, first, count)),
        weight_(as_stored(c.type, random_values(c.outputs * c.depth, 2))),
        bias_(random_values(c.outputs, 3)),
        squares_(rows(positive(random_values(c.tokens * num_parts(), 4)), num_parts(), first, count)),
        device_a_(c.type, a_),
        device_weight_(c.type, weight_),
        device_bias_(bias_),
        device_squares_(squares_) {
    case_.tokens = count;
  }

  cuda::FewTokenInput input() {
    return {.a = device_a_.data(),
            .a_stride = case_.depth,
            .weight = device_weight_.data(),
            .weight_stride = case_.depth,
            .bias = case_.has_bias ? device_bias_.data() : nullptr,
            .squares = case_.is_scaled ? device_squares_.data() : nullptr,
            .epsilon = kEpsilon,
            .type = case_.type,
            .num_tokens = case_.tokens,
            .num_outputs = case_.outputs,
            .depth = case_.depth,
            .workspace = workspace()};
  }
  // [tokens, outputs], scaled, with the bias
  std::vector<double> sums() const {
    std::vector<double> sums;
    for (std::size_t token = 0; token < case_.tokens; ++token) {
      for (std::size_t output = 0; output < case_.outputs; ++output) {
        double sum = 0.0;
        for (std::size_t k = 0; k < case_.depth; ++k) {
          sum += double{a_[token * case_.depth + k]} * weight_[output * case_.depth + k];
        }
        sums.push_back(sum * scale_of(token) + (case_.has_bias ? bias_[output] : 0.0));
      }
    }
    return sums;
  }
  const std::vector<float>& a() const { return a_; }
  const std::vector<float>& weight() const { return weight_; }
  const std::vector<float>& bias() const { return bias_; }

 private:
  static constexpr float kEpsilon = 1e-3F;

  std::size_t num_parts() const { return cuda::num_square_parts(case_.depth); }
  double scale_of(std::size_t token) const {
    double squares = 0.0;
    for (std::size_t part = 0; part < num_parts(); ++part) {
      squares += squares_[token * num_parts() + part];
    }
    return case_.is_scaled ? 1.0 / std::sqrt(squares / case_.depth + kEpsilon) : 1.0;
  }
  // One for all, as each product has to leave it ready for the next.
  static std::byte* workspace() {
    static DeviceArray<std::byte> memory{std::vector<std::byte>(cuda::kFewTokenWorkspaceBytes)};
    return memory.data();
  }
  static std::vector<float> rows(const std::vector<float>& values, std::size_t width, std::size_t first,
                                 std::size_t count) {
    return {values.begin() + static_cast<std::ptrdiff_t>(first * width),
            values.begin() + static_cast<std::ptrdiff_t>((first + count) * width)};
  }
  static std::vector<float> positive(std::vector<float> values) {
    for (float& value : values) value = 20.0F * std::abs(value);
    return values;
  }

  FewTokenCase case_;
  std::vector<float> a_, weight_, bias_, squares_;
  TypedBuffer device_a_, device_weight_;
  DeviceArray<float> device_bias_, device_squares_;
};

// The larger of the absolute and the relative error; a NaN is as wrong as can
// be.
inline double error_of(double value, double expected) {
  const double error = std::abs(value - expected) / std::max(1.0, std::abs(expected));
  return std::isnan(error) ? 1e9 : error;
}

}  // namespace troupe
