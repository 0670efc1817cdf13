// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/embed.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

TEST_CASE("embed: copies rows of the table, zeros for an id outside of it") {
  const std::size_t width = 21, vocabulary = 30;
  const auto wide = random_values(vocabulary * width, 1);
  const auto narrow = to_bf16(wide);
  const auto rounded = to_f32(narrow);
  const std::vector<std::int32_t> ids{3, 29, 0, 3, -1, 30};
  for (const Isa isa : supported_isas()) {
    for (const bool is_bf16 : {false, true}) {
      std::vector<float> x(ids.size() * width, -1.0F);
      const EmbedArguments arguments{.table = is_bf16 ? static_cast<const void*>(narrow.data()) : wide.data(),
                                     .table_type = is_bf16 ? DataType::kBF16 : DataType::kF32,
                                     .table_stride = width,
                                     .vocabulary = vocabulary,
                                     .token_ids = ids,
                                     .x = x.data(),
                                     .x_stride = width,
                                     .width = width,
                                     .isa = isa};
      for (std::size_t task = 0; task < embed_num_tasks(arguments); ++task) embed_run_task(arguments, task);
      const auto& table = is_bf16 ? rounded : wide;
      for (std::size_t row = 0; row < 4; ++row) {
        CHECK(same_bits(&x[row * width], &table[static_cast<std::size_t>(ids[row]) * width], width));
      }
      for (std::size_t i = 4 * width; i < x.size(); ++i) CHECK(x[i] == 0.0F);
    }
  }
  CHECK(embed_num_tasks({}) == 0);
}

TEST_CASE("embed: a scale multiplies every element") {
  const auto table = random_values(3 * 21, 1);
  const std::vector<std::int32_t> ids{2, 0, -1};
  std::vector<float> x(ids.size() * 21, -1.0F);
  const EmbedArguments arguments{.table = table.data(),
                                 .table_stride = 21,
                                 .vocabulary = 3,
                                 .token_ids = ids,
                                 .x = x.data(),
                                 .x_stride = 21,
                                 .width = 21,
                                 .scale = 5.65625F};
  for (std::size_t task = 0; task < embed_num_tasks(arguments); ++task) embed_run_task(arguments, task);
  for (std::size_t i = 0; i < 21; ++i) {
    CHECK(x[i] == table[2 * 21 + i] * 5.65625F);
    CHECK(x[21 + i] == table[i] * 5.65625F);
    CHECK(x[2 * 21 + i] == 0.0F);
  }
}

TEST_CASE("embed: rows of a table that must be opened are asked for, and only those that are there") {
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
  for (std::size_t task = 0; task < embed_num_tasks(arguments); ++task) embed_run_task(arguments, task);
  CHECK(x == std::vector<float>{6, 6, 6, 6, 6, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2});
}
