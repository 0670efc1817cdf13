// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/families/family.hpp"

#include <algorithm>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "gpu/model/model_config.hpp"
#include "gpu/networks/network.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

using nlohmann::json;

json good_config(const char* architecture) {
  return {{"architectures", {architecture}},
          {"hidden_size", 96},
          {"intermediate_size", 172},
          {"num_hidden_layers", 7},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"vocab_size", 512},
          {"max_position_embeddings", 1024},
          {"hidden_act", "gelu_pytorch_tanh"}};
}

ModelConfig load(const json& config) {
  const TemporaryDirectory directory;
  directory.write("config.json", config.dump());
  return load_model_config(directory.path());
}

}  // namespace

TEST_CASE("gemma config: what is left out is what the family has") {
  const ModelConfig second = load(good_config("Gemma2ForCausalLM"));
  CHECK(second.head_dim == 256);
  CHECK(second.tied_embeddings);
  CHECK(second.rope_theta == 10000.0F);
  CHECK_FALSE(second.head_norms);
  CHECK(second.is_sliding == std::vector<bool>{true, false, true, false, true, false, true});
  CHECK(second.gemma->query_scalar == 256.0F);
  CHECK(second.gemma->attention_cap == 50.0F);
  CHECK(second.gemma->logit_cap == 30.0F);
  CHECK(second.gemma->lacks_one);
  CHECK_FALSE(second.gemma->local_theta.has_value());
  const ModelConfig third = load(good_config("Gemma3ForCausalLM"));
  CHECK(third.rope_theta == 1e6F);
  CHECK(third.head_norms);
  CHECK(third.is_sliding == std::vector<bool>{true, true, true, true, true, false, true});
  CHECK(third.gemma->attention_cap == 0.0F);
  CHECK(third.gemma->logit_cap == 0.0F);
  CHECK(third.gemma->local_theta == 10000.0F);
}

TEST_CASE("gemma config: what is stated is read, and null switches a cap off") {
  json document = good_config("Gemma2ForCausalLM");
  document["head_dim"] = 32;
  document["sliding_window"] = 64;
  document["query_pre_attn_scalar"] = 144;
  document["attn_logit_softcapping"] = nullptr;
  document["final_logit_softcapping"] = 10000.0;
  const ModelConfig config = load(document);
  CHECK(config.head_dim == 32);
  CHECK(config.sliding_window == 64);
  CHECK(config.gemma->query_scalar == 144.0F);
  CHECK(config.gemma->attention_cap == 0.0F);
  CHECK(config.gemma->logit_cap == 10000.0F);
}

TEST_CASE("gemma config: a window as long as the context is none, but layers still have their own rotation") {
  const ModelConfig config = load(good_config("Gemma3ForCausalLM"));
  CHECK(config.sliding_window == 0);
  const auto network = make_network(config);
  REQUIRE(network->shapes().local_rotary.has_value());
  CHECK(network->shapes().local_rotary->theta == 10000.0);
  std::size_t num_local = 0;
  for (const Operator& op : network->build_program(0, {1, 1}, DataType::kF32).operators) {
    const auto* rotary = std::get_if<RotaryAppendKv>(&op.kind);
    num_local += rotary != nullptr && rotary->is_local;
  }
  CHECK(num_local == 6);
}

