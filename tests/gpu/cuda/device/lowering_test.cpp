// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/lowering.hpp"

#include <doctest/doctest.h>

#include "gpu/networks/llama.hpp"
#include "gpu/random_model.hpp"

namespace troupe {
namespace {

Program program_of(std::uint32_t num_layers, std::uint32_t num_tokens) {
  ModelConfig config = llama_100m();
  config.num_layers = num_layers;
  return LlamaNetwork(config).build_program("decoder_step", {num_tokens, num_tokens}, DataType::kBF16);
}

std::size_t steps_a_layer(std::uint32_t num_tokens) {
  const auto steps = [&](std::uint32_t num_layers) {
    return cuda::lower(program_of(num_layers, num_tokens), DataType::kBF16).steps.size();
  };
  CHECK(steps(4) - steps(3) == steps(2) - steps(1));
  return steps(2) - steps(1);
}

}  // namespace

TEST_CASE("lowering: a layer of a decode step is five steps, of a prefill nine") {
  CHECK(steps_a_layer(1) == 5);
  CHECK(steps_a_layer(64) == 5);
  CHECK(steps_a_layer(65) == 9);
}

TEST_CASE("lowering: every temporary is written before it is read") {
  for (const std::uint32_t num_tokens : {1U, 64U, 200U}) {
    const auto lowered = cuda::lower(program_of(3, num_tokens), DataType::kBF16);
    std::vector<bool> is_written(lowered.tensors.size());
    for (const auto& step : lowered.steps) {
      for (const TensorId id : step.inputs)
        CHECK((is_written[id] || lowered.tensors[id].role == TensorRole::kWeight));
      for (const TensorId id : step.outputs) is_written[id] = true;
    }
  }
}

TEST_CASE("lowering: a program that computes in f32 has the steps of many tokens") {
  const auto lowered = cuda::lower(
      LlamaNetwork(llama_100m()).build_program("decoder_step", {1, 1}, DataType::kF32), DataType::kF32);
  for (const auto& step : lowered.steps) CHECK(!std::holds_alternative<cuda::FusedQkvStep>(step.kind));
}

}  // namespace troupe
