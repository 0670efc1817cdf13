// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/cells/attend_states.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "gpu/cpu/kernels/cells/recurrent_cells.hpp"
#include "gpu/cuda/kernels/cells/state_attention.hpp"
#include "gpu/operators/cells/additive_attention.hpp"
#include "tests/gpu/operators/state_pool.hpp"

using namespace troupe;

namespace {

constexpr double kAllowed = 2e-5;

// Attention, whose keys are floats [key_offset, key_offset + width) of the rows that a node reads behind
// the first, and its values floats [width, 2 width). Additive scores have a weight.
struct AttentionInput {
  std::size_t width = 0;
  std::size_t key_offset = 0;
  std::vector<float> query;
  std::vector<float> score_weight = {};
  std::vector<float> beside;  // h behind the context, or x in front of it
  std::size_t beside_width = 0;

  bool is_additive() const { return !score_weight.empty(); }
  std::size_t row_width() const { return width + beside_width; }
};

std::vector<float> attention_on_gpu(const AttentionInput& input, StatePool& pool) {
  DeviceArray<float> query(input.query), weight(input.score_weight), beside(input.beside),
      both(std::vector<float>(pool.nodes.size() * input.row_width(), kUntouched));
  pool.on_gpu([&](const cuda::StateRows& state) {
    cuda::launch_state_attention({.state = state,
                                  .key_offset = input.key_offset,
                                  .value_offset = input.width,
                                  .query = query.data(),
                                  .score_weight = input.is_additive() ? weight.data() : nullptr,
                                  .beside = beside.data(),
                                  .beside_width = static_cast<std::uint32_t>(input.beside_width),
                                  .is_context_first = !input.is_additive(),
                                  .both = both.data(),
                                  .width = static_cast<std::uint32_t>(input.width)},
                                 nullptr);
  });
  return both.values();
}

std::vector<float> attention_on_cpu(const AttentionInput& input, Isa isa, StatePool& pool) {
  std::vector<float> both(pool.nodes.size() * input.row_width());
  if (input.is_additive()) {
    const AdditiveAttentionArguments arguments{.state = pool.rows(),
                                               .key_offset = input.key_offset,
                                               .value_offset = input.width,
                                               .query = input.query.data(),
                                               .weight = input.score_weight.data(),
                                               .x = input.beside.data(),
                                               .x_width = input.beside_width,
                                               .x_and_context = both.data(),
                                               .width = input.width,
                                               .isa = isa};
    run_tasks(arguments, additive_attention_num_tasks(arguments), additive_attention_run_task);
  } else {
    const AttendStatesArguments arguments{.state = pool.rows(),
                                          .key_offset = input.key_offset,
                                          .value_offset = input.width,
                                          .query = input.query.data(),
                                          .h = input.beside.data(),
                                          .context = both.data(),
                                          .width = input.width,
                                          .isa = isa};
    run_tasks(arguments, attend_states_num_tasks(arguments), attend_states_run_task);
  }
  return both;
}

std::vector<float> run_attention(const OperatorBackend& backend, const AttentionInput& input,
                                 StatePool& pool) {
  return backend.is_gpu ? attention_on_gpu(input, pool) : attention_on_cpu(input, backend.isa, pool);
}

AttentionInput dot_input(std::size_t width, std::size_t num_nodes) {
  return {.width = width,
          .key_offset = 0,
          .query = random_values(num_nodes * width, 1),
          .beside = random_values(num_nodes * width, 2),
          .beside_width = width};
}
AttentionInput additive_input(std::size_t width, std::size_t num_nodes) {
  return {.width = width,
          .key_offset = 2 * width,
          .query = random_values(num_nodes * width, 1),
          .score_weight = random_values(width, 3),
          .beside = random_values(num_nodes * 3, 2),
          .beside_width = 3};
}

// The node's context and what lies beside it, of the row that was given, are those of f64.
void check_attended(const AttentionInput& input, const StatePool& pool, std::size_t node,
                    const float* given) {
  const std::size_t width = input.width;
  std::vector<double> shares;
  double sum = 0;
  for (std::size_t k = 1; k < pool.nodes[node].num_inputs; ++k) {
    double score = 0;
    for (std::size_t i = 0; i < width; ++i) {
      const double query = input.query[node * width + i], key = pool.before(node, k, input.key_offset + i);
      score += input.is_additive() ? input.score_weight[i] * std::tanh(query + key) : query * key;
    }
    shares.push_back(std::exp(score));
    sum += shares.back();
  }
  const float* context = input.is_additive() ? given + input.beside_width : given;
  const float* beside = input.is_additive() ? given : given + width;
  for (std::size_t i = 0; i < width; ++i) {
    double expected = 0;
    for (std::size_t k = 0; k < shares.size(); ++k)
      expected += shares[k] / sum * pool.before(node, k + 1, width + i);
    REQUIRE(std::abs(context[i] - expected) < kAllowed);
  }
  for (std::size_t i = 0; i < input.beside_width; ++i)
    REQUIRE(beside[i] == input.beside[node * input.beside_width + i]);
}

}  // namespace

TEST_CASE("attention to states: softmax over all inputs but the first, what lies beside is copied") {
  on_every_backend_and_width([](const OperatorBackend& backend, std::size_t width) {
    if (backend.type != DataType::kF32) return;
    for (const AttentionInput& input : {dot_input(width, kNodes), additive_input(width, kNodes)}) {
      CAPTURE(input.is_additive());
      StatePool pool(width);
      const auto both = run_attention(backend, input, pool);
      for (std::size_t node = 0; node < kNodes; ++node)
        check_attended(input, pool, node, both.data() + node * input.row_width());
      CHECK(pool.values == pool.original);
    }
  });
}

TEST_CASE("attention to states: any number of them, of any width, and the same bits alone") {
  const std::vector<std::uint32_t> num_inputs = {33, 0, 34, 1, 100, 2};
  on_every_backend([&](const OperatorBackend& backend) {
    if (backend.type != DataType::kF32) return;
    for (const std::size_t width : {12, 300, 1030}) {
      CAPTURE(width);
      const std::size_t num_nodes = num_inputs.size();
      for (const AttentionInput& input : {dot_input(width, num_nodes), additive_input(width, num_nodes)}) {
        CAPTURE(input.is_additive());
        StatePool pool = StatePool::of_readers(width, num_inputs);
        const auto both = run_attention(backend, input, pool);
        for (std::size_t node = 0; node < num_nodes; ++node) {
          if (width < 1000) check_attended(input, pool, node, both.data() + node * input.row_width());
          StatePool alone = pool;
          alone.nodes = {pool.nodes[node]};
          AttentionInput own = input;
          own.query = rows_of(input.query, width, node);
          own.beside = rows_of(input.beside, input.beside_width, node);
          REQUIRE(run_attention(backend, own, alone) == rows_of(both, input.row_width(), node));
        }
      }
    }
  });
}
