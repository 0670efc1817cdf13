// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/lowering.hpp"

#include <algorithm>
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "gpu/cuda/cuda_model.hpp"
#include "gpu/model/random_model.hpp"
#include "gpu/networks/gpt.hpp"
#include "gpu/networks/lfm2.hpp"
#include "gpu/networks/llama.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

Program program_of(std::uint32_t num_layers, std::uint32_t num_tokens) {
  ModelConfig config = llama_100m();
  config.num_layers = num_layers;
  return LlamaNetwork(config).build_program(0, {num_tokens, num_tokens}, DataType::kBF16);
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

TEST_CASE("lowering: norms of heads are a step of their own, and nothing is fused around them") {
  ModelConfig config = llama_100m();
  config.num_layers = 1;
  config.head_norms = true;
  for (const std::uint32_t num_tokens : {1U, 200U}) {
    const auto program = LlamaNetwork(config).build_program(0, {num_tokens, num_tokens}, DataType::kBF16);
    std::size_t num_norms = 0, num_rotations = 0;
    for (const auto& step : cuda::lower(program, DataType::kBF16).steps) {
      num_norms += std::holds_alternative<cuda::HeadNormStep>(step.kind);
      num_rotations += std::holds_alternative<cuda::RotaryStep>(step.kind);
    }
    CHECK(num_norms == 1);
    CHECK(num_rotations == 1);
  }
}

TEST_CASE("lowering: a short convolution is a step of its own, between products of the compute type") {
  ModelConfig config = llama_100m();
  config.num_layers = 2;
  config.head_norms = true;
  config.lfm2 = Lfm2Config{.is_convolution = {true, false}, .num_taps = 3};
  for (const std::uint32_t num_tokens : {1U, 200U}) {
    const auto program = Lfm2Network(config).build_program(0, {num_tokens, num_tokens}, DataType::kBF16);
    const auto lowered = cuda::lower(program, DataType::kBF16);
    std::size_t num_convolutions = 0;
    for (const auto& step : lowered.steps) {
      if (!std::holds_alternative<ShortConvolution>(step.kind)) continue;
      ++num_convolutions;
      CHECK(lowered.tensors[step.inputs.at(0)].type == DataType::kBF16);
      CHECK(lowered.tensors[step.outputs.at(0)].type == DataType::kBF16);
    }
    CHECK(num_convolutions == 1);
  }
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
  const auto lowered =
      cuda::lower(LlamaNetwork(llama_100m()).build_program(0, {1, 1}, DataType::kF32), DataType::kF32);
  for (const auto& step : lowered.steps) CHECK(!std::holds_alternative<cuda::FusedQkvStep>(step.kind));
}

TEST_CASE("lowering: windows and layers without positions are parts of their steps, fused or not") {
  ModelConfig config = llama_100m();
  config.num_layers = 1;
  config.sliding_window = 16;
  config.is_rotated = {false};
  for (const std::uint32_t num_tokens : {8U, 200U}) {
    const auto program = LlamaNetwork(config).build_program(0, {num_tokens, 1}, DataType::kBF16);
    std::size_t num_found = 0;
    for (const auto& step : cuda::lower(program, DataType::kBF16).steps) {
      if (const auto* attention = std::get_if<cuda::AttentionStep>(&step.kind))
        num_found += attention->window == 16;
      if (const auto* rotary = std::get_if<cuda::RotaryStep>(&step.kind)) num_found += !rotary->rotates;
      if (const auto* qkv = std::get_if<cuda::FusedQkvStep>(&step.kind)) num_found += !qkv->rotates;
    }
    CHECK(num_found == 2);
  }
}

TEST_CASE("lowering: parts of heads whose rotation is not by fours are refused by name") {
  ModelConfig partial = llama_100m();
  partial.num_layers = 1;
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), partial, 1);
  std::ifstream written(directory.path() / "config.json");
  auto document = nlohmann::json::parse(written);
  document["partial_rotary_factor"] = 0.1;  // 6 of 64
  directory.write("config.json", document.dump());
  BackendSettings settings;
  settings.model_dir = directory.path();
  CHECK_THROWS_WITH(cuda::plan_cuda_model(settings), doctest::Contains(cuda::kNoSuchRotation));
}

TEST_CASE("lowering: every part that Gemma has beyond a Llama is refused by name") {
  ModelConfig config = llama_100m();
  const Program good = LlamaNetwork(config).build_program(0, {8, 1}, DataType::kBF16);
  const auto refusal_of = [&](auto kind, const auto& change) {
    Program program = good;
    for (Operator& op : program.operators)
      if (auto* found = std::get_if<decltype(kind)>(&op.kind)) change(*found);
    return [program] { cuda::lower(program, DataType::kBF16); };
  };
  CHECK_THROWS_WITH(refusal_of(Embed{}, [](Embed& embed) { embed.scale = 2.0F; })(),
                    doctest::Contains(cuda::kNoOtherScales));
  CHECK_THROWS_WITH(refusal_of(PagedAttention{}, [](PagedAttention& of) { of.soft_cap = 2.0F; })(),
                    doctest::Contains(cuda::kNoSoftCaps));
  CHECK_THROWS_WITH(refusal_of(RotaryAppendKv{}, [](RotaryAppendKv& of) { of.is_local = true; })(),
                    doctest::Contains(cuda::kNoLocalRotation));
  CHECK_THROWS_WITH(
      refusal_of(GatedActivation{}, [](GatedActivation& of) { of.activation = Activation::kGeluTanh; })(),
      doctest::Contains(cuda::kNoGatedGelu));
  Program capped = good;
  capped.operators.insert(capped.operators.end() - 1, {SoftCap{30.0F}, capped.operators.back().inputs, {}});
  CHECK_THROWS_WITH(cuda::lower(capped, DataType::kBF16), doctest::Contains(cuda::kNoSoftCaps));
}

