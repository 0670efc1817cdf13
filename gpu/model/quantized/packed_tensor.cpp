// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/quantized/packed_tensor.hpp"

#include <algorithm>
#include <cmath>

namespace troupe {

bool PackedTensor::has_finite_rows() const {
  const std::vector<std::uint64_t> size = shape();
  std::vector<float> values(size.at(1));
  for (std::uint64_t row = 0; row < size.at(0); ++row) {
    open_row(row, values);
    if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }))
      return false;
  }
  return true;
}

}  // namespace troupe
