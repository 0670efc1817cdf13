// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/gather_rows.hpp"

#include <doctest/doctest.h>

#include "gpu/cpu/kernels/gather_rows.hpp"
#include "gpu/cuda/kernels/rows/gather_rows.hpp"
#include "tests/gpu/operators/backends.hpp"

using namespace troupe;

namespace gather_rows_test {
namespace {

struct Input {
  std::size_t width;
  std::vector<float> x, residual;
  bool has_residual = true;
  std::vector<std::uint32_t> rows = {38, 0, 17, 39, 1};
  std::size_t extra_stride = 0, offset = 0;  // of a GPU's memory

  Input(const OperatorBackend& backend, std::size_t width)
      : width(width),
        x(random_values(40 * width, 1)),
        residual(as_stored(backend.is_gpu ? backend.type : DataType::kF32, random_values(40 * width, 2))) {}
};

std::vector<float> on_cpu(const OperatorBackend& backend, const Input& input) {
  std::vector<float> gathered(input.rows.size() * input.width);
  const GatherRowsArguments arguments{.x = input.x.data(),
                                      .x_stride = input.width,
                                      .residual = input.has_residual ? input.residual.data() : nullptr,
                                      .residual_stride = input.width,
                                      .rows = input.rows,
                                      .gathered = gathered.data(),
                                      .gathered_stride = input.width,
                                      .width = input.width,
                                      .isa = backend.isa};
  run_tasks(arguments, gather_rows_num_tasks(arguments), gather_rows_run_task);
  return gathered;
}

std::vector<float> on_gpu(const OperatorBackend& backend, const Input& input) {
  const std::size_t stride = input.width + input.extra_stride;
  DeviceArray<float> x(spread_rows(input.x, input.width, stride), input.offset),
      gathered(std::vector<float>(input.rows.size() * stride, kUntouched), input.offset);
  TypedBuffer residual(backend.type, spread_rows(input.residual, input.width, stride), input.offset);
  DeviceArray<std::uint32_t> rows(input.rows);
  cuda::launch_gather_rows({.x = x.data(),
                            .x_stride = stride,
                            .residual = input.has_residual ? residual.data() : nullptr,
                            .residual_stride = stride,
                            .type = backend.type,
                            .rows = rows.data(),
                            .gathered = gathered.data(),
                            .gathered_stride = stride,
                            .num_rows = static_cast<std::uint32_t>(input.rows.size()),
                            .width = static_cast<std::uint32_t>(input.width)},
                           nullptr);
  return gathered_rows(gathered.values(), input.width, stride);
}

void check(const OperatorBackend& backend, const Input& input) {
  CAPTURE(input.width);
  std::vector<float> expected;
  for (const std::uint32_t row : input.rows) {
    for (std::size_t i = row * input.width; i < (row + 1) * input.width; ++i)
      expected.push_back(input.has_residual ? input.x[i] + input.residual[i] : input.x[i]);
  }
  CHECK((backend.is_gpu ? on_gpu(backend, input) : on_cpu(backend, input)) == expected);
}

}  // namespace

TEST_CASE("gather_rows: the sampled rows, with or without the residual, to the bit; none are no work") {
  on_every_backend([](const OperatorBackend& backend) {
    for (const std::size_t width : {1, 8, 37, 64}) {
      Input input(backend, width);
      check(backend, input);
      input.has_residual = false;
      check(backend, input);
      input.rows.clear();
      check(backend, input);
    }
  });
}

TEST_CASE("gather_rows: on a GPU rows may lie apart and begin anywhere") {
  for (const DataType type : kElementTypes) {
    const OperatorBackend gpu{.is_gpu = true, .type = type};
    for (const std::size_t extra_stride : {0, 2, 8}) {
      Input input(gpu, 64);
      input.extra_stride = extra_stride;
      input.offset = extra_stride == 8 ? 0 : 1;
      check(gpu, input);
    }
  }
}

}  // namespace gather_rows_test
