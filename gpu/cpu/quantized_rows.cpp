// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/quantized_rows.hpp"

#include <stdexcept>
#include <string>
#include <vector>

#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/model/block_formats.hpp"

namespace troupe {

void quantize_row(BlockFormat format, std::span<const float> values, std::span<std::byte> bytes) {
  const auto& kernels = kernel_table(best_isa());
  std::vector<QuantizedBlock> blocks(values.size() / kBlockInputs);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (!kernels.quantize(format, values.data() + i * kBlockInputs, blocks[i]))
      throw std::range_error("has a value that is too large for blocks of " +
                             std::string(layout_of(format).name));
  }
  write_blocks(format, blocks, bytes);
}

}  // namespace troupe
