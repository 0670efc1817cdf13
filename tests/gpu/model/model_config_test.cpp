// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/model_config.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "gpu/networks/network.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace model_config_test {
namespace {

using nlohmann::json;

json good_config() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"hidden_size", 64},
          {"intermediate_size", 172},
          {"num_hidden_layers", 5},
          {"num_attention_heads", 8},
          {"num_key_value_heads", 4},
          {"vocab_size", 512},
          {"max_position_embeddings", 1024},
          {"rms_norm_eps", 1e-5},
          {"hidden_act", "silu"},
          {"torch_dtype", "bfloat16"},
          {"bos_token_id", 1},
          {"eos_token_id", 2}};
}

ModelConfig load(const json& config, const TemporaryDirectory& directory = {}) {
  directory.write("config.json", config.dump());
  return load_model_config(directory.path());
}

json with(const char* key, const json& value) {
  json config = good_config();
  config[key] = value;
  return config;
}

}  // namespace

TEST_CASE("model config: what a Llama states is read") {
  const ModelConfig config = load(good_config());
  CHECK(config.architecture == "LlamaForCausalLM");
  CHECK(config.hidden_size == 64);
  CHECK(config.intermediate_size == 172);
  CHECK(config.num_layers == 5);
  CHECK(config.num_heads == 8);
  CHECK(config.num_kv_heads == 4);
  CHECK(config.head_dim == 8);
  CHECK(config.vocabulary_size == 512);
  CHECK(config.context_length == 1024);
  CHECK(config.norm_epsilon == doctest::Approx(1e-5));
  CHECK(config.rope_theta == 10000.0F);
  CHECK_FALSE(config.rope_scaling.has_value());
  CHECK_FALSE(config.tied_embeddings);
  CHECK(config.weight_type == DataType::kBF16);
  CHECK(config.bos_token == 1);
  CHECK(config.eos_tokens == std::vector<std::int32_t>{2});
}

TEST_CASE("model config: end tokens of both files are joined") {
  const TemporaryDirectory directory;
  directory.write("generation_config.json",
                  R"({"eos_token_id":[2,7],"temperature":0.5,"top_p":0.9,"top_k":40})");
  const ModelConfig config = load(good_config(), directory);
  CHECK(config.eos_tokens == std::vector<std::int32_t>{2, 7});
  const auto defaults = load_generation_defaults(directory.path());
  CHECK(defaults.temperature == 0.5F);
  CHECK(defaults.top_p == 0.9F);
  CHECK(defaults.top_k == 40);
  CHECK_FALSE(defaults.min_p.has_value());
  CHECK(defaults.unapplied.empty());
}

TEST_CASE("model config: recommended cuts and penalties are read, those without an equal are named") {
  const TemporaryDirectory directory;
  const auto read = [&](const char* document) {
    directory.write("generation_config.json", document);
    return load_generation_defaults(directory.path());
  };
  const auto defaults = read(R"({"min_p": 0.05, "repetition_penalty": 1.1, "num_beams": 4, "typical_p": 0.9,
      "no_repeat_ngram_size": 0, "bad_words_ids": [[7]], "suppress_tokens": [], "stop_strings": null})");
  CHECK(defaults.min_p == 0.05F);
  CHECK(defaults.repetition_penalty == 1.1F);
  CHECK(defaults.unapplied == std::vector<std::string>{"bad_words_ids", "num_beams", "typical_p"});
  CHECK_THROWS_WITH_AS(read(R"({"repetition_penalty": 0})"),
                       doctest::Contains("repetition_penalty is 0, expected a number greater than 0"),
                       std::runtime_error);
  CHECK_THROWS_WITH_AS(read(R"({"min_p": 1.5})"), doctest::Contains("min_p"), std::runtime_error);
}

TEST_CASE("model config: a recommended top_p of 0 is refused, as a request's is") {
  const TemporaryDirectory directory;
  directory.write("generation_config.json", R"({"top_p": 0})");
  CHECK_THROWS_WITH_AS(load_generation_defaults(directory.path()),
                       doctest::Contains("top_p is 0, expected a number greater than 0"), std::runtime_error);
}

TEST_CASE("model config: a model that is not to be sampled from is answered greedily") {
  const TemporaryDirectory directory;
  directory.write("generation_config.json", R"({"do_sample": false, "temperature": 0.7})");
  CHECK(load_generation_defaults(directory.path()).temperature == 0.0F);
}

TEST_CASE("model config: Qwen2 always has biases, but none behind attention, and slides where it says so") {
  auto document = with("architectures", json::array({"Qwen2ForCausalLM"}));
  const auto config = load(document);
  CHECK(config.attention_bias);
  CHECK(config.qkv_bias_only);
  bool has_output_bias = false;
  for (const auto& weight : make_network(config)->weights())
    has_output_bias |= weight.name.ends_with(".o_bias");
  CHECK_FALSE(has_output_bias);
  document["use_sliding_window"] = true;
  document["sliding_window"] = 64;
  document["max_window_layers"] = 3;
  const auto sliding = load(document);
  CHECK(sliding.sliding_window == 64);
  CHECK(sliding.is_sliding == std::vector<bool>{false, false, false, true, true});
  document["max_window_layers"] = 0;
  document["layer_types"] = json::array();
  for (int layer = 0; layer < 5; ++layer) document["layer_types"].push_back("full_attention");
  CHECK(load(document).is_sliding == std::vector<bool>(5, false));  // a list makes the other field unread
  CHECK_THROWS_WITH_AS(load(with("sliding_window", -1)), doctest::Contains("sliding_window is -1"),
                       std::runtime_error);
}

