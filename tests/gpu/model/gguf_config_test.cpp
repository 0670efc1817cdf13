// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/gguf_config.hpp"

#include <functional>

#include <doctest/doctest.h>

#include "gpu/model/model_config.hpp"
#include "gpu/model/model_directory.hpp"
#include "gpu/model/random_model.hpp"
#include "gpu/model/weights.hpp"
#include "gpu/networks/network.hpp"
#include "tests/gpu/tiny_model.hpp"
#include "tests/support/gpu/gguf_model.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

using test::GgufType;
using test::GgufWriter;

using Change = std::function<void(GgufWriter&)>;

// Keys of a Llama of 100 tokens, and what is added to them.
std::string llama_with(const Change& change) {
  GgufWriter writer;
  test::add_llama_keys(writer, tiny_llama());
  change(writer);
  return writer.file();
}

ModelConfig config_with(const Change& change) {
  const TemporaryDirectory directory;
  return load_model_config(directory.write("m.gguf", llama_with(change)));
}

std::string refusal_of(const std::string& file) {
  const TemporaryDirectory directory;
  try {
    load_model_config(directory.write("m.gguf", file));
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("gguf config: the keys are the configuration") {
  const ModelConfig expected = tiny_llama();
  const ModelConfig config = config_with([](GgufWriter& writer) {
    writer.add("tokenizer.ggml.bos_token_id", 1);
    writer.add("tokenizer.ggml.eos_token_id", 2);
    writer.add("tokenizer.ggml.eot_token_id", 3);
    writer.add_texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "<|im_end|>", "</s>", "<|end|>"});
    std::vector<std::string> types(6, test::gguf_number(3, 4));
    types[5] = test::gguf_number(1, 4);
    writer.add_array("tokenizer.ggml.token_type", GgufType::kI32, types);
  });
  CHECK(config.architecture == "LlamaForCausalLM");
  CHECK(config.hidden_size == expected.hidden_size);
  CHECK(config.intermediate_size == expected.intermediate_size);
  CHECK(config.num_layers == expected.num_layers);
  CHECK(config.num_heads == expected.num_heads);
  CHECK(config.num_kv_heads == expected.num_kv_heads);
  CHECK(config.head_dim == expected.head_dim);
  CHECK(config.vocabulary_size == expected.vocabulary_size);
  CHECK(config.context_length == expected.context_length);
  CHECK(config.norm_epsilon == expected.norm_epsilon);
  CHECK(config.rope_theta == expected.rope_theta);
  CHECK_FALSE(config.rope_scaling.has_value());
  CHECK(config.rope_divisors.empty());
  CHECK(config.tied_embeddings);
  CHECK_FALSE(config.attention_bias);
  CHECK(config.bos_token == 1);
  CHECK(config.eos_tokens == std::vector<std::int32_t>{2, 3, 4});  // 5 is a word that looks like an ending
}

TEST_CASE("gguf config: gpt-oss' answers end with its return, call and text, not with a message's end") {
  ModelConfig stated = tiny_llama();
  stated.architecture = "GptOssForCausalLM";
  stated.sliding_window = 8;
  stated.rope_scaling = RopeScaling{.type = "yarn", .factor = 4.0F, .original_context_length = 64};
  stated.experts = ExpertsConfig{.num_experts = 4, .num_chosen = 2, .intermediate_size = 96};
  GgufWriter writer;
  test::add_llama_keys(writer, stated);
  writer.add_float("gpt-oss.rope.scaling.yarn_beta_fast", 24.0F);
  writer.add_float("gpt-oss.rope.scaling.yarn_beta_slow", 2.0F);
  writer.add("tokenizer.ggml.eos_token_id", 1);
  writer.add_texts("tokenizer.ggml.tokens", {"<|endoftext|>", "<|return|>", "<|end|>", "<|call|>"});
  writer.add_array("tokenizer.ggml.token_type", GgufType::kI32,
                   std::vector<std::string>(4, test::gguf_number(3, 4)));
  const TemporaryDirectory directory;
  const ModelConfig config = load_model_config(directory.write("m.gguf", writer.file()));
  CHECK(config.eos_tokens == std::vector<std::int32_t>{1, 0, 3});
  CHECK(config.sliding_window == 8);
  CHECK_FALSE(config.rope_scaling->rounds_bounds);
  CHECK(config.rope_scaling->fast_rotations == 24.0F);
  CHECK(config.rope_scaling->slow_rotations == 2.0F);
  CHECK_FALSE(config.experts->is_transposed);
  CHECK(config.experts->has_bias);
}

