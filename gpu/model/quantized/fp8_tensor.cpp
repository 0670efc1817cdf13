// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/quantized/fp8_tensor.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace troupe {
namespace {

using Shape = std::vector<std::uint64_t>;

constexpr float kLargestCode = 448.0F;

const std::array<float, 256> kValues = [] {
  std::array<float, 256> values{};
  for (std::size_t code = 0; code < values.size(); ++code)
    values[code] = f32_from_e4m3(static_cast<std::uint8_t>(code));
  return values;
}();

std::uint64_t blocks_in(std::uint64_t size, std::uint64_t block) { return (size + block - 1) / block; }

// Scales lie in rows of blocks. Blocks as large as the matrix: one scale.
class Fp8Tensor final : public PackedTensor {
 public:
  Fp8Tensor(RawTensor codes, RawTensor scales, std::uint64_t block_rows, std::uint64_t block_columns)
      : codes_(std::move(codes)),
        scales_(std::move(scales)),
        block_rows_(block_rows),
        block_columns_(block_columns),
        scales_a_row_(blocks_in(codes_.shape[1], block_columns)) {}

  std::vector<std::uint64_t> shape() const override { return codes_.shape; }
  void open_row(std::size_t row, std::span<float> values) const override {
    const std::byte* codes = codes_.bytes.data() + row * values.size();
    const std::size_t first_scale = row / block_rows_ * scales_a_row_;
    for (std::size_t begin = 0; begin < values.size(); begin += block_columns_) {
      const float scale = scales_.number(first_scale + begin / block_columns_);
      const std::size_t end = std::min<std::size_t>(values.size(), begin + block_columns_);
      for (std::size_t i = begin; i < end; ++i)
        values[i] = kValues[std::to_integer<std::size_t>(codes[i])] * scale;
    }
  }
  std::optional<BlockFormat> block_format() const override { return std::nullopt; }
  void read_blocks(std::size_t, std::size_t, std::span<QuantizedBlock>) const override {
    throw std::logic_error("E4M3 has no blocks");
  }
  bool is_finite() const override {
    const auto is_nan = [](std::byte code) { return (code & std::byte{0x7F}) == std::byte{0x7F}; };
    if (std::any_of(codes_.bytes.begin(), codes_.bytes.end(), is_nan)) return false;
    return scales_.has_finite_products(kLargestCode) || has_finite_rows();
  }

 private:
  RawTensor codes_, scales_;
  std::uint64_t block_rows_, block_columns_, scales_a_row_;
};

}  // namespace

float f32_from_e4m3(std::uint8_t code) {
  constexpr int kBias = 7, kMantissaBits = 3;
  const int exponent = code >> kMantissaBits & 15, mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  const float value = exponent == 0
                          ? std::ldexp(static_cast<float>(mantissa), 1 - kBias - kMantissaBits)
                          : std::ldexp(static_cast<float>(8 + mantissa), exponent - kBias - kMantissaBits);
  return (code & 0x80) != 0 ? -value : value;
}

std::shared_ptr<const PackedTensor> make_fp8_tensor(RawTensor codes, RawTensor scales, Fp8BlockSize size) {
  if (codes.shape.size() != 2 || codes.shape[0] == 0 || codes.shape[1] == 0)
    throw std::runtime_error("is in F8_E4M3, but no matrix");
  if (!scales.is_float()) throw std::runtime_error("has scales that are not F32, F16 or BF16");
  const std::uint64_t rows = codes.shape[0], columns = codes.shape[1];
  if (scales.shape.empty() || scales.shape == Shape{1})
    return std::make_shared<Fp8Tensor>(std::move(codes), std::move(scales), rows, columns);
  if (scales.shape == Shape{rows} || scales.shape == Shape{rows, 1})
    return std::make_shared<Fp8Tensor>(std::move(codes), std::move(scales), 1, columns);
  const bool are_blocks = size.rows > 0 && size.columns > 0 &&
                          scales.shape == Shape{blocks_in(rows, size.rows), blocks_in(columns, size.columns)};
  if (!are_blocks)
    throw std::runtime_error("has scales that are neither one, nor one a row, nor one a block of " +
                             std::to_string(size.rows) + " x " + std::to_string(size.columns) +
                             " (weight_block_size)");
  return std::make_shared<Fp8Tensor>(std::move(codes), std::move(scales), size.rows, size.columns);
}

}  // namespace troupe