TEST_CASE("model config: without generation_config.json nothing is recommended") {
  const TemporaryDirectory directory;
  const auto defaults = load_generation_defaults(directory.path());
  CHECK_FALSE(defaults.temperature.has_value());
  CHECK_FALSE(defaults.top_k.has_value());
}

TEST_CASE("model config: a null counts as absent") {
  CHECK(load(with("num_key_value_heads", nullptr)).num_kv_heads == 8);
  CHECK_FALSE(load(with("rope_scaling", nullptr)).rope_scaling.has_value());
  CHECK(load(with("eos_token_id", nullptr)).eos_tokens.empty());
  CHECK_NOTHROW(load(with("quantization_config", nullptr)));
}

TEST_CASE("model config: rotary scaling in its spellings") {
  const auto linear = load(with("rope_scaling", {{"type", "linear"}, {"factor", 2.0}}));
  CHECK(linear.rope_scaling->type == "linear");
  CHECK(linear.rope_scaling->factor == 2.0F);
  const auto llama3 = load(with("rope_scaling", {{"rope_type", "llama3"},
                                                 {"factor", 8.0},
                                                 {"low_freq_factor", 1.0},
                                                 {"high_freq_factor", 4.0},
                                                 {"original_max_position_embeddings", 8192}}));
  CHECK(llama3.rope_scaling->original_context_length == 8192);
  const auto newer = load(with("rope_parameters", {{"rope_type", "default"}, {"rope_theta", 500000.0}}));
  CHECK(newer.rope_theta == 500000.0F);
  CHECK_FALSE(newer.rope_scaling.has_value());
}

TEST_CASE("model config: a Mistral without a sliding window is a Llama") {
  json config = with("architectures", {"MistralForCausalLM"});
  config["sliding_window"] = nullptr;
  CHECK(make_network(load(config))->layer_prefixes() == make_network(load(good_config()))->layer_prefixes());
  config["sliding_window"] = 256;
  CHECK(load(config).sliding_window == 256);
  config["sliding_window"] = 1024;  // all of the context
  CHECK(load(config).sliding_window == 0);
}

TEST_CASE("model config: SmolLM3 has no positions in every fourth layer, unless a list says otherwise") {
  json config = with("architectures", {"SmolLM3ForCausalLM"});
  CHECK(load(config).is_rotated == std::vector<bool>{true, true, true, false, true});
  CHECK(load(config).rope_theta == 2e6F);
  CHECK(load(config).tied_embeddings);
  config["no_rope_layers"] = {0, 1, 1, 1, 1};
  CHECK(load(config).is_rotated == std::vector<bool>{false, true, true, true, true});
  config["no_rope_layers"] = {0, 1};
  CHECK_THROWS_WITH_AS(load(config), doctest::Contains("no_rope_layers is not a list of num_hidden_layers 5"),
                       std::runtime_error);
  config["no_rope_layers"] = {0, 1, 2, 1, 1};
  CHECK_THROWS_WITH_AS(load(config), doctest::Contains("no_rope_layers has 2, expected 0 or 1"),
                       std::runtime_error);
}

TEST_CASE("model config: the part of a head that rotates is cut to an integer as in Python") {
  json config = with("head_dim", 200);
  config["partial_rotary_factor"] = 0.565;  // 112.99..., and 113 in f32
  CHECK(load(config).rotary_dim == 112);
  config["partial_rotary_factor"] = 0.29;  // 57.99..., and 58 in f32
  CHECK_THROWS_WITH_AS(load(config), doctest::Contains("rotates 57 of 200 elements of a head"),
                       std::runtime_error);
}

TEST_CASE("model config: layer_types says which layers slide") {
  json config = with("architectures", {"MistralForCausalLM"});
  config["sliding_window"] = 32;
  config["layer_types"] = json::array(
      {"sliding_attention", "full_attention", "full_attention", "sliding_attention", "full_attention"});
  CHECK(load(config).is_sliding == std::vector<bool>{true, false, false, true, false});
  config["layer_types"][2] = "linear_attention";
  CHECK_THROWS_WITH_AS(load(config), doctest::Contains("layer_types has \"linear_attention\""),
                       std::runtime_error);
}

TEST_CASE("model config: without architectures, model_type names the family") {
  for (const auto& [type, architecture] :
       {std::pair("llama", "LlamaForCausalLM"), std::pair("phi3", "Phi3ForCausalLM"),
        std::pair("qwen3", "Qwen3ForCausalLM")}) {
    json config = with("model_type", type);
    config.erase("architectures");
    CHECK(load(config).architecture == architecture);
  }
}

