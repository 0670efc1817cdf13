// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/loading_progress.hpp"

#include <chrono>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

using namespace troupe;
using namespace std::chrono_literals;

namespace {

// Told of a load in steps of one, each of which takes some time.
std::vector<std::uint64_t> told_of(std::uint64_t num_steps, std::chrono::milliseconds step) {
  const LoadingProgress::TimePoint begin;
  LoadingProgress progress(num_steps, begin);
  std::vector<std::uint64_t> told;
  for (std::uint64_t i = 1; i <= num_steps; ++i)
    if (const auto percent = progress.add(1, begin + i * step)) told.push_back(*percent);
  return told;
}

}  // namespace

TEST_CASE("loading progress: what is quick is not told of, nor the end") {
  CHECK(told_of(10, 190ms).empty());
  CHECK(told_of(1, 60s).empty());
  CHECK(told_of(2, 1s).empty());
}

TEST_CASE("loading progress: every two seconds it is told how much there is") {
  CHECK(told_of(100, 100ms) == std::vector<std::uint64_t>{20, 40, 60, 80});
  CHECK(told_of(3, 5s) == std::vector<std::uint64_t>{33, 66});
}
