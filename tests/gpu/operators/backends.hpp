// SPDX-License-Identifier: Apache-2.0
// Runs the test of an operator on every backend: the CPU's kernels by instruction set, and
// the GPU's, in the interpreter under several orders of threads or on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/gpu/cuda/kernels/typed_buffer.hpp"

namespace troupe {

struct OperatorBackend {
  bool is_gpu = false;
  Isa isa = Isa::kPortable;        // of a CPU
  DataType type = DataType::kF32;  // of what is f32 or of the compute type
};

inline std::ostream& operator<<(std::ostream& out, const OperatorBackend& backend) {
  return out << (backend.is_gpu ? "cuda" : name_of(backend.isa)) << ' ' << name_of(backend.type);
}

// body(const OperatorBackend&), for each backend and each type that it has.
template <typename Body>
void on_every_backend(Body body) {
  const auto run = [&](const OperatorBackend& backend) {
    CAPTURE(backend);
    body(backend);
  };
  for (const Isa isa : supported_isas())
    for (const DataType type : {DataType::kF32, DataType::kBF16}) run({.isa = isa, .type = type});
  in_several_orders([&] {
    for (const DataType type : kElementTypes) run({.is_gpu = true, .type = type});
  });
}

template <typename Arguments>
void run_tasks(const Arguments& arguments, std::size_t num_tasks,
               void (*run_task)(const Arguments&, std::size_t)) {
  for (std::size_t task = num_tasks; task-- > 0;) run_task(arguments, task);
}

// As TypedBuffer, in the CPU's memory.
class CpuBuffer {
 public:
  CpuBuffer(DataType type, std::vector<float> values)
      : type_(type),
        wide_(std::move(values)),
        narrow_(type == DataType::kF32 ? Bits{} : narrowed(type, wide_)) {}

  void* data() {
    return type_ == DataType::kF32 ? static_cast<void*>(wide_.data()) : static_cast<void*>(narrow_.data());
  }
  std::vector<float> values() const { return type_ == DataType::kF32 ? wide_ : widened(type_, narrow_); }

 private:
  using Bits = std::vector<std::uint16_t>;

  DataType type_;
  std::vector<float> wide_;
  Bits narrow_;
};

// Rows [first, first + count) of a matrix.
inline std::vector<float> rows_of(const std::vector<float>& matrix, std::size_t width, std::size_t first,
                                  std::size_t count = 1) {
  const auto begin = matrix.begin() + static_cast<std::ptrdiff_t>(first * width);
  return {begin, begin + static_cast<std::ptrdiff_t>(count * width)};
}

inline constexpr float kUntouched = 7.0F;  // lies between rows that are apart

// The rows further apart than they are wide.
inline std::vector<float> spread_rows(const std::vector<float>& rows, std::size_t width, std::size_t stride) {
  std::vector<float> spread(rows.size() / width * stride, kUntouched);
  for (std::size_t i = 0; i < rows.size(); ++i) spread[i / width * stride + i % width] = rows[i];
  return spread;
}

// The rows side by side again; REQUIREs that nothing was written between them.
inline std::vector<float> gathered_rows(const std::vector<float>& spread, std::size_t width,
                                        std::size_t stride) {
  std::vector<float> rows;
  for (std::size_t i = 0; i < spread.size(); ++i) {
    if (i % stride < width) {
      rows.push_back(spread[i]);
    } else {
      REQUIRE(spread[i] == kUntouched);
    }
  }
  return rows;
}

}  // namespace troupe
