// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/families/family.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "gpu/model/weights.hpp"
#include "gpu/networks/network.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/gpu/gguf_writer.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

using nlohmann::json;

// The sizes of LFM2-1.2B, but for fewer layers and tokens.
json lfm2_config() {
  return {{"architectures", {"Lfm2ForCausalLM"}},
          {"hidden_size", 2048},
          {"block_ff_dim", 12288},
          {"num_hidden_layers", 4},
          {"num_attention_heads", 32},
          {"num_key_value_heads", 8},
          {"full_attn_idxs", json::array({2})},
          {"conv_L_cache", 3},
          {"norm_eps", 1e-5},
          {"vocab_size", 512}};
}

ModelConfig load(const json& config) {
  const TemporaryDirectory directory;
  directory.write("config.json", config.dump());
  return load_model_config(directory.path());
}

}  // namespace

TEST_CASE("lfm2 config: sizes are adjusted, layers are named by number or by type") {
  const ModelConfig config = load(lfm2_config());
  CHECK(config.intermediate_size == 8192);
  CHECK(config.tied_embeddings);
  CHECK(config.head_norms);
  CHECK(config.rope_theta == 1e6F);
  CHECK(config.lfm2->num_taps == 3);
  CHECK(config.lfm2->is_convolution == std::vector<bool>{true, true, false, true});
  CHECK(make_network(config)->shapes().num_layers == 7);  // 2048 channels are two page layers
  json other = lfm2_config();
  other.erase("full_attn_idxs");
  other.erase("block_ff_dim");
  other["intermediate_size"] = 300;
  other["block_ffn_dim_multiplier"] = 1.5;
  other["block_multiple_of"] = 16;
  other["layer_types"] = {"full_attention", "conv", "full_attention", "conv"};
  CHECK(load(other).intermediate_size == 304);
  CHECK(load(other).lfm2->is_convolution == std::vector<bool>{false, true, false, true});
  other["block_auto_adjust_ff_dim"] = false;
  CHECK(load(other).intermediate_size == 300);
}

// A layer of convolution is more than one layer of pages: counting those would let the last layers pass.
TEST_CASE("lfm2 config: one with fewer layers than the weights have is refused") {
  const auto fixture = std::filesystem::path(TROUPE_SOURCE_DIR) / "tests/fixtures/families/lfm2";
  json document = json::parse(test::file_text(fixture / "config.json"));
  document["num_hidden_layers"] = 4;
  document["layer_types"] = {"conv", "full_attention", "conv", "conv"};
  const TemporaryDirectory directory;
  directory.write("config.json", document.dump());
  std::filesystem::copy_file(fixture / "model.safetensors", directory.path() / "model.safetensors");
  const auto network = load_network(directory.path());
  CHECK(network->shapes().num_layers >= 5);
  CHECK_THROWS_WITH_AS(check_weights(WeightStore(directory.path()), *network),
                       "the configuration says num_hidden_layers 4, but the weights have 5 layers",
                       std::runtime_error);
}

TEST_CASE("lfm2 config: keys of a GGUF file that say no layer's kind are refused by name") {
  const auto refusal_with = [](std::vector<std::uint64_t> heads, bool has_taps) -> std::string {
    test::GgufWriter writer;
    writer.add_text("general.architecture", "lfm2");
    for (const auto& [key, value] : {std::pair{"embedding_length", 64U}, std::pair{"block_count", 3U},
                                     std::pair{"feed_forward_length", 64U}, std::pair{"context_length", 64U},
                                     std::pair{"attention.head_count", 4U}, std::pair{"vocab_size", 64U}})
      writer.add(std::string("lfm2.") + key, value);
    writer.add_float("lfm2.attention.layer_norm_rms_epsilon", 1e-5F);
    if (has_taps) writer.add("lfm2.shortconv.l_cache", 3U);
    std::vector<std::string> array;
    for (const std::uint64_t count : heads) array.push_back(test::gguf_number(count, 4));
    writer.add_array("lfm2.attention.head_count_kv", test::GgufType::kU32, array);
    const TemporaryDirectory directory;
    try {
      (void)load_model_config(directory.write("model.gguf", writer.file()));
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  const auto refuses = [&](std::vector<std::uint64_t> heads, const char* reason) {
    const std::string refusal = refusal_with(std::move(heads), true);
    CHECK_MESSAGE(refusal.find(reason) != std::string::npos, refusal);
  };
  CHECK(refusal_with({0, 2, 0}, true) == "");
  refuses({0, 2}, "lfm2.attention.head_count_kv has 2 entries, expected one for each layer");
  refuses({0, 2, 4}, "lfm2.attention.head_count_kv has counts other than 0 that differ");
  refuses({0, 0, 0}, "num_key_value_heads is 0");
  CHECK(refusal_with({0, 2, 0}, false).find("lfm2.shortconv.l_cache is missing") != std::string::npos);
}

TEST_CASE("lfm2 config: what is not supported is refused by name") {
  struct Case {
    const char* key;
    json value;
    const char* reason;
  };
  const Case cases[] = {
      {"conv_bias", true, "conv_bias is not supported"},
      {"conv_L_cache", 17, "conv_L_cache"},
      {"full_attn_idxs", json::array({4}), "full_attn_idxs has 4, expected numbers of layers"},
      {"layer_types", json::array({"conv"}), "layer_types is not a list of num_hidden_layers entries"},
      {"layer_types", {"conv", "conv", "conv", "linear"}, "layer_types has \"linear\""},
      {"block_ff_dim", 1, "make 0 elements"},
  };
  for (const Case& wrong : cases) {
    CAPTURE(wrong.key);
    json document = lfm2_config();
    document[wrong.key] = wrong.value;
    CHECK_THROWS_WITH_AS(load(document), doctest::Contains(wrong.reason), std::runtime_error);
  }
}

}  // namespace troupe
