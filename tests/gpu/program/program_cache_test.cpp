// SPDX-License-Identifier: Apache-2.0
#include "gpu/program/program_cache.hpp"

#include <stdexcept>

#include <doctest/doctest.h>

#include "gpu/model/random_model.hpp"

namespace troupe {
namespace {

ProgramCache make_cache(ProgramShape largest) {
  return {make_network(llama_100m()), DataType::kF32, largest};
}

}  // namespace

TEST_CASE("program cache: bins hold their counts and waste less than an eighth") {
  for (std::uint32_t count = 1; count <= 5000; ++count) {
    const std::uint32_t bin = token_bin(count, 1U << 20);
    CHECK(bin >= count);
    CHECK(bin - count <= count / 8);
    CHECK(token_bin(bin, 1U << 20) == bin);
  }
}

TEST_CASE("program cache: no bin is larger than the largest shape") {
  CHECK(token_bin(1001, 1001) == 1001);
  CHECK(token_bin(0, 100) == 1);
  CHECK(output_row_bin(0, 48) == 0);
  CHECK(output_row_bin(3, 48) == 4);
  CHECK(output_row_bin(33, 48) == 48);
}

TEST_CASE("program cache: batches of one bin share a program") {
  auto cache = make_cache({512, 64});
  const auto program = cache.find(0, 97, 5);
  CHECK(program->shape == ProgramShape{104, 8});
  CHECK(cache.find(0, 104, 8) == program);
  CHECK(cache.find(0, 105, 8) != program);
  CHECK(cache.size() == 2);
}

TEST_CASE("program cache: with more slots than tokens a program has as many output rows as tokens") {
  auto cache = make_cache({100, 2048});
  CHECK(cache.find(0, 80, 80)->shape == ProgramShape{80, 100});
  CHECK_THROWS_AS(cache.find(0, 100, 101), std::runtime_error);
}

TEST_CASE("program cache: a batch that is too large is refused with the numbers") {
  auto cache = make_cache({512, 64});
  CHECK_THROWS_WITH_AS(cache.find(0, 513, 1), doctest::Contains("513 tokens"), std::runtime_error);
  CHECK_THROWS_AS(cache.find(0, 1, 65), std::runtime_error);
  CHECK_THROWS_WITH_AS(cache.find(1, 1, 1), doctest::Contains("no cell 1"), std::runtime_error);
}

TEST_CASE("program cache: it stays bounded and drops what was used least recently") {
  ModelConfig config = llama_100m();
  config.num_layers = 1;
  ProgramCache cache(make_network(config), DataType::kF32, {4096, 4096});
  const auto first = cache.find(0, 1, 1);
  for (std::uint32_t tokens = 1; tokens <= 16; ++tokens) {
    for (std::uint32_t bit = 0; bit <= 12; ++bit) {
      cache.find(0, tokens, 1U << bit);
      cache.find(0, 100 * tokens, 1U << bit);
      CHECK(cache.find(0, 1, 1) == first);
    }
  }
  CHECK(cache.size() == ProgramCache::kCapacity);
}

}  // namespace troupe
