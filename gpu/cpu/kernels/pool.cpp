// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/pool.hpp"

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {

std::size_t pool_num_tasks(const PoolArguments& arguments) { return arguments.slices.size(); }

void pool_run_task(const PoolArguments& arguments, std::size_t task) {
  const BatchRows& slice = arguments.slices[task];
  const bool is_one = arguments.mode == PoolingMode::kCls || arguments.mode == PoolingMode::kLast;
  const std::size_t first =
      slice.first_token + (arguments.mode == PoolingMode::kLast ? slice.num_content() - 1 : 0);
  kernel_table(arguments.isa)
      .pool({
          .x = arguments.x + first * arguments.width,
          .x_stride = arguments.width,
          .num_rows = is_one ? 1 : slice.num_content(),
          .width = arguments.width,
          .takes_largest = arguments.mode == PoolingMode::kMax,
          .normalizes = arguments.normalizes,
          .vector = arguments.vectors + task * arguments.width,
      });
}

}  // namespace troupe
