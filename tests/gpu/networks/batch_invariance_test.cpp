// SPDX-License-Identifier: Apache-2.0
// A sequence's tokens and logits are the same bits whatever else is in its
// batches, however its prompt is cut, wherever its pages lie and however many
// threads compute.
#include "gpu/cpu/cpu_device.hpp"

#include <cstring>
#include <filesystem>
#include <random>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "gpu/model/random_model.hpp"
#include "tests/gpu/generation.hpp"
#include "tests/support/gpu/gguf_model.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace batch_invariance_test {
namespace {

// Sizes that are no multiples of any kernel's block, and that are.
ModelConfig odd_llama() {
  ModelConfig config = llama_100m();
  config.hidden_size = 104;
  config.intermediate_size = 172;
  config.num_layers = 3;
  config.num_heads = 6;
  config.num_kv_heads = 2;
  config.head_dim = 24;
  config.vocabulary_size = 301;
  config.context_length = 512;
  config.attention_bias = true;
  config.mlp_bias = true;
  return config;
}

ModelConfig wide_llama() {
  ModelConfig config = llama_100m();
  config.hidden_size = 512;
  config.intermediate_size = 1408;
  config.num_layers = 2;
  config.num_heads = 8;
  config.num_kv_heads = 2;
  config.head_dim = 64;
  config.vocabulary_size = 1000;
  config.context_length = 512;
  config.tied_embeddings = false;
  return config;
}

using nlohmann::json;

// A config.json with what both families below have.
json odd_family(const char* architecture, std::uint32_t num_kv_heads) {
  return {{"architectures", {architecture}},
          {"hidden_size", 144},
          {"intermediate_size", 172},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 6},
          {"num_key_value_heads", num_kv_heads},
          {"head_dim", 24},
          {"vocab_size", 1301},  // few rows of logits are more than a task of the soft cap
          {"max_position_embeddings", 512}};
}

// Two layers slide behind the first prompt's length; scores and logits are capped.
json odd_gemma() {
  json config = odd_family("Gemma3ForCausalLM", 2);
  config["sliding_window"] = 40;
  config["sliding_window_pattern"] = 3;
  config["attn_logit_softcapping"] = 50.0;
  config["final_logit_softcapping"] = 30.0;
  return config;
}

json odd_gpt() { return odd_family("GPTNeoXForCausalLM", 6); }

// Experts with few rows and with many, one dense layer.
json odd_mixture() {
  json config = odd_family("Qwen3MoeForCausalLM", 2);
  config["hidden_size"] = 160;
  config["moe_intermediate_size"] = 80;
  config["num_experts"] = 7;
  config["num_experts_per_tok"] = 2;
  config["norm_topk_prob"] = true;
  config["mlp_only_layers"] = {1};
  return config;
}

std::shared_ptr<const CpuModel> load(const std::filesystem::path& path, CpuModelSettings settings,
                                     unsigned num_threads) {
  settings.num_threads = num_threads;
  settings.num_slots = 33;
  settings.max_batch_tokens = 160;
  return load_cpu_model(plan_cpu_model(path, settings));
}

struct Outcome {
  std::vector<std::int32_t> tokens;
  std::vector<std::vector<float>> logits;
};

// What becomes of the first request.
Outcome run(const std::shared_ptr<const CpuModel>& model, const std::vector<DirectRequest>& requests,
            const GenerationSettings& settings) {
  CapturedLogits captured;
  CpuDevice device(model, {.on_logits = capture_logits(captured), .poison_memory = true});
  ProgramCache programs(model->network, model->compute_type, model->largest);
  auto tokens = generate(device, programs, requests, settings);
  return {std::move(tokens[0]), std::move(captured[0])};
}

std::size_t num_different_rows(const Outcome& a, const Outcome& b) {
  REQUIRE(a.logits.size() == b.logits.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.logits.size(); ++i) {
    const bool is_equal =
        a.logits[i].size() == b.logits[i].size() &&
        std::memcmp(a.logits[i].data(), b.logits[i].data(), a.logits[i].size() * sizeof(float)) == 0;
    count += is_equal ? 0 : 1;
  }
  return count;
}

DirectRequest random_request(std::mt19937& random, std::uint32_t vocabulary) {
  DirectRequest request;
  request.prompt.resize(1 + random() % 90);
  for (auto& token : request.prompt) token = static_cast<std::int32_t>(random() % vocabulary);
  request.num_new = 1 + random() % 40;
  request.first_iteration = random() % 20;
  if (random() % 2 == 0) {
    request.sampling = {.temperature = 0.8F, .top_p = 0.9F, .top_k = 20, .seed = random()};
  }
  return request;
}

