// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/embed_positions.hpp"

#include <doctest/doctest.h>

#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

TEST_CASE("embed_positions: word, first type and position are added, in any type of table") {
  const std::vector<std::int32_t> ids = {3, 0, 9, 3, 3};
  const std::vector<std::uint32_t> positions = {0, 1, 2, 0, 6};
  for (const Isa isa : supported_isas()) {
    for (const std::size_t width : {1, 8, 19, 384}) {
      for (const bool is_short : {false, true}) {
        CAPTURE(name_of(isa));
        CAPTURE(width);
        auto words = random_values(10 * width, 1);
        auto places = random_values(7 * width, 2);
        const auto types = random_values(2 * width, 3);
        const auto short_words = to_bf16(words);
        if (is_short) words = to_f32(short_words);
        std::vector<float> x(ids.size() * width);
        const void* rows = is_short ? static_cast<const void*>(short_words.data()) : words.data();
        const EmbedPositionsArguments arguments{
            .words = {rows, is_short ? DataType::kBF16 : DataType::kF32, 10},
            .positions = {places.data(), DataType::kF32, 7},
            .types = {types.data(), DataType::kF32, 2},
            .token_ids = ids,
            .token_positions = positions,
            .x = x.data(),
            .width = width,
            .isa = isa};
        for (std::size_t task = 0; task < embed_positions_num_tasks(arguments); ++task)
          embed_positions_run_task(arguments, task);
        for (std::size_t token = 0; token < ids.size(); ++token) {
          for (std::size_t i = 0; i < width; ++i) {
            const float word = words[static_cast<std::size_t>(ids[token]) * width + i];
            REQUIRE(x[token * width + i] == (word + types[i]) + places[positions[token] * width + i]);
          }
        }
      }
    }
  }
}

TEST_CASE("embed_positions: a token outside the vocabulary has a position and nothing else") {
  const auto words = random_values(3 * 19, 1), places = random_values(2 * 19, 2);
  const std::vector<std::int32_t> ids = {-1, 3};
  const std::vector<std::uint32_t> positions = {0, 1};
  std::vector<float> x(2 * 19);
  const EmbedPositionsArguments arguments{.words = {words.data(), DataType::kF32, 3},
                                          .positions = {places.data(), DataType::kF32, 2},
                                          .token_ids = ids,
                                          .token_positions = positions,
                                          .x = x.data(),
                                          .width = 19};
  for (std::size_t task = 0; task < embed_positions_num_tasks(arguments); ++task)
    embed_positions_run_task(arguments, task);
  CHECK(x == places);
}

TEST_CASE("embed_positions: a token's type and the first position's row count, and types may be missing") {
  const std::size_t width = 19;
  const auto words = random_values(3 * width, 1), places = random_values(7 * width, 2),
             types = random_values(2 * width, 3);
  const std::vector<std::int32_t> ids = {2, 1, 0};
  const std::vector<std::uint32_t> positions = {0, 1, 4};
  const std::vector<std::uint8_t> of_types = {0, 1, 1};
  for (const Isa isa : supported_isas()) {
    for (const std::size_t num_types : {0, 1, 2}) {
      std::vector<float> x(ids.size() * width);
      const EmbedPositionsArguments arguments{.words = {words.data(), DataType::kF32, 3},
                                              .positions = {places.data(), DataType::kF32, 7},
                                              .types = {types.data(), DataType::kF32, num_types},
                                              .token_ids = ids,
                                              .token_positions = positions,
                                              .token_types = of_types,
                                              .first_position = 2,
                                              .x = x.data(),
                                              .width = width,
                                              .isa = isa};
      for (std::size_t task = 0; task < embed_positions_num_tasks(arguments); ++task)
        embed_positions_run_task(arguments, task);
      for (std::size_t token = 0; token < ids.size(); ++token) {
        for (std::size_t i = 0; i < width; ++i) {
          float expected = words[static_cast<std::size_t>(ids[token]) * width + i];
          if (num_types > 0) expected += types[(num_types == 2 ? of_types[token] : 0) * width + i];
          REQUIRE(x[token * width + i] == expected + places[(2 + positions[token]) * width + i]);
        }
      }
    }
  }
}

TEST_CASE("embed_positions: no tokens are no tasks") { CHECK(embed_positions_num_tasks({}) == 0); }