TEST_CASE("gemma config: rotations in the spelling of older files and of newer ones") {
  json older = good_config("Gemma3ForCausalLM");
  older["rope_theta"] = 2e6;
  older["rope_local_base_freq"] = 20000.0;
  older["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  json newer = good_config("Gemma3ForCausalLM");
  newer["rope_parameters"] = {
      {"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 2e6}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 20000.0}}}};
  json mixed = good_config("Gemma3ForCausalLM");
  mixed["rope_scaling"] = {
      {"full_attention", {{"type", "linear"}, {"factor", 8.0}, {"rope_theta", 2e6}}},
      {"sliding_attention", {{"type", "default"}, {"partial_rotary_factor", 1.0}, {"rope_theta", 20000.0}}}};
  for (const json& document : {older, newer, mixed}) {
    const ModelConfig config = load(document);
    CHECK(config.rope_theta == 2e6F);
    CHECK(config.rope_scaling->factor == 8.0F);
    CHECK(config.gemma->local_theta == 20000.0F);
  }
}

TEST_CASE("gemma config: embeddings are multiplied by a root that is rounded as they are") {
  const auto network = make_network(load(good_config("Gemma2ForCausalLM")));
  const auto scale_of = [&](DataType type) {
    return std::get<Embed>(network->build_program(0, {1, 1}, type).operators.front().kind).scale;
  };
  CHECK(scale_of(DataType::kF32) == 9.79795897F);
  CHECK(scale_of(DataType::kBF16) == 9.8125F);
  CHECK(scale_of(DataType::kF16) == 9.796875F);
}

TEST_CASE("gemma config: programs use exactly the weights that the network names") {
  for (const char* architecture : {"Gemma2ForCausalLM", "Gemma3ForCausalLM"}) {
    const auto network = make_network(load(good_config(architecture)));
    const Program program = network->build_program(0, {4, 2}, DataType::kBF16);
    const auto weights = network->weights();
    std::size_t num_used = 0;
    for (const TensorSpec& tensor : program.tensors) {
      if (tensor.role != TensorRole::kWeight) continue;
      ++num_used;
      const auto found = std::find_if(weights.begin(), weights.end(),
                                      [&](const WeightSpec& weight) { return weight.name == tensor.name; });
      REQUIRE_MESSAGE(found != weights.end(), tensor.name);
      CHECK(found->rows == tensor.fixed_rows);
      CHECK(found->columns == tensor.columns);
      CHECK(found->added == (tensor.name.ends_with("norm") ? 1.0F : 0.0F));
    }
    CHECK(num_used == weights.size());
  }
}

TEST_CASE("gemma config: what is not supported is refused by name") {
  struct Case {
    const char* key;
    json value;
    const char* reason;
  };
  const Case cases[] = {
      {"hidden_activation", "gelu", "hidden_activation \"gelu\" is not supported"},
      {"use_bidirectional_attention", true, "(use_bidirectional_attention) is not supported"},
      {"query_pre_attn_scalar", 0, "query_pre_attn_scalar is 0"},
      {"attn_logit_softcapping", -1.0, "attn_logit_softcapping is -1.0"},
      {"attn_logit_softcapping", 10001.0, "attn_logit_softcapping is 10001.0, expected a number from"},
      {"final_logit_softcapping", 1e6, "final_logit_softcapping is 1000000.0, expected a number from"},
      {"final_logit_softcapping", "high", "final_logit_softcapping is \"high\""},
      {"rope_local_base_freq", 0.5, "rope_local_base_freq is 0.5"},
      {"rope_parameters", {{"sliding_attention", {{"rope_type", "yarn"}}}}, "\"yarn\" is not supported"},
      {"rope_parameters", {{"sliding_attention", 3}}, "sliding_attention: is not a JSON object"},
      {"rope_scaling", {{"sliding_attention", {{"type", "linear"}}}}, "\"linear\" is not supported"},
      {"partial_rotary_factor", 0.5, "partial_rotary_factor other than 1 is not supported"},
      {"rope_parameters", {{"partial_rotary_factor", 0.5}}, "partial_rotary_factor other than 1"},
      {"rope_scaling", {{"full_attention", {{"partial_rotary_factor", 0.5}}}}, "partial_rotary_factor other"},
      {"rope_scaling",
       {{"sliding_attention", {{"partial_rotary_factor", 0.5}}}},
       "sliding_attention: partial_rotary_factor other than 1"},
      {"layer_types", {"full_attention"}, "layer_types is not a list of num_hidden_layers 7"},
      {"architectures", {"Gemma3ForConditionalGeneration"}, "is not supported"},
  };
  for (const auto& [key, value, reason] : cases) {
    CAPTURE(key);
    json document = good_config("Gemma3ForCausalLM");
    document[key] = value;
    CHECK_THROWS_WITH_AS(load(document), doctest::Contains(reason), std::runtime_error);
  }
}

}  // namespace troupe