// Sampling is the same for all models: one temperature is enough for most.
void check_model(const std::filesystem::path& path, std::uint32_t vocabulary,
                 const CpuModelSettings& settings, const std::vector<float>& temperatures = {0.9F}) {
  const auto model = load(path, settings, 2);
  std::mt19937 random(5);
  for (const float temperature : temperatures) {
    CAPTURE(temperature);
    DirectRequest first = random_request(random, vocabulary);
    first.prompt.resize(77, 5);
    first.num_new = 30;
    first.first_iteration = 0;
    first.sampling = {.temperature = temperature, .seed = 17};
    const Outcome alone = run(model, {first}, {});
    for (std::uint32_t seed = 1; seed <= 4; ++seed) {
      CAPTURE(seed);
      std::vector<DirectRequest> requests = {first};
      const std::size_t company = seed == 1 ? 0 : 31;
      while (requests.size() <= company) {
        requests.push_back(random_request(random, vocabulary));
      }
      const Outcome together =
          run(model, requests, {.seed = seed, .max_chunk = 64, .shuffle = true, .in_flight = seed});
      CHECK(together.tokens == alone.tokens);
      CHECK(num_different_rows(together, alone) == 0);
    }
    for (const unsigned num_threads : {1U, 3U}) {
      CAPTURE(num_threads);
      const Outcome other = run(load(path, settings, num_threads), {first}, {});
      CHECK(other.tokens == alone.tokens);
      CHECK(num_different_rows(other, alone) == 0);
    }
  }
}

void check_invariance(const ModelConfig& config, DataType compute_type,
                      Quantization quantization = Quantization::kNone,
                      Activations activations = Activations::kComputed) {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), config, 3);
  check_model(directory.path(), config.vocabulary_size,
              {.compute_type = compute_type, .quantization = quantization, .activations = activations},
              {0.0F, 0.9F});
}

void check_invariance(const json& document, DataType compute_type,
                      Quantization quantization = Quantization::kNone) {
  const TemporaryDirectory directory;
  directory.write("config.json", document.dump());
  const ModelConfig config = load_model_config(directory.path());
  write_random_llama(directory.path(), config, 3);  // whose tensors are those of any decoder,
  directory.write("config.json", document.dump());  // but its config.json is a Llama's
  check_model(directory.path(), config.vocabulary_size,
              {.compute_type = compute_type, .quantization = quantization});
}

// Rows of whole blocks, also of 256.
ModelConfig llama_of_blocks() {
  ModelConfig config = wide_llama();
  config.hidden_size = 256;
  config.intermediate_size = 768;
  config.vocabulary_size = 301;
  return config;
}

ModelConfig mixtral_of_blocks() {
  ModelConfig config = llama_of_blocks();
  config.architecture = "MixtralForCausalLM";
  config.intermediate_size = 256;
  config.experts = ExpertsConfig{.num_experts = 5, .num_chosen = 2, .intermediate_size = 256};
  return config;
}

// A GGUF file of these formats, kept.
void check_invariance(const ModelConfig& config, BlockFormat format, BlockFormat of_values,
                      DataType compute_type, Activations activations = Activations::kComputed) {
  const TemporaryDirectory directory;
  const auto gguf = directory.path() / "model.gguf";
  test::write_twins(gguf, directory.path() / "plain", config, format, 3, [&](const std::string& name) {
    return name.find("v_proj") != std::string::npos ? of_values : format;
  });
  check_model(gguf, config.vocabulary_size, {.compute_type = compute_type, .activations = activations});
}

}  // namespace

