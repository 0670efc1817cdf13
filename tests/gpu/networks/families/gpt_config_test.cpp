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

json gpt2_config() {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"n_embd", 64},
          {"n_layer", 2},
          {"n_head", 4},
          {"vocab_size", 512}};
}

json neox_config() {
  return {{"architectures", {"GPTNeoXForCausalLM"}},
          {"hidden_size", 64},
          {"intermediate_size", 256},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 2},
          {"vocab_size", 512},
          {"max_position_embeddings", 128}};
}

json opt_config() {
  return {{"architectures", {"OPTForCausalLM"}},
          {"hidden_size", 64},
          {"ffn_dim", 256},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"vocab_size", 512},
          {"max_position_embeddings", 128}};
}

json gptj_config() {
  return {{"architectures", {"GPTJForCausalLM"}},
          {"n_embd", 64},
          {"n_layer", 2},
          {"n_head", 2},
          {"n_positions", 128},
          {"rotary_dim", 16},
          {"vocab_size", 512}};
}

json phi_config() {
  return {{"architectures", {"PhiForCausalLM"}},
          {"hidden_size", 64},
          {"intermediate_size", 128},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 2},
          {"num_key_value_heads", 1},
          {"vocab_size", 128}};
}

ModelConfig load(const json& config) {
  const TemporaryDirectory directory;
  directory.write("config.json", config.dump());
  return load_model_config(directory.path());
}

}  // namespace

TEST_CASE("gpt config: GPT-2's names and what it leaves out") {
  const ModelConfig config = load(gpt2_config());
  CHECK(config.hidden_size == 64);
  CHECK(config.intermediate_size == 256);
  CHECK(config.num_layers == 2);
  CHECK(config.num_kv_heads == 4);
  CHECK(config.context_length == 1024);
  CHECK(config.tied_embeddings);
  CHECK(config.attention_bias);
  CHECK(config.norm_epsilon == 1e-5F);
  CHECK(config.gpt->activation == Activation::kGeluTanh);
  CHECK(config.gpt->has_position_table);
  CHECK_FALSE(config.gpt->is_parallel);
  CHECK_FALSE(config.gpt->divides_by_layer);
}

TEST_CASE("gpt config: GPT-NeoX in its older spelling and its newer one") {
  const ModelConfig plain = load(neox_config());
  CHECK(plain.rotary_dim == 8);  // a quarter of a head of 32
  CHECK(plain.rope_theta == 10000.0F);
  CHECK(plain.gpt->activation == Activation::kGelu);
  CHECK(plain.gpt->is_parallel);
  CHECK_FALSE(plain.gpt->has_position_table);
  CHECK_FALSE(plain.tied_embeddings);
  json older = neox_config(), newer = neox_config();
  older["rotary_pct"] = 0.5;
  older["rotary_emb_base"] = 25000;
  newer["rope_parameters"] = {
      {"rope_type", "default"}, {"rope_theta", 25000}, {"partial_rotary_factor", 0.5}};
  for (const json& document : {older, newer}) {
    CHECK(load(document).rotary_dim == 16);
    CHECK(load(document).rope_theta == 25000.0F);
  }
}

TEST_CASE("gpt config: OPT's table of positions has two rows in front") {
  const ModelConfig config = load(opt_config());
  CHECK(config.intermediate_size == 256);
  CHECK(config.tied_embeddings);
  CHECK(config.attention_bias);
  CHECK(config.mlp_bias);
  CHECK(config.norm_epsilon == 1e-5F);
  CHECK(config.gpt->activation == Activation::kRelu);
  CHECK(config.gpt->has_position_table);
  CHECK(config.gpt->first_position == 2);
  json without = opt_config();
  without["enable_bias"] = false;
  CHECK_FALSE(load(without).attention_bias);
  CHECK_FALSE(load(without).mlp_bias);
}

TEST_CASE("gpt config: GPT-J rotates rotary_dim of a head, 64 where a file says nothing") {
  const ModelConfig config = load(gptj_config());
  CHECK(config.intermediate_size == 256);
  CHECK(config.rotary_dim == 16);
  CHECK_FALSE(config.tied_embeddings);
  CHECK_FALSE(config.attention_bias);
  CHECK(config.mlp_bias);
  CHECK(config.gpt->activation == Activation::kGeluTanh);
  CHECK(config.gpt->shares_norm);
  CHECK(config.gpt->has_logit_bias);
  json published = gptj_config();
  published.erase("rotary_dim");
  published["n_embd"] = 256;
  CHECK(load(published).rotary_dim == 64);
}

TEST_CASE("gpt config: Phi rotates half of a head, and its heads may share keys") {
  const ModelConfig config = load(phi_config());
  CHECK(config.rotary_dim == 16);
  CHECK(config.num_kv_heads == 1);
  CHECK(config.attention_bias);
  CHECK(config.gpt->activation == Activation::kGeluTanh);
  CHECK(config.gpt->shares_norm);
}

TEST_CASE("gpt config: what is not supported is refused by name") {
  struct Case {
    json document;
    const char* key;
    json value;
    const char* reason;
  };
  const Case cases[] = {
      {gpt2_config(), "add_cross_attention", true, "add_cross_attention is not supported"},
      {gpt2_config(), "scale_attn_weights", false, "(scale_attn_weights) are not supported"},
      {gpt2_config(), "activation_function", "silu", "activation_function \"silu\" is not supported"},
      {gpt2_config(), "n_embd", nullptr, "n_embd is missing"},
      {gpt2_config(), "n_head", 3, "n_embd 64 is no multiple of n_head 3"},
      {neox_config(), "hidden_act", "silu", "hidden_act \"silu\" is not supported"},
      {neox_config(), "num_key_value_heads", 1, "num_key_value_heads other than num_attention_heads"},
      {neox_config(), "quantization_config", {{"bits", 4}}, "quantization_config"},
      {opt_config(), "do_layer_norm_before", false,
       "(do_layer_norm_before, _remove_final_layer_norm) are not"},
      {opt_config(), "_remove_final_layer_norm", true, "norms behind blocks"},
      {opt_config(), "word_embed_proj_dim", 32, "word_embed_proj_dim other than hidden_size"},
      {opt_config(), "layer_norm_elementwise_affine", false, "(layer_norm_elementwise_affine) are not"},
      {opt_config(), "ffn_dim", nullptr, "ffn_dim is missing"},
      {phi_config(), "qk_layernorm", true, "(qk_layernorm) are not supported"},
      {phi_config(), "quantization_config", {{"bits", 4}}, "quantization_config"},
      {gptj_config(), "rotary_dim", 33, "rotary_dim 33 is not supported (an even number up to 32"},
      {gptj_config(), "rotary_dim", 34, "rotary_dim 34 is not supported"},
      {gptj_config(), "partial_rotary_factor", 0.125, "partial_rotary_factor of GPT-J is not supported"},
  };
  for (Case wrong : cases) {
    CAPTURE(wrong.key);
    wrong.document[wrong.key] = wrong.value;
    CHECK_THROWS_WITH_AS(load(wrong.document), doctest::Contains(wrong.reason), std::runtime_error);
  }
}

TEST_CASE("gpt config: programs use exactly the weights that the network names") {
  for (const json& document : {gpt2_config(), neox_config(), opt_config(), gptj_config(), phi_config()}) {
    const auto network = make_network(load(document));
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
    }
    CHECK(num_used == weights.size());
  }
}

}  // namespace troupe
