// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/matmul/matmul.hpp"

#include <algorithm>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {
namespace {

// How the output is cut into tasks: a grid of panel groups and row groups.
struct Cut {
  std::size_t panels = 1;  // of one task
  std::size_t rows = 1;
  std::size_t num_panel_groups = 0;
  std::size_t num_row_groups = 0;
};

constexpr std::size_t kMaxPanels = 8;        // one K chunk of so many stays in the L2 cache
constexpr std::size_t kRowsOfTask = 9 * 14;  // whole register tiles
constexpr std::size_t kStreamPanels = 4;     // read side by side when there is one row
constexpr std::size_t kSmallTaskBytes = std::size_t{256} << 10;

std::size_t divide_up(std::size_t value, std::size_t by) { return (value + by - 1) / by; }

std::size_t num_outputs_of(const MatmulArguments& arguments) {
  return arguments.num_outputs == 0 ? arguments.weight->num_outputs() : arguments.num_outputs;
}

std::size_t num_panels_of(const MatmulArguments& arguments) {
  return divide_up(num_outputs_of(arguments), PackedMatrix::kPanelWidth);
}

// Few rows: the weight is the work. As many tasks as threads when it is small,
// more when it is large, so that a disturbed thread can be helped.
std::size_t streaming_panels(const MatmulArguments& arguments) {
  const std::size_t num_panels = num_panels_of(arguments);
  const std::size_t panel_bytes = arguments.weight->size_bytes() / arguments.weight->num_panels();
  const std::size_t by_size = num_panels * panel_bytes / kSmallTaskBytes;
  const std::size_t num_tasks =
      arguments.num_threads <= 1 ? 1 : std::clamp(by_size, arguments.num_threads, 4 * arguments.num_threads);
  return divide_up(divide_up(num_panels, num_tasks), kStreamPanels) * kStreamPanels;
}

Cut cut_of(const MatmulArguments& arguments) {
  Cut cut;
  const std::size_t num_panels = num_panels_of(arguments);
  if (arguments.num_rows == 0 || num_panels == 0) return cut;
  cut.rows = std::min(arguments.num_rows, kRowsOfTask);
  if (arguments.num_rows <= 32) {
    cut.panels = streaming_panels(arguments);
  } else {
    const std::size_t wanted = divide_up(num_panels, 4 * std::max<std::size_t>(1, arguments.num_threads));
    cut.panels = std::clamp<std::size_t>(wanted, 1, kMaxPanels);
  }
  cut.num_panel_groups = divide_up(num_panels, cut.panels);
  cut.num_row_groups = divide_up(arguments.num_rows, cut.rows);
  return cut;
}

}  // namespace

std::size_t matmul_num_tasks(const MatmulArguments& arguments) {
  const Cut cut = cut_of(arguments);
  return cut.num_panel_groups * cut.num_row_groups;
}

void matmul_run_task(const MatmulArguments& arguments, std::size_t task) {
  const auto& weight = *arguments.weight;
  const Cut cut = cut_of(arguments);
  const std::size_t first_panel = task / cut.num_row_groups * cut.panels;
  const std::size_t first_row = task % cut.num_row_groups * cut.rows;
  const std::size_t first_column = first_panel * PackedMatrix::kPanelWidth;
  const std::size_t num_panels = std::min(cut.panels, num_panels_of(arguments) - first_panel);
  kernel_table(arguments.isa)
      .multiply({
          .panels = weight.panel(arguments.first_output / PackedMatrix::kPanelWidth + first_panel),
          .num_panels = num_panels,
          .num_inputs = weight.num_inputs(),
          .num_columns =
              std::min(num_panels * PackedMatrix::kPanelWidth, num_outputs_of(arguments) - first_column),
          .format = weight.format(),
          .a = static_cast<const std::byte*>(arguments.a) +
               first_row * arguments.a_stride * size_of(arguments.a_type),
          .a_type = arguments.a_type,
          .a_stride = arguments.a_stride,
          .q8_rows =
              arguments.q8_rows.numbers == nullptr ? Q8Rows{} : rows_from(arguments.q8_rows, first_row),
          .bias = arguments.bias == nullptr ? nullptr : arguments.bias + first_column,
          .c = arguments.c + first_row * arguments.c_stride + first_column,
          .c_stride = arguments.c_stride,
          .num_rows = std::min(cut.rows, arguments.num_rows - first_row),
      });
}

}  // namespace troupe
