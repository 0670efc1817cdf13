// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/in_flight_depth.hpp"

#include <doctest/doctest.h>

using namespace troupe::cuda;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

TEST_CASE("in-flight depth: a step reads all weights and launches all kernels") {
  // Llama-3.1-8B on an H200, and a small model whose kernels take longer than its weights.
  CHECK(least_time(
            {.weight_bytes = 16'000'000'000, .bytes_per_second = 4'000'000'000'000, .num_kernels = 163}) ==
        microseconds(4000));
  CHECK(least_time({.weight_bytes = 4'000'000, .bytes_per_second = 4'000'000'000'000, .num_kernels = 100}) ==
        microseconds(200));
  CHECK(least_time({.weight_bytes = 16'000'000'000, .bytes_per_second = 0, .num_kernels = 10}) ==
        microseconds(20));
}

TEST_CASE(
    "in-flight depth: two batches where a step outlasts the host's turn, at most four where it does not") {
  CHECK(in_flight_depth(microseconds(4000)) == 2);
  CHECK(in_flight_depth(microseconds(200)) == 2);
  CHECK(in_flight_depth(microseconds(199)) == 3);
  CHECK(in_flight_depth(microseconds(100)) == 3);
  CHECK(in_flight_depth(microseconds(99)) == 4);
  CHECK(in_flight_depth(microseconds(1)) == 4);
  CHECK(in_flight_depth(nanoseconds(0)) == 4);
  std::uint32_t before = 4;
  for (nanoseconds step{1000}; step < microseconds(1000); step += nanoseconds(700)) {
    const std::uint32_t depth = in_flight_depth(step);
    CHECK(depth <= before);  // a longer step never wants more
    before = depth;
  }
}