TEST_CASE("model config: what is not supported is refused in one sentence") {
  struct Case {
    const char* key;
    json value;
    const char* reason;
  };
  const Case cases[] = {
      {"architectures", {"BloomForCausalLM"}, "BloomForCausalLM\" is not supported"},
      {"architectures", json::array(), "architectures"},
      {"architectures", 3, "architectures"},
      {"hidden_act", "gelu", "hidden_act \"gelu\" is not supported"},
      {"hidden_act", 1, "hidden_act is 1, expected a string"},
      {"quantization_config", {{"bits", 4}}, "quantization_config"},
      {"rope_scaling", {{"type", "ntk"}, {"factor", 4.0}}, "\"ntk\" is not supported"},
      {"rope_scaling", {{"type", "yarn"}}, "no factor"},
      {"rope_scaling", {{"type", "yarn"}, {"factor", 2.0}, {"beta_fast", 1.0}}, "beta_slow < beta_fast"},
      {"rope_scaling", {{"type", "longrope"}}, "longrope needs original_max_position_embeddings"},
      {"rope_scaling",
       {{"type", "longrope"}, {"original_max_position_embeddings", 64}, {"short_factor", {1.0, 0.0}}},
       "short_factor is not a list of 4 numbers"},
      {"rope_scaling",
       {{"type", "longrope"}, {"original_max_position_embeddings", 64}, {"short_factor", {1, 1, 1, 0}}},
       "short_factor has 0, expected a number"},
      {"rope_scaling", {{"rope_type", "linear"}}, "no factor"},
      {"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}}, "low_freq_factor"},
      {"rope_scaling", "linear", "not a JSON object"},
      {"partial_rotary_factor", 0.125, "rotates 1 of 8 elements of a head, expected an even number"},
      {"head_dim", 12, "head_dim 12 is not supported"},
      {"head_dim", 512, "head_dim 512 is not supported"},
      {"head_dim", 0, "head_dim is 0"},
      {"num_attention_heads", 12, "hidden_size 64 is no multiple"},
      {"num_key_value_heads", 3, "no multiple of num_key_value_heads 3"},
      {"hidden_size", 0, "hidden_size is 0, expected an integer"},
      {"hidden_size", -64, "hidden_size is -64"},
      {"hidden_size", 64.5, "hidden_size is 64.5"},
      {"hidden_size", "64", "hidden_size is \"64\""},
      {"hidden_size", 4294967296, "hidden_size is 4294967296"},
      {"hidden_size", true, "hidden_size is true"},
      {"num_hidden_layers", 1000000, "num_hidden_layers"},
      {"vocab_size", 1000000000, "vocab_size"},
      {"max_position_embeddings", 0, "max_position_embeddings"},
      {"rms_norm_eps", -1.0, "rms_norm_eps"},
      {"rms_norm_eps", "tiny", "rms_norm_eps"},
      {"rope_theta", 0.0, "rope_theta"},
      {"torch_dtype", "float64", "\"float64\" is not supported"},
      {"tie_word_embeddings", "yes", "tie_word_embeddings"},
      {"eos_token_id", 512, "below vocab_size 512"},
      {"eos_token_id", -1, "eos_token_id has -1"},
      {"eos_token_id", "</s>", "eos_token_id"},
      {"bos_token_id", 100000, "bos_token_id"},
  };
  for (const auto& [key, value, reason] : cases) {
    CAPTURE(key);
    CAPTURE(value.dump());
    CHECK_THROWS_WITH_AS(load(with(key, value)), doctest::Contains(reason), std::runtime_error);
    CHECK_THROWS_WITH_AS(load(with(key, value)), doctest::Contains("config.json"), std::runtime_error);
  }
}

TEST_CASE("model config: sizes that multiply to absurdity are refused") {
  json config = good_config();
  config["hidden_size"] = 1 << 20;
  config["intermediate_size"] = 1 << 20;
  config["num_hidden_layers"] = 1024;
  config["head_dim"] = 128;
  CHECK_THROWS_WITH_AS(load(config), doctest::Contains("1e13 parameters"), std::runtime_error);
}

TEST_CASE("model config: missing fields and files are named") {
  for (const char* key : {"hidden_size", "vocab_size", "num_hidden_layers", "architectures"}) {
    json config = good_config();
    config.erase(key);
    CHECK_THROWS_WITH_AS(load(config), doctest::Contains(key), std::runtime_error);
  }
  const TemporaryDirectory empty;
  CHECK_THROWS_WITH_AS(load_model_config(empty.path()), doctest::Contains("config.json: is missing"),
                       std::runtime_error);
}

TEST_CASE("model config: broken JSON is refused with the file's name") {
  const TemporaryDirectory directory;
  for (const char* text :
       {"", "{", "null", "[1]", "{\"a\":1,\"a\":2}", "{\"a\":1e999}", "{\"a\":NaN}", "\xFF", "{} {}"}) {
    CAPTURE(text);
    directory.write("config.json", text);
    CHECK_THROWS_WITH_AS(load_model_config(directory.path()), doctest::Contains("config.json: "),
                         std::runtime_error);
  }
}

}  // namespace model_config_test
}  // namespace troupe
