// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/cells/gather_state.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "gpu/cuda/kernels/cells/gather_state.hpp"
#include "gpu/cuda/kernels/cells/keep_state.hpp"
#include "gpu/operators/cells/keep_state.hpp"
#include "tests/gpu/operators/state_pool.hpp"

using namespace troupe;

namespace {

constexpr double kAllowed = 2e-6;

struct Gathering {
  std::size_t first_input = 0, num_inputs = 1;
  bool sums = false;
};

// Floats [width, 2 width) of what nodes read.
std::vector<float> gather(const OperatorBackend& backend, const Gathering& how, std::size_t width,
                          StatePool& pool) {
  std::vector<float> gathered(pool.nodes.size() * how.num_inputs * width, kUntouched);
  if (!backend.is_gpu) {
    const GatherStateArguments arguments{.state = pool.rows(),
                                         .offset = width,
                                         .width = width,
                                         .first_input = how.first_input,
                                         .num_inputs = how.num_inputs,
                                         .sums = how.sums,
                                         .gathered = gathered.data(),
                                         .isa = backend.isa};
    run_tasks(arguments, gather_state_num_tasks(arguments), gather_state_run_task);
    return gathered;
  }
  TypedBuffer memory(backend.type, gathered);
  pool.on_gpu([&](const cuda::StateRows& state) {
    cuda::launch_gather_state({.state = state,
                               .offset = width,
                               .width = static_cast<std::uint32_t>(width),
                               .first_input = static_cast<std::uint32_t>(how.first_input),
                               .num_inputs = static_cast<std::uint32_t>(how.num_inputs),
                               .sums = how.sums,
                               .gathered = memory.data(),
                               .type = backend.type},
                              nullptr);
  });
  return memory.values();
}

// Floats [2 width, 3 width) of the nodes' rows become x.
void keep(const OperatorBackend& backend, const std::vector<float>& x, std::size_t width, StatePool& pool) {
  if (!backend.is_gpu) {
    const KeepStateArguments arguments{
        .state = pool.rows(), .offset = 2 * width, .width = width, .x = x.data()};
    return run_tasks(arguments, keep_state_num_tasks(arguments), keep_state_run_task);
  }
  DeviceArray<float> memory(x);
  pool.on_gpu([&](const cuda::StateRows& state) {
    cuda::launch_keep_state(
        {.state = state, .offset = 2 * width, .x = memory.data(), .width = static_cast<std::uint32_t>(width)},
        nullptr);
  });
}

}  // namespace

TEST_CASE("gather state: inputs side by side or summed, zeros where there is none") {
  on_every_backend_and_width([](const OperatorBackend& backend, std::size_t width) {
    StatePool pool(width);
    const auto stored = [&](double value) {
      const auto number = static_cast<float>(value);
      return backend.is_gpu ? as_stored(backend.type, {number}).front() : number;
    };
    for (const std::size_t first : {0U, 1U}) {
      const auto beside = gather(backend, {.first_input = first, .num_inputs = 2}, width, pool);
      for (std::size_t node = 0; node < kNodes; ++node)
        for (std::size_t k = 0; k < 2; ++k)
          for (std::size_t i = 0; i < width; ++i)
            REQUIRE(beside[(node * 2 + k) * width + i] == stored(pool.before(node, first + k, width + i)));
    }
    const auto sums = gather(backend, {.sums = true}, width, pool);
    for (std::size_t node = 0; node < kNodes; ++node)
      for (std::size_t i = 0; i < width; ++i) {
        double sum = 0;
        for (std::size_t k = 0; k < pool.nodes[node].num_inputs; ++k) sum += pool.before(node, k, width + i);
        const double rounding = backend.is_gpu ? rounding_of(backend.type) * std::abs(sum) : 0;
        REQUIRE(std::abs(sums[node * width + i] - sum) < kAllowed + rounding);
      }
    CHECK(pool.values == pool.original);
  });
}

TEST_CASE("keep state: a part of the node's row") {
  on_every_backend_and_width([](const OperatorBackend& backend, std::size_t width) {
    if (backend.type != DataType::kF32) return;
    StatePool pool(width);
    const auto x = random_values(kNodes * width, 4);
    keep(backend, x, width, pool);
    for (std::size_t node = 0; node < kNodes; ++node)
      for (std::size_t i = 0; i < width; ++i) {
        REQUIRE(pool.after(node, 2 * width + i) == x[node * width + i]);
        for (const std::size_t part : {0U, 1U})
          REQUIRE(pool.after(node, part * width + i) ==
                  pool.original[pool.nodes[node].row * pool.width + part * width + i]);
      }
  });
}
