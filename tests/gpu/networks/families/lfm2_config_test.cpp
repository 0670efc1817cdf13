// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/families/family.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "gpu/networks/network.hpp"
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
