// SPDX-License-Identifier: Apache-2.0
#include "gpu/model_config.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "gpu/networks/network.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
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
}

TEST_CASE("model config: a model that is not to be sampled from is answered greedily") {
  const TemporaryDirectory directory;
  directory.write("generation_config.json", R"({"do_sample": false, "temperature": 0.7})");
  CHECK(load_generation_defaults(directory.path()).temperature == 0.0F);
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
  CHECK(make_network(load(config))->config().architecture == "MistralForCausalLM");
  config["sliding_window"] = 256;
  CHECK_THROWS_WITH_AS(load(config), doctest::Contains("sliding_window 256 is not supported"),
                       std::runtime_error);
}

TEST_CASE("model config: what is not supported is refused in one sentence") {
  struct Case {
    const char* key;
    json value;
    const char* reason;
  };
  const Case cases[] = {
      {"architectures", {"GPT2LMHeadModel"}, "GPT2LMHeadModel\" is not supported"},
      {"architectures", json::array(), "architectures"},
      {"architectures", 3, "architectures"},
      {"hidden_act", "gelu", "hidden_act \"gelu\" is not supported"},
      {"hidden_act", 1, "hidden_act is 1, expected a string"},
      {"quantization_config", {{"bits", 4}}, "quantization_config"},
      {"rope_scaling", {{"type", "yarn"}, {"factor", 4.0}}, "\"yarn\" is not supported"},
      {"rope_scaling", {{"rope_type", "linear"}}, "no factor"},
      {"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}}, "low_freq_factor"},
      {"rope_scaling", "linear", "not a JSON object"},
      {"partial_rotary_factor", 0.5, "partial_rotary_factor"},
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

}  // namespace troupe
