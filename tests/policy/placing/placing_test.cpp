// SPDX-License-Identifier: Apache-2.0
#include "policy/placing/placing.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace troupe {
namespace {

std::optional<std::size_t> choose(const std::vector<PlacingCandidate>& candidates) {
  return choose_worker(candidates);
}

TEST_CASE("placing: where most of the beginning is, else where there is most room") {
  CHECK(choose({}) == std::nullopt);
  CHECK(choose({{.known_tokens = 10, .num_running = 3}, {.known_tokens = 40, .num_running = 5}}) == 1);
  CHECK(choose({{.num_running = 3}, {.num_running = 2}}) == 1);
  CHECK(choose({{.num_running = 2, .num_free_pages = 5}, {.num_running = 2, .num_free_pages = 6}}) == 1);
  CHECK(choose({{.num_running = 2}, {.num_running = 2}}) == 0);
}

TEST_CASE("placing: requests with one beginning do not all go to the worker that had it first") {
  CHECK(choose({{.known_tokens = 9, .num_running = 1}, {}}) == 0);
  CHECK(choose({{.known_tokens = 9, .num_running = 2}, {}}) == 1);
  CHECK(choose({{.known_tokens = 9, .num_running = 11}, {.num_running = 5}}) == 0);
  CHECK(choose({{.known_tokens = 9, .num_running = 12}, {.num_running = 5}}) == 1);
  std::vector<PlacingCandidate> workers(2);
  for (int i = 0; i < 20; ++i) {
    auto& chosen = workers[*choose(workers)];
    chosen.known_tokens = 9;
    chosen.num_running += 1;
  }
  CHECK(workers[0].num_running == 10);
  CHECK(workers[1].num_running == 10);
}

}  // namespace
}  // namespace troupe
