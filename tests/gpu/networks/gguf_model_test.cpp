// SPDX-License-Identifier: Apache-2.0
// A GGUF file computes what the directory computes that holds the same numbers.
#include "gpu/model/gguf_config.hpp"

#include <cstring>

#include <doctest/doctest.h>

#include "gpu/cpu/cpu_model.hpp"
#include "tests/gpu/generation.hpp"
#include "tests/gpu/tiny_model.hpp"
#include "tests/support/gpu/gguf_model.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

// Rows of whole blocks, also of 256.
ModelConfig wide_llama() {
  ModelConfig config = tiny_llama();
  config.hidden_size = 256;
  config.intermediate_size = 256;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 64;
  config.tied_embeddings = false;
  return config;
}

struct Answer {
  std::vector<std::vector<std::int32_t>> tokens;
  CapturedLogits logits;
};

Answer answer_of(const std::filesystem::path& path, DataType compute_type) {
  const auto model = load_cpu_model(plan_cpu_model(path, {.compute_type = compute_type,
                                                          .num_threads = 2,
                                                          .num_slots = 8,
                                                          .max_batch_tokens = 64,
                                                          .max_pages = 64}));
  ProgramCache programs(model->network, model->compute_type, model->largest);
  Answer answer;
  CpuDevice device(model, {.on_logits = capture_logits(answer.logits)});
  answer.tokens = generate(device, programs, {{.prompt = {3, 14, 15, 92, 65}, .num_new = 12}});
  return answer;
}

void check_alike(const ModelConfig& config, BlockFormat format, DataType compute_type) {
  const TemporaryDirectory place;
  const auto gguf = place.path() / "model.gguf", directory = place.path() / "plain";
  test::write_twins(gguf, directory, config, format, 11);
  const Answer of_gguf = answer_of(gguf, compute_type), of_directory = answer_of(directory, compute_type);
  CHECK(of_gguf.tokens == of_directory.tokens);
  CHECK(of_gguf.logits == of_directory.logits);
}

}  // namespace

TEST_CASE("gguf model: each format gives the tokens and logits of the numbers it stands for") {
  for (const BlockFormat format :
       {BlockFormat::kF32, BlockFormat::kF16, BlockFormat::kBF16, BlockFormat::kQ4_0, BlockFormat::kQ4_1,
        BlockFormat::kQ5_0, BlockFormat::kQ5_1, BlockFormat::kQ8_0, BlockFormat::kQ4_K, BlockFormat::kQ5_K,
        BlockFormat::kQ6_K, BlockFormat::kIq4Nl, BlockFormat::kMxfp4}) {
    CAPTURE(layout_of(format).name);
    check_alike(wide_llama(), format, DataType::kF32);
  }
}

TEST_CASE("gguf model: the same holds in bf16, with biases and with tied embeddings") {
  check_alike(wide_llama(), BlockFormat::kQ8_0, DataType::kBF16);
  ModelConfig config = wide_llama();
  config.attention_bias = true;
  check_alike(config, BlockFormat::kQ4_0, DataType::kF32);
  config.tied_embeddings = true;
  check_alike(config, BlockFormat::kBF16, DataType::kF32);
}

TEST_CASE("gguf model: Qwen2 has its rows in order and a bias for queries, keys and values") {
  ModelConfig config = wide_llama();
  config.architecture = "Qwen2ForCausalLM";
  config.attention_bias = config.qkv_bias_only = true;
  check_alike(config, BlockFormat::kQ4_1, DataType::kF32);
}

TEST_CASE("gguf model: Qwen3 has its rows in order and norms of query and key heads") {
  ModelConfig config = wide_llama();
  config.architecture = "Qwen3ForCausalLM";
  config.head_norms = true;
  check_alike(config, BlockFormat::kQ8_0, DataType::kF32);
}

TEST_CASE("gguf model: the experts of Mixtral and Qwen3-MoE are stacks") {
  ModelConfig config = wide_llama();
  config.architecture = "MixtralForCausalLM";
  config.experts = ExpertsConfig{.num_experts = 5, .num_chosen = 2, .intermediate_size = 256};
  check_alike(config, BlockFormat::kQ4_K, DataType::kF32);
  config.architecture = "Qwen3MoeForCausalLM";
  config.head_norms = true;
  config.experts = ExpertsConfig{.num_experts = 4, .num_chosen = 3, .intermediate_size = 512};
  check_alike(config, BlockFormat::kQ8_0, DataType::kBF16);
}

TEST_CASE(
    "gguf model: Phi-3 has one matrix for queries, keys and values, rotates part of a head and slides") {
  ModelConfig config = wide_llama();
  config.architecture = "Phi3ForCausalLM";
  config.fused_projections = true;
  config.rotary_dim = 48;
  config.sliding_window = 6;
  check_alike(config, BlockFormat::kQ4_K, DataType::kF32);
}

TEST_CASE("gguf model: Gemma 2 and 3 have norms of 1 + w, names of their own and windows by a pattern") {
  ModelConfig config = wide_llama();
  config.tied_embeddings = true;
  config.sliding_window = 4;
  config.architecture = "Gemma2ForCausalLM";
  config.gemma = GemmaConfig{.query_scalar = 64, .attention_cap = 2, .logit_cap = 1};
  check_alike(config, BlockFormat::kQ4_K, DataType::kF32);
  config.architecture = "Gemma3ForCausalLM";
  config.num_layers = 6;
  config.rope_theta = 1e6F;
  config.head_norms = true;
  config.gemma = GemmaConfig{.query_scalar = 64, .logit_cap = 1, .local_theta = 5000};
  check_alike(config, BlockFormat::kQ8_0, DataType::kBF16);
}

TEST_CASE("gguf model: SmolLM3 has its rows in pairs and no positions in its fourth layer") {
  ModelConfig config = wide_llama();
  config.architecture = "SmolLM3ForCausalLM";
  config.num_layers = 4;
  config.tied_embeddings = true;
  check_alike(config, BlockFormat::kQ6_K, DataType::kF32);
}

}  // namespace troupe
