// SPDX-License-Identifier: Apache-2.0
// A GGUF file computes what the directory computes that holds the same numbers: bit for bit
// if its blocks are opened, within rounding if they are kept.
#include "gpu/model/gguf_config.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/cpu/cpu_backend.hpp"
#include "gpu/cpu/cpu_model.hpp"
#include "gpu/cpu/kernels/matmul/matmul.hpp"
#include "gpu/model/safetensors.hpp"
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

ModelConfig wide_mixtral() {
  ModelConfig config = wide_llama();
  config.architecture = "MixtralForCausalLM";
  config.experts = ExpertsConfig{.num_experts = 5, .num_chosen = 2, .intermediate_size = 256};
  return config;
}

ModelConfig wide_gpt_oss() {
  ModelConfig config = wide_llama();
  config.architecture = "GptOssForCausalLM";
  config.attention_bias = config.attention_sinks = true;
  config.sliding_window = 4;
  config.rope_scaling =
      RopeScaling{.type = "yarn", .factor = 4.0F, .original_context_length = 64, .rounds_bounds = false};
  config.experts = ExpertsConfig{
      .num_experts = 4, .num_chosen = 2, .intermediate_size = config.intermediate_size, .has_bias = true};
  return config;
}

struct Answer {
  std::vector<std::vector<std::int32_t>> tokens;
  CapturedLogits logits;
};

