// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/weight_elements.hpp"

#include <algorithm>
#include <cstring>

namespace troupe {
namespace {

constexpr std::size_t kElementsATask = std::size_t{1} << 18;

}  // namespace

WeightElements::WeightElements(const WeightView& view, const RunTasks& run_tasks) : view_(view) {
  for (std::size_t i = 0; i < view.shape.size(); ++i) {
    // A vector in another order is a row an element.
    const bool is_reordered =
        view.paired_rows != 0 || view.alternates || view.order == FileOrder::kHeadByHead;
    const bool is_row = i + 1 < view.shape.size() || (view.shape.size() == 1 && is_reordered);
    (is_row ? num_rows_ : row_elements_) *= view.shape[i];
  }
  copy_.resize(copied_bytes(view));
  if (copy_.empty()) return;
  const std::size_t rows_a_task = std::max<std::size_t>(1, kElementsATask / row_elements_);
  run_tasks((num_rows_ + rows_a_task - 1) / rows_a_task, [&](std::size_t task) {
    const std::size_t end = std::min(num_rows_, (task + 1) * rows_a_task);
    for (std::size_t row = task * rows_a_task; row < end; ++row) copy_row(row);
  });
}

// A safetensors header of odd length leaves its data misaligned; kernels read elements.
std::size_t WeightElements::copied_bytes(const WeightView& view) {
  const auto address = reinterpret_cast<std::uintptr_t>(view.bytes.data());
  const bool is_as_in_file = !view.blocks && !view.packed && view.paired_rows == 0 && !view.alternates &&
                             view.order == FileOrder::kAsRead && address % size_of(view.type) == 0;
  if (is_as_in_file) return 0;
  std::size_t num_elements = 1;
  for (const std::uint64_t size : view.shape) num_elements *= size;
  return num_elements * size_of(view.type);
}

void WeightElements::copy_column(std::size_t row, std::size_t column) {
  const std::size_t element = size_of(type());
  for (std::size_t i = 0; i < row_elements_; ++i) {
    std::memcpy(copy_.data() + (row * row_elements_ + i) * element,
                view_.bytes.data() + (i * num_rows_ + column) * element, element);
  }
}

void WeightElements::copy_row(std::size_t row) {
  const std::size_t row_in_file = view_.row_in_file(row);
  if (view_.order == FileOrder::kTransposed) return copy_column(row, row_in_file);
  if (view_.packed) {
    auto* target = reinterpret_cast<float*>(copy_.data()) + row * row_elements_;
    return view_.packed->open_row(row_in_file, {target, row_elements_});
  }
  const std::size_t row_bytes = view_.bytes.size() / num_rows_;
  const auto source = view_.bytes.subspan(row_in_file * row_bytes, row_bytes);
  std::byte* target = copy_.data() + row * row_elements_ * size_of(view_.type);
  if (!view_.scales.empty()) {
    const std::size_t num_blocks = view_.scales.size() / num_rows_;
    dequantize_mxfp4(source, view_.scales.subspan(row_in_file * num_blocks, num_blocks),
                     {reinterpret_cast<float*>(target), row_elements_});
  } else if (view_.blocks) {
    dequantize(*view_.blocks, source, {reinterpret_cast<float*>(target), row_elements_});
  } else {
    std::memcpy(target, source.data(), row_bytes);
  }
}

void open_row(const WeightView& view, std::size_t row, std::span<float> values) {
  const std::size_t num_rows = view.shape.front(), in_file = view.row_in_file(row);
  if (view.packed) return view.packed->open_row(in_file, values);
  const BlockFormat format = view.blocks.value_or(format_of(view.type));
  if (view.order == FileOrder::kTransposed) {
    const std::size_t element = size_of(view.type);
    for (std::size_t i = 0; i < values.size(); ++i)
      dequantize(format, view.bytes.subspan((i * num_rows + in_file) * element, element),
                 values.subspan(i, 1));
    return;
  }
  const std::size_t row_bytes = view.bytes.size() / num_rows;
  const auto source = view.bytes.subspan(in_file * row_bytes, row_bytes);
  if (view.scales.empty()) return dequantize(format, source, values);
  const std::size_t num_blocks = view.scales.size() / num_rows;
  dequantize_mxfp4(source, view.scales.subspan(in_file * num_blocks, num_blocks), values);
}

std::span<const std::byte> bytes_of_row(const WeightView& view, std::size_t row) {
  if (view.packed || !view.scales.empty() || view.order == FileOrder::kTransposed) return {};
  const std::size_t row_bytes = view.bytes.size() / view.shape.front();
  return view.bytes.subspan(view.row_in_file(row) * row_bytes, row_bytes);
}

}  // namespace troupe