TEST_CASE("gguf config: absent keys have the format's defaults") {
  const TemporaryDirectory directory;
  GgufWriter writer;
  writer.add_text("general.architecture", "llama");
  for (const char* key : {"block_count", "context_length", "feed_forward_length"})
    writer.add(std::string("llama.") + key, 64);
  writer.add("llama.embedding_length", 128);
  writer.add("llama.attention.head_count", 4);
  writer.add_float("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  writer.add_texts("tokenizer.ggml.tokens", {"a", "b", "c"});
  const ModelConfig config = load_model_config(directory.write("m.gguf", writer.file()));
  CHECK(config.head_dim == 32);
  CHECK(config.num_kv_heads == 4);
  CHECK(config.rope_theta == 10000.0F);
  CHECK(config.vocabulary_size == 3);
}

TEST_CASE("gguf config: rope scaling, divisors and a head of its own are seen") {
  const ModelConfig config = config_with([](GgufWriter& writer) {
    writer.add_text("llama.rope.scaling.type", "linear");
    writer.add_float("llama.rope.scaling.factor", 4.0F);
    std::string divisors;
    for (int i = 0; i < 8; ++i) divisors += test::gguf_f32(static_cast<float>(1 + i));
    writer.add_tensor("rope_freqs.weight", {8}, BlockFormat::kF32, divisors);
    writer.add_tensor("output.weight", {64, 100}, BlockFormat::kF32, std::string(25'600, '\0'));
  });
  REQUIRE(config.rope_scaling.has_value());
  CHECK(config.rope_scaling->type == "linear");
  CHECK(config.rope_scaling->factor == 4.0F);
  CHECK_FALSE(config.tied_embeddings);
  REQUIRE(config.rope_divisors.size() == 8);
  const auto rotary = rotary_parameters(make_network(config)->shapes(), 16);
  RotaryParameters undivided = rotary;
  undivided.divisors.clear();
  const auto divided = rotary_frequencies(rotary), whole = rotary_frequencies(undivided);
  for (std::size_t i = 0; i < 8; ++i) CHECK(divided[i] == doctest::Approx(whole[i] / (1.0 + i)));
}

TEST_CASE("gguf config: exactly the stated elements of a head rotate, also where their part is no number") {
  ModelConfig stated = tiny_llama();
  stated.architecture = "Phi3ForCausalLM";
  for (const auto& [head_dim, rotated] : {std::pair(88U, 30U), std::pair(168U, 102U), std::pair(16U, 16U)}) {
    stated.head_dim = head_dim;
    stated.rotary_dim = rotated;
    GgufWriter writer;
    test::add_llama_keys(writer, stated);
    const TemporaryDirectory directory;
    CHECK(load_model_config(directory.write("m.gguf", writer.file())).rotary_dim == rotated);
  }
}

TEST_CASE("gguf config: Gemma's keys, and what the format leaves out of them") {
  ModelConfig stated = tiny_llama();
  stated.head_dim = 16;
  stated.num_layers = 7;
  stated.sliding_window = 8;
  const auto read = [&](const char* architecture, const Change& change) {
    stated.architecture = architecture;
    stated.gemma = GemmaConfig{};
    GgufWriter writer;
    test::add_llama_keys(writer, stated);
    change(writer);
    const TemporaryDirectory directory;
    return load_model_config(directory.write("m.gguf", writer.file()));
  };
  const ModelConfig second = read("Gemma2ForCausalLM", [](GgufWriter& writer) {
    writer.add_float("gemma2.final_logit_softcapping", 20.0F);
  });
  CHECK_FALSE(second.gemma->lacks_one);
  CHECK(second.gemma->query_scalar == 16.0F);
  CHECK(second.gemma->attention_cap == 50.0F);
  CHECK(second.gemma->logit_cap == 20.0F);
  CHECK(second.sliding_window == 8);
  CHECK(second.is_sliding == std::vector<bool>{true, false, true, false, true, false, true});
  const ModelConfig third = read("Gemma3ForCausalLM", [](GgufWriter& writer) {
    writer.add("gemma3.attention.sliding_window_pattern", 3);
  });
  CHECK(third.gemma->local_theta == 10000.0F);
  CHECK(third.is_sliding == std::vector<bool>{true, true, false, true, true, false, true});
  stated.num_layers = 62;
  CHECK(read("Gemma3ForCausalLM", [](GgufWriter&) {}).gemma->query_scalar ==
        static_cast<float>(stated.hidden_size / stated.num_heads));
  stated.sliding_window = 0;
  CHECK_THROWS_WITH_AS(read("Gemma3ForCausalLM", [](GgufWriter&) {}),
                       doctest::Contains("gemma3.attention.sliding_window is missing"), std::runtime_error);
  CHECK(read("Gemma2ForCausalLM", [](GgufWriter&) {}).is_sliding.size() == 62);
}

TEST_CASE("gguf config: what is not supported or makes no sense is refused by its key") {
  struct Case {
    const char* says;
    Change change;
  };
  const std::vector<Case> cases = {
      {"llama.expert_used_count is missing", [](GgufWriter& w) { w.add("llama.expert_count", 8); }},
      {"(llama.expert_shared_count) are not supported",
       [](GgufWriter& w) { w.add("llama.expert_shared_count", 1); }},
      {"(llama.expert_weights_scale) is not supported",
       [](GgufWriter& w) { w.add_float("llama.expert_weights_scale", 2.5F); }},
      {"(llama.expert_weights_norm) are not supported",
       [](GgufWriter& w) { w.add_bool("llama.expert_weights_norm", false); }},
      {"llama.expert_gating_func is 2, expected 1 or 3",
       [](GgufWriter& w) { w.add("llama.expert_gating_func", 2); }},
      {"sliding_window", [](GgufWriter& w) { w.add("llama.attention.sliding_window", 4096); }},
      {"llama.attention.causal false is not supported",
       [](GgufWriter& w) { w.add_bool("llama.attention.causal", false); }},
      {"factor is 0.0, expected a number from 1",
       [](GgufWriter& w) { w.add_text("llama.rope.scaling.type", "yarn"); }},
      {"rope_freqs.weight is not 8 numbers",
       [](GgufWriter& w) {
         w.add_tensor("rope_freqs.weight", {4}, BlockFormat::kF32, std::string(16, '\1'));
       }},
      {"rope_freqs.weight has a number",
       [](GgufWriter& w) {
         w.add_tensor("rope_freqs.weight", {8}, BlockFormat::kF32, std::string(32, '\0'));
       }},
      {"eos_token_id has 100, expected a token id below",
       [](GgufWriter& w) { w.add("tokenizer.ggml.eos_token_id", 100); }},
      {"llama.vocab_size is 100, less than the 101 tokens",
       [](GgufWriter& w) { w.add_texts("tokenizer.ggml.tokens", std::vector<std::string>(101, "x")); }},
      {"tokenizer.ggml.eos_token_id is of another type",
       [](GgufWriter& w) { w.add_text("tokenizer.ggml.eos_token_id", "2"); }},
  };
  for (const auto& wrong : cases) {
    const std::string said = refusal_of(llama_with(wrong.change));
    CHECK_MESSAGE(said.find(wrong.says) != std::string::npos, said);
  }
  const std::string softmax = llama_with([](GgufWriter& w) {
    w.add("llama.expert_gating_func", 1);
    w.add_bool("llama.expert_weights_norm", true);
  });
  CHECK(refusal_of(softmax).empty());
  GgufWriter other;
  other.add_text("general.architecture", "mamba");
  ModelConfig phi = tiny_llama();
  phi.architecture = "Phi3ForCausalLM";
  GgufWriter mixture;
  test::add_llama_keys(mixture, phi);
  mixture.add("phi3.expert_count", 16);
  CHECK(refusal_of(mixture.file()).find("a mixture of experts (phi3.expert_count) is not supported") !=
        std::string::npos);
  CHECK(
      refusal_of(other.file())
          .find("the architecture \"mamba\" is not supported (llama, qwen2, qwen3, qwen3moe, phi3, smollm3, "
                "gemma2, gemma3, gpt-oss and lfm2 are)") != std::string::npos);
  CHECK(refusal_of(GgufWriter().file()).find("has no general.architecture") != std::string::npos);
  ModelConfig config = tiny_llama();
  const auto refusal = [&] {
    GgufWriter writer;
    test::add_llama_keys(writer, config);
    return refusal_of(writer.file());
  };
  config.num_heads = 0;
  CHECK(refusal().find("llama.attention.head_count is 0") != std::string::npos);
  config = tiny_llama();
  config.num_kv_heads = 0;
  CHECK(refusal().find("read as config.json: num_key_value_heads is 0") != std::string::npos);
  config = tiny_llama();
  config.num_layers = 1U << 30;
  CHECK(refusal().find("num_hidden_layers") != std::string::npos);
}

TEST_CASE("gguf config: a key for each layer counts as one if all are alike") {
  const auto layers = [](std::uint64_t last) {
    return [last](GgufWriter& writer) {
      writer.add_text("general.architecture", "llama");
      writer.add_array("llama.feed_forward_length", GgufType::kU32,
                       {test::gguf_number(96, 4), test::gguf_number(last, 4)});
    };
  };
  GgufWriter differing;
  layers(64)(differing);
  for (const char* key : {"embedding_length", "attention.head_count", "block_count", "context_length"})
    differing.add(std::string("llama.") + key, 8);
  differing.add_float("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  differing.add("llama.vocab_size", 8);
  CHECK(refusal_of(differing.file()).find("llama.feed_forward_length differs between layers") !=
        std::string::npos);
}

TEST_CASE("gguf config: recommended sampling is read") {
  const TemporaryDirectory directory;
  const auto path = directory.write("m.gguf", llama_with([](GgufWriter& writer) {
                                      writer.add_float("general.sampling.temp", 0.5F);
                                      writer.add_float("general.sampling.top_p", 0.25F);
                                      writer.add("general.sampling.top_k", 20);
                                      writer.add_float("general.sampling.min_p", 0.125F);
                                      writer.add_float("general.sampling.penalty_repeat", 1.5F);
                                      writer.add("general.sampling.penalty_last_n", 64);
                                      writer.add("general.sampling.mirostat", 0);
                                    }));
  const GenerationDefaults defaults = load_generation_defaults(path);
  CHECK(defaults.temperature == 0.5F);
  CHECK(defaults.top_p == 0.25F);
  CHECK(defaults.top_k == 20);
  CHECK(defaults.min_p == 0.125F);
  CHECK(defaults.repetition_penalty == 1.5F);
  CHECK(defaults.unapplied == std::vector<std::string>{"penalty_last_n"});
  const auto none = load_generation_defaults(directory.write("n.gguf", llama_with([](GgufWriter&) {})));
  CHECK_FALSE(none.temperature.has_value());
  const auto wrong = directory.write(
      "o.gguf", llama_with([](GgufWriter& writer) { writer.add_float("general.sampling.top_p", 7.0F); }));
  CHECK_THROWS_WITH_AS(load_generation_defaults(wrong), doctest::Contains("top_p"), std::runtime_error);
}

TEST_CASE("gguf config: tensors have Hugging Face's names, others keep theirs") {
  CHECK(hugging_face_name("token_embd.weight") == "model.embed_tokens.weight");
  CHECK(hugging_face_name("output_norm.weight") == "model.norm.weight");
  CHECK(hugging_face_name("output.weight") == "lm_head.weight");
  CHECK(hugging_face_name("blk.17.ffn_norm.weight") == "model.layers.17.post_attention_layernorm.weight");
  CHECK(hugging_face_name("blk.2.ffn_gate.7.weight") == "model.layers.2.mlp.experts.7.gate_proj.weight");
  CHECK(hugging_face_name("blk.2.ffn_up.10.weight", "llama") ==
        "model.layers.2.block_sparse_moe.experts.10.w3.weight");
  for (const char* none : {"blk.2.ffn_gate.07.weight", "blk.2.ffn_gate.x.weight", "blk.2.attn_q.1.weight"})
    CHECK(hugging_face_name(none) == none);
  CHECK(hugging_face_name("blk.0.attn_q.bias") == "model.layers.0.self_attn.q_proj.bias");
  CHECK(hugging_face_name("blk.2.ffn_norm.weight", "gemma3") ==
        "model.layers.2.pre_feedforward_layernorm.weight");
  CHECK(hugging_face_name("blk.2.post_ffw_norm.weight", "gemma2") ==
        "model.layers.2.post_feedforward_layernorm.weight");
  for (const char* other :
       {"rope_freqs.weight", "blk.0.ssm_a", "blk.", "blk.0", "x", "blk.1.attn_sinks.weight"})
    CHECK(hugging_face_name(other) == other);
}

TEST_CASE("gguf config: a tensor that is missing, misshapen or of a type that isn't read is named") {
  const TemporaryDirectory directory;
  const auto says = [&](const Change& change) -> std::string {
    const auto path = directory.write("m.gguf", llama_with(change));
    try {
      check_weights(WeightStore(path), *load_network(path));
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  };
  CHECK(says([](GgufWriter&) {}).find("no tensor \"model.embed_tokens.weight\"") != std::string::npos);
  CHECK(says([](GgufWriter& w) {
          w.add_tensor("token_embd.weight", {64, 99}, BlockFormat::kF32, std::string(25'344, '\0'));
        }).find("does not fit the configuration: expected [100, 64]") != std::string::npos);
  CHECK(says([](GgufWriter& w) {
          w.add_entry("token_embd.weight", {256, 100}, 10, 0);
        }).find("has dtype Q2_K") != std::string::npos);
  CHECK(says([](GgufWriter& w) {
          w.add_tensor("blk.0.attn_q.weight", {64, 40}, BlockFormat::kF32, std::string(10'240, '\0'));
        }).find("has 40 rows, expected heads of 16") != std::string::npos);
  CHECK(says([](GgufWriter& w) {
          w.add_tensor("blk.0.attn_q.bias", {64}, BlockFormat::kQ8_0, std::string(68, '\1'));
        }).find("\"blk.0.attn_q.bias\" is a vector in blocks") != std::string::npos);
}

TEST_CASE("gguf config: a tensor that the network would leave out is refused") {
  const TemporaryDirectory directory;
  GgufWriter writer;
  const ModelConfig config = tiny_llama();
  test::write_twins(directory.path() / "whole.gguf", directory.path() / "whole", config, BlockFormat::kF32,
                    1);
  const auto path = directory.path() / "whole.gguf";
  CHECK_NOTHROW(check_weights(WeightStore(path), *load_network(path)));
  test::add_llama_keys(writer, config);
  const GgufFile whole(path);
  for (const auto& [name, tensor] : whole.tensors()) {
    const auto bytes = tensor.bytes();
    const auto& sizes = tensor.entry.dimensions;
    writer.add_tensor(name, {sizes.begin(), sizes.end()}, BlockFormat::kF32,
                      std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  writer.add_tensor("blk.0.attn_sinks.weight", {16}, BlockFormat::kF32, std::string(64, '\1'));
  const auto more = directory.write("more.gguf", writer.file());
  try {
    check_weights(WeightStore(more), *load_network(more));
    FAIL("it was taken");
  } catch (const std::runtime_error& error) {
    CHECK(std::string(error.what()).find("\"blk.0.attn_sinks.weight\" is none that this network reads") !=
          std::string::npos);
  }
}

TEST_CASE("gguf config: inspection says what a file holds, also where it can't be served") {
  const TemporaryDirectory directory;
  const auto path = directory.write("m.gguf", [] {
    GgufWriter writer;
    writer.add_text("general.architecture", "mamba");
    writer.add_tensor("token_embd.weight", {32, 4}, BlockFormat::kQ8_0, std::string(136, '\1'));
    return writer.file();
  }());
  const auto seen = inspect_model_directory(path, [](const auto&) -> ModelPlan { return {}; });
  CHECK(seen.is_gguf);
  CHECK(seen.architecture == "mamba");
  CHECK(seen.unsupported.find("mamba") != std::string::npos);
  REQUIRE(seen.files.size() == 1);
  CHECK(seen.files[0].name == "m.gguf");
  CHECK(seen.num_parameters == 128);
  CHECK(seen.element_types.at("Q8_0").size_bytes == 136);
  const auto other = directory.write("o.bin", "something");
  CHECK(inspect_model_directory(other, [](const auto&) -> ModelPlan {
          return {};
        }).unsupported.find("is not a GGUF file") != std::string::npos);
}

TEST_CASE("gguf config: names of tensors are found in both directions") {
  for (const auto& [name, architecture] :
       {std::pair{"token_embd.weight", "llama"}, std::pair{"output_norm.weight", "qwen2"},
        std::pair{"blk.17.ffn_norm.weight", "llama"}, std::pair{"blk.17.ffn_norm.weight", "gemma3"},
        std::pair{"blk.0.attn_k.bias", "qwen2"}, std::pair{"blk.3.attn_qkv.weight", "phi3"},
        std::pair{"blk.3.ffn_up.weight", "phi3"}, std::pair{"blk.1.ffn_gate_inp.weight", "llama"},
        std::pair{"blk.1.ffn_gate_inp.weight", "gpt-oss"}, std::pair{"blk.1.attn_sinks.weight", "gpt-oss"},
        std::pair{"blk.1.post_ffw_norm.weight", "gemma2"}}) {
    CAPTURE(name);
    CHECK(gguf_tensor_name(hugging_face_name(name, architecture), architecture) == name);
  }
  CHECK(gguf_tensor_name("model.layers.2.block_sparse_moe.experts.11.w2.weight", "llama") ==
        "blk.2.ffn_down_exps.weight");
  CHECK(gguf_tensor_name("model.layers.2.mlp.experts.0.up_proj.bias", "gpt-oss") == "blk.2.ffn_up_exps.bias");
  for (const char* none : {"transformer.wte.weight", "model.layers.2.mlp.fc1.weight", "nothing", ""})
    CHECK(gguf_tensor_name(none, "llama").empty());
}

}  // namespace troupe
