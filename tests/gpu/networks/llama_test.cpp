// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/llama.hpp"

#include <set>
#include <stdexcept>

#include <doctest/doctest.h>

#include "gpu/model/random_model.hpp"

namespace troupe {
namespace {

std::set<std::string> weight_names(const Program& program) {
  std::set<std::string> names;
  for (const auto& tensor : program.tensors) {
    if (tensor.role == TensorRole::kWeight) names.insert(tensor.name);
  }
  return names;
}

template <typename Kind>
std::size_t count_of(const Program& program) {
  std::size_t count = 0;
  for (const auto& op : program.operators) count += std::holds_alternative<Kind>(op.kind);
  return count;
}

}  // namespace

TEST_CASE("llama: programs use exactly the weights the network names, in their shapes") {
  for (const bool has_bias : {false, true}) {
    ModelConfig config = llama_100m();
    config.attention_bias = has_bias;
    config.mlp_bias = has_bias;
    const LlamaNetwork network(config);
    const auto program = network.build_program(0, {8, 4}, DataType::kF32);
    std::set<std::string> named;
    for (const auto& spec : network.weights()) {
      named.insert(spec.name);
      for (const auto& tensor : program.tensors) {
        if (tensor.role != TensorRole::kWeight || tensor.name != spec.name) continue;
        CHECK(tensor.fixed_rows == spec.rows);
        CHECK(tensor.columns == spec.columns);
      }
    }
    CHECK(named == weight_names(program));
  }
}

TEST_CASE("llama: nine operators a layer, five around them") {
  const LlamaNetwork network(llama_100m());
  const auto program = network.build_program(0, {8, 4}, DataType::kBF16);
  CHECK(program.operators.size() == 12 * 9 + 5);
  CHECK(count_of<Matmul>(program) == 12 * 4 + 1);
  CHECK(count_of<PagedAttention>(program) == 12);
  CHECK(std::holds_alternative<Embed>(program.operators.front().kind));
  CHECK(std::holds_alternative<Sample>(program.operators.back().kind));
}

TEST_CASE("llama: every temporary is written before it is read") {
  const LlamaNetwork network(llama_100m());
  const auto program = network.build_program(0, {8, 4}, DataType::kBF16);
  std::set<TensorId> written;
  for (const auto& op : program.operators) {
    for (const TensorId id : op.inputs) {
      if (program.tensors[id].role == TensorRole::kTemporary) CHECK(written.count(id) == 1);
    }
    written.insert(op.outputs.begin(), op.outputs.end());
  }
}

TEST_CASE("llama: operands of products have the compute type, everything else is f32") {
  const LlamaNetwork network(llama_100m());
  for (const DataType type : {DataType::kF32, DataType::kF16, DataType::kBF16}) {
    const auto program = network.build_program(0, {8, 4}, type);
    for (const auto& op : program.operators) {
      if (!std::holds_alternative<Matmul>(op.kind)) continue;
      CHECK(program.tensors[op.inputs[0]].type == type);
      CHECK(program.tensors[op.outputs[0]].type == DataType::kF32);
    }
  }
}

TEST_CASE("llama: tied embeddings serve as the output matrix") {
  ModelConfig config = llama_100m();
  config.tied_embeddings = true;
  CHECK(LlamaNetwork(config).weights().back().sources.front() == "model.embed_tokens.weight");
  config.tied_embeddings = false;
  CHECK(LlamaNetwork(config).weights().back().sources.front() == "lm_head.weight");
}

TEST_CASE("llama: the shapes carry the configuration's sizes and rotary scaling to devices") {
  ModelConfig config = llama_100m();
  config.rope_theta = 500000.0F;
  config.rope_scaling = RopeScaling{.type = "llama3",
                                    .factor = 8.0F,
                                    .low_frequency_factor = 2.0F,
                                    .high_frequency_factor = 5.0F,
                                    .original_context_length = 64};
  const ModelShapes shapes = LlamaNetwork(config).shapes();
  CHECK(shapes.num_layers == config.num_layers);
  CHECK(shapes.num_heads == config.num_heads);
  CHECK(shapes.num_kv_heads == config.num_kv_heads);
  CHECK(shapes.head_dim == config.head_dim);
  CHECK(shapes.vocabulary_size == config.vocabulary_size);
  CHECK(shapes.context_length == config.context_length);
  const RotaryParameters rotary = rotary_parameters(shapes, 100);
  CHECK(rotary.max_positions == 100);
  CHECK(rotary.rotary_dim == config.head_dim);
  CHECK(rotary.theta == 500000.0);
  CHECK(rotary.scaling == RotaryScaling::kLlama3);
  CHECK(rotary.factor == 8.0);
  CHECK(rotary.low_frequency_factor == 2.0);
  CHECK(rotary.high_frequency_factor == 5.0);
  CHECK(rotary.original_max_positions == 64.0);
  config.rope_scaling->type = "linear";
  CHECK(LlamaNetwork(config).shapes().rotary.scaling == RotaryScaling::kLinear);
  config.rope_scaling.reset();
  CHECK(LlamaNetwork(config).shapes().rotary.scaling == RotaryScaling::kNone);
}

TEST_CASE("llama: an unknown cell or compute type is refused") {
  const LlamaNetwork network(llama_100m());
  CHECK_THROWS_AS(network.build_program(1, {1, 1}, DataType::kF32), std::runtime_error);
  CHECK_THROWS_AS(network.build_program(0, {1, 1}, DataType::kI32), std::runtime_error);
}

TEST_CASE("network: an unknown architecture is named") {
  ModelConfig config = llama_100m();
  config.architecture = "MambaForCausalLM";
  CHECK_THROWS_WITH_AS(make_network(config), doctest::Contains("MambaForCausalLM"), std::runtime_error);
}

}  // namespace troupe
