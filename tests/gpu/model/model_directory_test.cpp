// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/model_directory.hpp"

#include <algorithm>
#include <cstddef>

#include <doctest/doctest.h>

#include "gpu/cpu/cpu_model.hpp"
#include "tests/gpu/tiny_model.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

ModelDirectory inspect(const std::filesystem::path& path, const CpuModelSettings& settings = {}) {
  return inspect_model_directory(path, [&settings](const std::filesystem::path& model) {
    const CpuModelPlan plan = plan_cpu_model(model, settings);
    return ModelPlan{
        .compute_type = plan.compute_type, .weight_formats = plan.weight_formats, .memory = plan.memory};
  });
}

}  // namespace

TEST_CASE("model directory: a good one is described") {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_llama(), 1);
  directory.write("modeling_evil.py", "raise SystemExit");
  const auto seen = inspect(directory.path(), {.compute_type = DataType::kBF16});
  CHECK(seen.unsupported.empty());
  CHECK(seen.architecture == "LlamaForCausalLM");
  REQUIRE(seen.files.size() == 2);
  CHECK(seen.files[0].name == "config.json");
  CHECK(seen.files[1].name == "model.safetensors");
  const std::uint64_t layer = 64 * (4 + 2 * 2) * 16 + 64 * 64 + 3 * 64 * 96 + 2 * 64;
  CHECK(seen.num_parameters == 100 * 64 + 2 * layer + 64);
  REQUIRE(seen.element_types.count("BF16") == 1);
  CHECK(seen.element_types.at("BF16").size_bytes == 2 * seen.num_parameters);
  CHECK(seen.compute_type == DataType::kBF16);
  // Keys and values of two layers, two heads of 16, two bytes each.
  CHECK(seen.kv_bytes_per_token == 2 * 2 * 2 * 16 * 2);
  CHECK(seen.memory->num_pages >= 4);
  CHECK(seen.weight_formats.empty());
  CHECK(inspect(directory.path(), {.quantization = Quantization::kQ4}).weight_formats == "q4");
}

TEST_CASE("model directory: what is wrong is said, and what is known is still shown") {
  const TemporaryDirectory directory;
  directory.write("config.json", R"({"architectures":["FancyForCausalLM"]})");
  auto seen = inspect(directory.path());
  CHECK(seen.architecture == "FancyForCausalLM");
  CHECK(seen.unsupported.find("FancyForCausalLM\" is not supported") != std::string::npos);
  CHECK(seen.files.size() == 1);

  write_random_llama(directory.path(), tiny_llama(), 1);
  std::filesystem::resize_file(directory.path() / "model.safetensors", 5000);
  seen = inspect(directory.path());
  CHECK(seen.config.has_value());
  CHECK(seen.unsupported.find("model.safetensors: is truncated") != std::string::npos);

  CHECK(inspect(directory.path() / "nothing").unsupported.find("is neither a directory nor a GGUF file") !=
        std::string::npos);
}

TEST_CASE("random model: the same seed gives the same bytes, another one others") {
  const TemporaryDirectory a;
  const TemporaryDirectory b;
  write_random_llama(a.path(), tiny_llama(), 1);
  write_random_llama(b.path(), tiny_llama(), 1);
  CHECK(test::file_text(a.path() / "model.safetensors") == test::file_text(b.path() / "model.safetensors"));
  write_random_llama(b.path(), tiny_llama(), 2);
  CHECK(test::file_text(a.path() / "model.safetensors") != test::file_text(b.path() / "model.safetensors"));
}

TEST_CASE("random model: tokens that are not to be drawn have a head of zeros") {
  const TemporaryDirectory directory;
  ModelConfig config = tiny_llama();
  config.tied_embeddings = false;
  write_random_llama(directory.path(), config, 1, {3, 99});
  const WeightStore weights(directory.path());
  const auto head = weights.find("lm_head.weight").bytes;
  for (std::uint32_t row = 0; row < config.vocabulary_size; ++row) {
    const auto bytes = head.subspan(row * config.hidden_size * 2, config.hidden_size * 2);
    const bool is_zero =
        std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
    CHECK(is_zero == (row != 3 && row != 99));
  }
  config.tied_embeddings = true;
  CHECK_THROWS_WITH(
      write_random_llama(directory.path(), config, 1, {3}),
      "a random model that draws some tokens only needs a head of its own, not tied embeddings");
}

TEST_CASE("random model: what was written is read back") {
  const TemporaryDirectory directory;
  ModelConfig config = tiny_llama();
  config.attention_bias = true;
  config.tied_embeddings = false;
  config.rope_scaling = RopeScaling{.type = "llama3",
                                    .factor = 8.0F,
                                    .low_frequency_factor = 1.0F,
                                    .high_frequency_factor = 4.0F,
                                    .original_context_length = 64};
  write_random_llama(directory.path(), config, 1);
  const ModelConfig read = load_model_config(directory.path());
  CHECK(read.head_dim == config.head_dim);
  CHECK(read.attention_bias);
  CHECK_FALSE(read.tied_embeddings);
  CHECK(read.rope_scaling->original_context_length == 64);
  CHECK(read.eos_tokens == config.eos_tokens);
  CHECK_NOTHROW(check_weights(WeightStore(directory.path()), *make_network(read)));
}

TEST_CASE("model directory: more layers in the weights than in the configuration are refused") {
  const TemporaryDirectory directory;
  const ModelConfig config = tiny_llama();
  write_random_llama(directory.path(), config, 1);
  ModelConfig smaller = config;
  smaller.num_layers -= 1;
  const WeightStore store(directory.path());
  CHECK_NOTHROW(check_weights(store, *make_network(config)));
  const std::string complaint = "the configuration says num_hidden_layers " +
                                std::to_string(smaller.num_layers) + ", but the weights have " +
                                std::to_string(config.num_layers) + " layers";
  CHECK_THROWS_WITH_AS(check_weights(store, *make_network(smaller)), complaint.c_str(), std::runtime_error);
}

TEST_CASE("model directory: a token meets the parameters of the experts that it chooses, and all others") {
  const auto seen = inspect(std::filesystem::path(TROUPE_SOURCE_DIR) / "tests/fixtures/families/mixtral");
  REQUIRE(seen.unsupported.empty());
  constexpr std::uint64_t kOfExpert = 3 * 48 * 32, kLayers = 2;
  CHECK(seen.num_parameters > kLayers * 5 * kOfExpert);
  CHECK(seen.num_parameters - seen.num_active_parameters == kLayers * 3 * kOfExpert);
  const auto blocks = inspect(std::filesystem::path(TROUPE_SOURCE_DIR) / "tests/fixtures/families/gpt_oss");
  const ElementTypeCount& mxfp4 = blocks.element_types.at("MXFP4");
  CHECK(mxfp4.num_elements == kLayers * 5 * 3 * 32 * 32);
  CHECK(mxfp4.size_bytes == mxfp4.num_elements / 32 * 17);
  // Biases, too, are an expert's.
  CHECK(blocks.num_parameters - blocks.num_active_parameters == kLayers * 3 * (3 * 32 * 32 + 3 * 32));
}

}  // namespace troupe
