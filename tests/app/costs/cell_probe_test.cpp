// SPDX-License-Identifier: Apache-2.0
#include "app/costs/cell_probe.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/random_cells.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;

namespace {

using Sizes = std::vector<std::uint32_t>;

Sizes sizes_of(const std::vector<CostSample>& samples) {
  Sizes sizes;
  for (const CostSample& sample : samples) {
    CHECK(sample.nanoseconds > 0);
    CHECK(sample.shape.num_tokens == sample.shape.num_sequences);
    CHECK(sample.shape.decode_keys == 0);
    sizes.push_back(sample.shape.num_tokens);
  }
  return sizes;
}

}  // namespace

TEST_CASE("cell probe: batches of powers of two are measured, cell by cell, however few words there are") {
  const test::TemporaryDirectory root;
  const Sizes all = {1, 2, 4, 8, 16};
  for (const char* kind : {"lstm", "seq2seq", "tree"}) {
    CAPTURE(kind);
    CellProbe probe(test::load_random_cells(root.path() / kind, kind, 2));
    const auto samples = probe.measure(1);
    REQUIRE(samples.size() == probe.description().cells.size());
    for (const auto& cell : samples) CHECK(sizes_of(cell) == all);
    const bool draws = samples.back().front().shape.num_output_rows == 1;
    CHECK(draws == (std::string(kind) != "tree"));
  }
}

TEST_CASE("cell probe: a decoder that attends has rows for what it reads, too") {
  const test::TemporaryDirectory root;
  const auto directory = root.path() / "model";
  std::filesystem::copy(TROUPE_SOURCE_DIR "/tests/fixtures/cells/lstm_attention_seq2seq", directory);
  std::filesystem::copy(TROUPE_SOURCE_DIR "/models/sentiment/tokenizer.json", directory / "tokenizer.json");
  CellProbe probe(load_model(test::options_of_cells(directory)));
  const auto samples = probe.measure(1);
  REQUIRE(samples.size() == 2);
  CHECK(sizes_of(samples[1]).size() >= 4);
}