Answer answer_of(const std::filesystem::path& path, DataType compute_type,
                 Quantization quantization = Quantization::kNone) {
  const auto model = load_cpu_model(plan_cpu_model(path, {.compute_type = compute_type,
                                                          .quantization = quantization,
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

constexpr BlockFormat kQuantized[] = {
    BlockFormat::kQ4_0, BlockFormat::kQ4_1, BlockFormat::kQ5_0, BlockFormat::kQ5_1,  BlockFormat::kQ8_0,
    BlockFormat::kQ4_K, BlockFormat::kQ5_K, BlockFormat::kQ6_K, BlockFormat::kIq4Nl, BlockFormat::kMxfp4};

// |a - b| / |b| of all logits.
double distance(const CapturedLogits& a, const CapturedLogits& b) {
  double squares = 0, size = 0;
  REQUIRE(a.size() == b.size());
  for (const auto& [request, rows] : b) {
    REQUIRE(a.at(request).size() == rows.size());
    for (std::size_t row = 0; row < rows.size(); ++row) {
      for (std::size_t i = 0; i < rows[row].size(); ++i) {
        squares += std::pow(double{a.at(request)[row][i]} - rows[row][i], 2);
        size += std::pow(double{rows[row][i]}, 2);
      }
    }
  }
  return std::sqrt(squares / size);
}

// The logits up to the first token that was drawn otherwise: rounding may do that, and all behind it differ.
CapturedLogits while_alike(const Answer& answer, const Answer& other) {
  const auto [end, _] = std::mismatch(answer.tokens.at(0).begin(), answer.tokens.at(0).end(),
                                      other.tokens.at(0).begin(), other.tokens.at(0).end());
  const auto num_alike = static_cast<std::size_t>(end - answer.tokens.at(0).begin());
  CapturedLogits logits = answer.logits;
  for (auto& [request, rows] : logits) rows.resize(std::min(rows.size(), num_alike + 1));
  return logits;
}

// Kept blocks have the opened ones' values, but their sums are rounded at other places.
void check_kept(const ModelConfig& config, BlockFormat format, const test::FormatOf& format_of = {}) {
  const TemporaryDirectory place;
  const auto gguf = place.path() / "model.gguf", directory = place.path() / "plain";
  test::write_twins(gguf, directory, config, format, 11, format_of);
  const Answer exact = answer_of(directory, DataType::kF32);
  const Answer kept = answer_of(gguf, DataType::kF32, Quantization::kKeep);
  CHECK(kept.tokens == exact.tokens);
  CHECK(distance(kept.logits, exact.logits) > 0.0);
  CHECK(distance(kept.logits, exact.logits) < 1e-5);
  const Answer rounded = answer_of(gguf, DataType::kBF16, Quantization::kKeep);
  CHECK(distance(while_alike(rounded, exact), while_alike(exact, rounded)) < 2e-2);
}

// The matrices of a Q4_K_M file that are more precise.
BlockFormat in_q4_k_m(const std::string& name) {
  const bool is_finer = name.find("v_proj") != std::string::npos ||
                        name.find("down_proj") != std::string::npos || name.starts_with("lm_head");
  return is_finer ? BlockFormat::kQ6_K : BlockFormat::kQ4_K;
}

}  // namespace

TEST_CASE("gguf model: kept blocks of each format give the numbers they stand for") {
  for (const BlockFormat format : kQuantized) {
    CAPTURE(layout_of(format).name);
    check_kept(wide_llama(), format);
  }
}

TEST_CASE("gguf model: blocks of several formats are kept in one matrix, also beside plain rows") {
  ModelConfig config = wide_llama();
  config.attention_bias = true;
  check_kept(config, BlockFormat::kQ4_K, in_q4_k_m);
  check_kept(config, BlockFormat::kQ8_0, [](const std::string& name) {
    return name.find("k_proj") != std::string::npos ? BlockFormat::kF16 : BlockFormat::kQ8_0;
  });
}

TEST_CASE("gguf model: tied embeddings are read from the head's blocks, which are there once") {
  ModelConfig config = wide_llama();
  config.tied_embeddings = true;
  for (const BlockFormat format : {BlockFormat::kQ6_K, BlockFormat::kQ5_1, BlockFormat::kQ8_0}) {
    CAPTURE(layout_of(format).name);
    check_kept(config, format);
  }
  config.vocabulary_size = 4096;
  const TemporaryDirectory place;
  const auto gguf = place.path() / "model.gguf";
  test::write_twins(gguf, place.path() / "plain", config, BlockFormat::kQ8_0, 11);
  const auto of_file = static_cast<double>(WeightStore(gguf).files().front().size_bytes);
  const auto kept = plan_cpu_model(gguf, {.num_threads = 2}).memory.request.weight_bytes;
  CHECK(static_cast<double>(kept) < 1.03 * of_file);
}

TEST_CASE("gguf model: kept blocks take the file's memory and name the computation") {
  const TemporaryDirectory place;
  const auto gguf = place.path() / "model.gguf";
  ModelConfig config = wide_llama();
  config.vocabulary_size = 2048;
  test::write_twins(gguf, place.path() / "plain", config, BlockFormat::kQ4_K, 11, in_q4_k_m);
  const auto plan = [&](Quantization quantization) {
    return plan_cpu_model(gguf, {.quantization = quantization, .num_threads = 2});
  };
  const auto kept = plan(Quantization::kKeep);
  CHECK(kept.weight_formats == "Q4_K, Q6_K");
  CHECK(plan(Quantization::kNone).weight_formats.empty());
  CHECK(plan(Quantization::kQ8).weight_formats == "q8");
  const auto of_file = static_cast<double>(WeightStore(gguf).files().front().size_bytes);
  CHECK(static_cast<double>(kept.memory.request.weight_bytes) < 1.03 * of_file);
  CHECK(plan(Quantization::kNone).memory.request.weight_bytes > 3 * kept.memory.request.weight_bytes);
  std::set<std::string> computations;
  for (const auto quantization : {Quantization::kKeep, Quantization::kNone, Quantization::kQ8}) {
    BackendSettings settings;
    settings.model_dir = gguf.string();
    settings.quantization = quantization;
    computations.insert(make_cpu_backend(settings)->plan().computation);
  }
  CHECK(computations.size() == 3);
}

TEST_CASE("gguf model: packed blocks times rows of a one are the values of ggml's Python package") {
  const SafetensorsFile file(std::filesystem::path(TROUPE_SOURCE_DIR) / "tests" / "fixtures" /
                             "ggml_blocks.safetensors");
  for (const BlockFormat format : kQuantized) {
    const BlockLayout& layout = layout_of(format);
    CAPTURE(layout.name);
    const auto* blocks = file.find(std::string(layout.name) + ".blocks");
    const auto* stated = file.find(std::string(layout.name) + ".values");
    REQUIRE(blocks != nullptr);
    REQUIRE(stated != nullptr);
    const auto bytes = file.bytes_of(*blocks);
    std::vector<float> values(stated->size_bytes / sizeof(float));
    std::memcpy(values.data(), file.bytes_of(*stated).data(), stated->size_bytes);
    // A row for each block of the file.
    const std::size_t inputs = layout.num_elements, outputs = values.size() / inputs;
    PackedMatrix matrix(
        [&](std::size_t row, std::size_t, std::span<QuantizedBlock> into) {
          read_blocks(format, bytes.subspan(row * layout.num_bytes, layout.num_bytes), into);
        },
        outputs, inputs, format);
    matrix.pack();
    std::vector<float> a(inputs * inputs), c(inputs * outputs);
    for (std::size_t k = 0; k < inputs; ++k) a[k * inputs + k] = 1.0F;
    const MatmulArguments arguments{.weight = &matrix,
                                    .a = a.data(),
                                    .a_stride = inputs,
                                    .c = c.data(),
                                    .c_stride = outputs,
                                    .num_rows = inputs};
    for (std::size_t task = 0; task < matmul_num_tasks(arguments); ++task) matmul_run_task(arguments, task);
    for (std::size_t k = 0; k < inputs; ++k) {
      for (std::size_t n = 0; n < outputs; ++n) CHECK(c[k * outputs + n] == values[n * inputs + k]);
    }
  }
}

TEST_CASE("gguf model: each format gives the tokens and logits of the numbers it stands for") {
  for (const BlockFormat format :
       {BlockFormat::kF32, BlockFormat::kF16, BlockFormat::kBF16, BlockFormat::kQ4_0, BlockFormat::kQ4_1,
        BlockFormat::kQ5_0, BlockFormat::kQ5_1, BlockFormat::kQ8_0, BlockFormat::kQ4_K, BlockFormat::kQ5_K,
        BlockFormat::kQ6_K, BlockFormat::kIq4Nl, BlockFormat::kMxfp4}) {
    CAPTURE(layout_of(format).name);
    check_alike(wide_llama(), format, DataType::kF32);
  }
}

TEST_CASE("gguf model: weights in f16 take half the bytes of f32 ones and give the same logits") {
  ModelConfig tied = wide_llama(), odd = wide_llama();
  tied.tied_embeddings = tied.attention_bias = true;
  odd.hidden_size = 104;
  odd.intermediate_size = 172;
  odd.head_dim = 24;
  for (const ModelConfig& config : {wide_llama(), tied, odd, wide_mixtral()}) {
    const TemporaryDirectory place;
    const auto gguf = place.path() / "model.gguf", directory = place.path() / "plain";
    test::write_twins(gguf, directory, config, BlockFormat::kF16, 11);
    const auto of_f16 = plan_cpu_model(gguf, {}), of_f32 = plan_cpu_model(directory, {});
    CHECK(of_f16.compute_type == DataType::kF32);
    CHECK(static_cast<double>(of_f16.memory.request.weight_bytes) <
          0.52 * static_cast<double>(of_f32.memory.request.weight_bytes));
    const Answer short_ones = answer_of(gguf, DataType::kF32);
    const Answer long_ones = answer_of(directory, DataType::kF32);
    CHECK(short_ones.tokens == long_ones.tokens);
    CHECK(short_ones.logits == long_ones.logits);
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
  ModelConfig config = wide_mixtral();
  check_alike(config, BlockFormat::kQ4_K, DataType::kF32);
  config.architecture = "Qwen3MoeForCausalLM";
  config.head_norms = true;
  config.experts = ExpertsConfig{.num_experts = 4, .num_chosen = 3, .intermediate_size = 512};
  check_alike(config, BlockFormat::kQ8_0, DataType::kBF16);
}

TEST_CASE("gguf model: gpt-oss has stacks of gates, of ups and of biases, and sinks") {
  check_alike(wide_gpt_oss(), BlockFormat::kMxfp4, DataType::kF32);
}

TEST_CASE("gguf model: experts' blocks are kept, those of two formats in one matrix are opened") {
  check_kept(wide_mixtral(), BlockFormat::kQ4_K, in_q4_k_m);
  check_kept(wide_gpt_oss(), BlockFormat::kMxfp4);
  check_kept(wide_mixtral(), BlockFormat::kQ4_K, [](const std::string& name) {
    return name.find(".w3.") != std::string::npos ? BlockFormat::kQ6_K : BlockFormat::kQ4_K;
  });
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