TEST_CASE("lowering: a GPT has the steps of its operators, but that products add to x themselves") {
  ModelConfig config = llama_100m();
  config.num_layers = 1;
  config.num_kv_heads = config.num_heads;
  config.attention_bias = true;
  config.gpt = GptConfig{};
  for (const std::uint32_t num_tokens : {8U, 200U}) {
    const auto program = GptNetwork(config).build_program(0, {num_tokens, 1}, DataType::kBF16);
    const auto lowered = cuda::lower(program, DataType::kBF16);
    CHECK(lowered.steps.size() == program.operators.size() - 2);
    const auto adds = [](const auto& step) {
      const auto* product = std::get_if<cuda::GemmStep>(&step.kind);
      return product != nullptr && product->adds;
    };
    CHECK(std::count_if(lowered.steps.begin(), lowered.steps.end(), adds) == 2);
  }
}

TEST_CASE("lowering: a mixture of experts is refused by name") {
  ModelConfig config = llama_100m();
  config.architecture = "MixtralForCausalLM";
  config.experts = ExpertsConfig{.num_experts = 4, .num_chosen = 2, .intermediate_size = 64};
  for (const std::uint32_t num_tokens : {8U, 200U})
    CHECK_THROWS_WITH(
        cuda::lower(LlamaNetwork(config).build_program(0, {num_tokens, 1}, DataType::kBF16), DataType::kBF16),
        doctest::Contains(cuda::kNoExperts));
}

TEST_CASE("lowering: attention sinks are refused by name") {
  ModelConfig config = llama_100m();
  config.attention_sinks = true;
  CHECK_THROWS_WITH(
      cuda::lower(LlamaNetwork(config).build_program(0, {8, 1}, DataType::kBF16), DataType::kBF16),
      doctest::Contains(cuda::kNoSinks));
}

TEST_CASE("lowering: an encoder has the steps of its operators, and f32 only where it is normed or pooled") {
  ModelConfig config;
  config.architecture = "BertModel";
  config.hidden_size = config.intermediate_size = 64;
  config.num_layers = 1;
  config.num_heads = config.num_kv_heads = 2;
  config.head_dim = 32;
  config.vocabulary_size = config.context_length = 64;
  config.encoder = EncoderConfig{};
  for (const std::uint32_t num_tokens : {8U, 200U}) {
    const Program program = make_network(config)->build_program(0, {num_tokens, 0}, DataType::kBF16);
    const auto lowered = cuda::lower(program, DataType::kBF16);
    REQUIRE(lowered.steps.size() == program.operators.size());
    for (const auto& step : lowered.steps) {
      if (std::holds_alternative<SelfAttention>(step.kind) || std::holds_alternative<Activate>(step.kind))
        CHECK(lowered.tensors[step.inputs.at(0)].type == DataType::kBF16);
      if (std::holds_alternative<LayerNorm>(step.kind) || std::holds_alternative<Pool>(step.kind))
        CHECK(lowered.tensors[step.inputs.at(0)].type == DataType::kF32);
    }
  }
}

TEST_CASE("lowering: cells have the steps of their operators, and round an operand where it is made") {
  ModelConfig config;
  config.architecture = "LstmForCausalLM";
  config.hidden_size = 64;
  config.num_layers = 2;
  config.vocabulary_size = config.context_length = 64;
  config.recurrent = RecurrentConfig{.kind = RecurrentKind::kLstm, .embedding_size = 64};
  const auto network = make_network(config);
  for (const std::uint32_t num_tokens : {8U, 200U}) {
    const Program exact = network->build_program(0, {num_tokens, num_tokens}, DataType::kF32);
    const auto lowered = cuda::lower(exact, DataType::kF32);
    REQUIRE(lowered.steps.size() == exact.operators.size());
    for (const auto& step : lowered.steps)
      if (const auto* product = std::get_if<cuda::GemmStep>(&step.kind)) CHECK(product->is_exact);

    const auto rounded =
        cuda::lower(network->build_program(0, {num_tokens, num_tokens}, DataType::kBF16), DataType::kBF16);
    CHECK(rounded.steps.size() == exact.operators.size() + 2);  // the embedding's rows and those sampled
    for (const auto& step : rounded.steps) {
      const auto type_of = [&](TensorId id) { return rounded.tensors[id].type; };
      if (std::holds_alternative<GatherState>(step.kind))
        CHECK(type_of(step.outputs.at(0)) == DataType::kBF16);
      if (!std::holds_alternative<LstmCell>(step.kind)) continue;
      CHECK(type_of(step.inputs.at(0)) == DataType::kF32);
      CHECK(type_of(step.outputs.at(0)) == DataType::kF32);
    }
  }
}

}  // namespace troupe
