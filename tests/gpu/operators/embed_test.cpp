// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/embed.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "gpu/cpu/kernels/embed.hpp"
#include "gpu/cuda/kernels/embed.hpp"
#include "tests/gpu/operators/backends.hpp"

using namespace troupe;

namespace embed_test {
namespace {

constexpr std::size_t kVocabulary = 30;

struct Input {
  std::size_t width;
  std::vector<float> table;  // as the backend's type can hold it
  std::vector<std::int32_t> token_ids = {3, 29, 0, 3, -1, 30};
  float scale = 1.0F;
  std::size_t extra_stride = 0, offset = 0;  // of a GPU's memory

  Input(const OperatorBackend& backend, std::size_t width)
      : width(width), table(as_stored(backend.type, random_values(kVocabulary * width, 1))) {}
};

std::vector<float> on_cpu(const OperatorBackend& backend, const Input& input) {
  CpuBuffer table(backend.type, input.table);
  std::vector<float> x(input.token_ids.size() * input.width, -1.0F);
  const EmbedArguments arguments{.table = table.data(),
                                 .table_type = backend.type,
                                 .table_stride = input.width,
                                 .vocabulary = kVocabulary,
                                 .token_ids = input.token_ids,
                                 .x = x.data(),
                                 .x_stride = input.width,
                                 .width = input.width,
                                 .scale = input.scale,
                                 .isa = backend.isa};
  run_tasks(arguments, embed_num_tasks(arguments), embed_run_task);
  return x;
}

// Every second token comes from a slot.
std::vector<float> on_gpu(const OperatorBackend& backend, const Input& input) {
  const std::size_t stride = input.width + input.extra_stride, count = input.token_ids.size();
  std::vector<std::uint32_t> slots(count, cuda::kNoSlot);
  std::vector<std::int32_t> tokens_of_slots(count), token_ids = input.token_ids;
  for (std::size_t i = 1; i < count; i += 2) {
    slots[i] = static_cast<std::uint32_t>(count - i);
    tokens_of_slots[count - i] = std::exchange(token_ids[i], 7);
  }
  TypedBuffer table(backend.type, spread_rows(input.table, input.width, stride), input.offset);
  DeviceArray<float> x(std::vector<float>(count * stride, kUntouched), input.offset);
  DeviceArray<std::int32_t> ids(token_ids), of_slots(tokens_of_slots);
  DeviceArray<std::uint32_t> device_slots(slots);
  cuda::launch_embed({.table = table.data(),
                      .table_stride = stride,
                      .type = backend.type,
                      .vocabulary = kVocabulary,
                      .token_ids = ids.data(),
                      .slots = device_slots.data(),
                      .tokens_of_slots = of_slots.data(),
                      .x = x.data(),
                      .x_stride = stride,
                      .num_rows = static_cast<std::uint32_t>(count),
                      .width = static_cast<std::uint32_t>(input.width)},
                     nullptr);
  return gathered_rows(x.values(), input.width, stride);
}

void check(const OperatorBackend& backend, const Input& input) {
  CAPTURE(input.width);
  std::vector<float> expected;
  for (const std::int32_t id : input.token_ids) {
    const bool is_word = id >= 0 && id < static_cast<std::int32_t>(kVocabulary);
    for (std::size_t i = 0; i < input.width; ++i)
      expected.push_back(is_word ? input.table[static_cast<std::size_t>(id) * input.width + i] * input.scale
                                 : 0.0F);
  }
  CHECK((backend.is_gpu ? on_gpu(backend, input) : on_cpu(backend, input)) == expected);
}

}  // namespace

TEST_CASE("embed: rows of the table, zeros for an id outside of it; no tokens are no work") {
  on_every_backend([](const OperatorBackend& backend) {
    for (const std::size_t width : {1, 8, 21, 64}) {
      Input input(backend, width);
      check(backend, input);
      input.token_ids.clear();
      check(backend, input);
    }
  });
}

TEST_CASE("embed: a scale multiplies every element, which no program for a GPU has") {
  on_every_backend([](const OperatorBackend& backend) {
    if (backend.is_gpu) return;
    Input input(backend, 21);
    input.scale = 5.65625F;
    check(backend, input);
  });
}

TEST_CASE("embed: on a GPU rows may lie apart and begin anywhere") {
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

TEST_CASE(
    "embed: on CPU cores rows of a table that must be opened are asked for, and only those that are there") {
  const std::vector<std::int32_t> ids{2, 3, 0};
  std::vector<float> x(ids.size() * 5, -1.0F);
  const EmbedArguments arguments{
      .open_row = [](std::size_t row,
                     float* values) { std::fill_n(values, 5, 1.0F + static_cast<float>(row)); },
      .vocabulary = 3,
      .token_ids = ids,
      .x = x.data(),
      .x_stride = 5,
      .width = 5,
      .scale = 2.0F};
  run_tasks(arguments, embed_num_tasks(arguments), embed_run_task);
  CHECK(x == std::vector<float>{6, 6, 6, 6, 6, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2});
}

}  // namespace embed_test