TEST_CASE("batch invariance: f32, odd sizes") { check_invariance(odd_llama(), DataType::kF32); }
TEST_CASE("batch invariance: bf16, odd sizes") { check_invariance(odd_llama(), DataType::kBF16); }
TEST_CASE("batch invariance: f32, wide") { check_invariance(wide_llama(), DataType::kF32); }
TEST_CASE("batch invariance: bf16, wide") { check_invariance(wide_llama(), DataType::kBF16); }
TEST_CASE("batch invariance: f32, odd sizes, weights in 4 bits") {
  check_invariance(odd_llama(), DataType::kF32, Quantization::kQ4);
}
TEST_CASE("batch invariance: bf16, odd sizes, weights in 8 bits") {
  check_invariance(odd_llama(), DataType::kBF16, Quantization::kQ8);
}
TEST_CASE("batch invariance: f32, wide, weights in 8 bits") {
  check_invariance(wide_llama(), DataType::kF32, Quantization::kQ8);
}
TEST_CASE("batch invariance: bf16, wide, weights in 4 bits") {
  check_invariance(wide_llama(), DataType::kBF16, Quantization::kQ4);
}
TEST_CASE("batch invariance: bf16, a file's blocks of Q4_K and Q6_K") {
  check_invariance(llama_of_blocks(), BlockFormat::kQ4_K, BlockFormat::kQ6_K, DataType::kBF16);
}
TEST_CASE("batch invariance: bf16, rows in 8 bits for Q4_K beside exact ones for Q8_0") {
  check_invariance(llama_of_blocks(), BlockFormat::kQ4_K, BlockFormat::kQ8_0, DataType::kBF16,
                   Activations::kBelow8Bits);
}
TEST_CASE("batch invariance: f32, odd sizes, weights in f16") {
  ModelConfig config = odd_llama();
  config.mlp_bias = false;
  check_invariance(config, BlockFormat::kF16, BlockFormat::kF16, DataType::kF32);
}
TEST_CASE("batch invariance: f32, a mixture of experts in f16") {
  check_invariance(mixtral_of_blocks(), BlockFormat::kF16, BlockFormat::kF16, DataType::kF32);
}
TEST_CASE("batch invariance: f32, a file's blocks of Q5_1 and MXFP4") {
  check_invariance(llama_of_blocks(), BlockFormat::kQ5_1, BlockFormat::kMxfp4, DataType::kF32);
}
TEST_CASE("batch invariance: f32, odd sizes, weights and activations in 8 bits") {
  check_invariance(odd_llama(), DataType::kF32, Quantization::kQ8, Activations::kQ8);
}
TEST_CASE("batch invariance: bf16, a mixture of experts in Q4_K and Q6_K, activations in 8 bits") {
  check_invariance(mixtral_of_blocks(), BlockFormat::kQ4_K, BlockFormat::kQ6_K, DataType::kBF16,
                   Activations::kQ8);
}
TEST_CASE("batch invariance: bf16 and f32, KV in 8 bits") {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), wide_llama(), 3);
  for (const DataType compute_type : {DataType::kBF16, DataType::kF32}) {
    CAPTURE(name_of(compute_type));
    check_model(directory.path(), wide_llama().vocabulary_size,
                {.compute_type = compute_type, .quantization = Quantization::kNone, .kv_type = KvType::kQ8});
  }
}
TEST_CASE("batch invariance: f32, Gemma") { check_invariance(odd_gemma(), DataType::kF32); }
TEST_CASE("batch invariance: bf16, Gemma, weights in 8 bits") {
  check_invariance(odd_gemma(), DataType::kBF16, Quantization::kQ8);
}
TEST_CASE("batch invariance: f32, a mixture of experts") { check_invariance(odd_mixture(), DataType::kF32); }
TEST_CASE("batch invariance: bf16, a mixture of experts in 4 bits") {
  check_invariance(odd_mixture(), DataType::kBF16, Quantization::kQ4);
}
TEST_CASE("batch invariance: bf16, a mixture of experts in a file's blocks of Q4_K") {
  check_invariance(mixtral_of_blocks(), BlockFormat::kQ4_K, BlockFormat::kQ6_K, DataType::kBF16);
}
TEST_CASE("batch invariance: bf16, GPT-NeoX") { check_invariance(odd_gpt(), DataType::kBF16); }
TEST_CASE("batch invariance: f32, GPT-NeoX, weights in 8 bits") {
  check_invariance(odd_gpt(), DataType::kF32, Quantization::kQ8);
}

// One head of keys and values, so that two threads share a sequence's attention only by splitting it.
TEST_CASE("batch invariance: contexts of several splits") {
  const TemporaryDirectory directory;
  ModelConfig config = odd_llama();
  config.num_kv_heads = 1;
  config.context_length = 1536;
  write_random_llama(directory.path(), config, 3);
  for (const DataType compute_type : {DataType::kBF16, DataType::kF32}) {
    CAPTURE(name_of(compute_type));
    const CpuModelSettings settings{.compute_type = compute_type};
    std::mt19937 random(5);
    std::vector<DirectRequest> requests;
    for (const std::size_t length : {1100, 700, 30}) {
      requests.push_back({.prompt = std::vector<std::int32_t>(length), .num_new = 8});
      for (auto& token : requests.back().prompt)
        token = static_cast<std::int32_t>(random() % config.vocabulary_size);
    }
    const Outcome alone = run(load(directory.path(), settings, 1), {requests[0]}, {});
    for (const unsigned num_threads : {1U, 2U, 3U}) {
      CAPTURE(num_threads);
      const auto model = load(directory.path(), settings, num_threads);
      const Outcome other = run(model, {requests[0]}, {});
      CHECK(other.tokens == alone.tokens);
      CHECK(num_different_rows(other, alone) == 0);
      const Outcome together =
          run(model, requests, {.seed = num_threads, .max_chunk = 64, .shuffle = true, .in_flight = 2});
      CHECK(together.tokens == alone.tokens);
      CHECK(num_different_rows(together, alone) == 0);
    }
  }
}

}  // namespace batch_invariance_test
}  // namespace troupe
