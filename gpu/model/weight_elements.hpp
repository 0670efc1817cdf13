// SPDX-License-Identifier: Apache-2.0
// The elements of a tensor as devices read them: aligned, of one plain type, rows
// in the network's order. They are the file's own bytes where those are all that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/data_type.hpp"
#include "gpu/model/weights.hpp"

namespace troupe {

class WeightElements {
 public:
  // The bytes of the view stay. Copies and opens blocks now, if there is need to,
  // in tasks of many rows.
  explicit WeightElements(const WeightView& view, const RunTasks& run_tasks = run_in_turn);

  // Bytes that the constructor takes; 0 for elements that are the file's own bytes.
  static std::size_t copied_bytes(const WeightView& view);

  DataType type() const { return view_.type; }
  const std::byte* data() const { return copy_.empty() ? view_.bytes.data() : copy_.data(); }
  std::size_t num_elements() const { return num_rows_ * row_elements_; }
  std::size_t size_bytes() const { return num_elements() * size_of(type()); }

 private:
  void copy_row(std::size_t row);
  void copy_column(std::size_t row, std::size_t column);  // of the file, which is a row here

  WeightView view_;
  std::size_t num_rows_ = 1;
  std::size_t row_elements_ = 1;
  std::vector<std::byte> copy_;
};

// A row of a matrix in the network's order, in f32. values: [columns].
void open_row(const WeightView& view, std::size_t row, std::span<float> values);
// The file's bytes of that row, unless its elements lie apart: of a transposed matrix, of one whose scales
// are elsewhere, of codes. Then nothing.
std::span<const std::byte> bytes_of_row(const WeightView& view, std::size_t row);

}  // namespace troupe
