// SPDX-License-Identifier: Apache-2.0
// The parts of a model's configuration that networks need, checked: of a Hugging Face
// config.json, or of a GGUF file that says the same.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpu/data_type.hpp"
#include "gpu/operators/activation.hpp"
#include "gpu/operators/pooling_mode.hpp"

namespace troupe {

// Scaling of rotary frequencies: "linear", "llama3" (Llama 3.1), "yarn" or "longrope".
struct RopeScaling {
  std::string type;
  float factor = 1.0F;
  float low_frequency_factor = 1.0F;
  float high_frequency_factor = 4.0F;
  std::uint32_t original_context_length = 0;
  float fast_rotations = 32.0F;  // yarn: beta_fast
  float slow_rotations = 1.0F;   // yarn: beta_slow
  bool rounds_bounds = true;     // yarn: truncate
  float magnitude = 1.0F;        // yarn, longrope: attention_factor
  // longrope: divisors within the original context and beyond it, [rotary_dim / 2].
  std::vector<float> short_divisors = {}, long_divisors = {};
};

enum class EncoderFamily : std::uint8_t {
  kBert,
  kRoberta,  // XLM-R, too
  kDistilBert,
  kAlbert,
};

// A head on the first token: a number for each label (logits), no vector.
struct ClassifierConfig {
  std::vector<std::string> labels;
  bool are_independent = false;  // any number of them may hold (multi_label_classification)
};

// Configuration that only encoders have.
struct EncoderConfig {
  EncoderFamily family = EncoderFamily::kBert;
  std::uint32_t num_types = 2;       // token types, 0: none; a second text's tokens are of type 1
  std::uint32_t first_position = 0;  // the row of a text's first token in the table of positions
  std::uint32_t embedding_size = 0;  // kAlbert: width of the tables, brought to hidden_size
  // kAlbert: layers take turns in using the weights of num_groups x layers_a_group.
  std::uint32_t num_groups = 0, layers_a_group = 0;
  Activation activation = Activation::kGelu;
  PoolingMode pooling = PoolingMode::kMean;
  bool normalizes = true;                           // vectors have length 1
  std::uint32_t max_input_tokens = 0;               // 0: as many as there are positions
  std::optional<ClassifierConfig> classifier = {};  // in place of pooling
};

// Configuration that only Gemma 2 and 3 have.
struct GemmaConfig {
  float query_scalar = 256.0F;  // scores are products over its root (query_pre_attn_scalar)
  float attention_cap = 0.0F;   // soft caps of scores and logits; 0: none
  float logit_cap = 0.0F;
  std::optional<float> local_theta = {};  // base of the layers that slide; none: rope_theta
  bool lacks_one = true;                  // the files' norm weights are less by 1 than what is multiplied
};

// Configuration that only GPT-2, GPT-NeoX, OPT, GPT-J and Phi-1 to 2 have.
struct GptConfig {
  Activation activation = Activation::kGelu;
  bool is_parallel = false;          // attention and feed-forward of a layer read the same x
  bool shares_norm = false;          // of is_parallel: both read one norm of it
  bool has_position_table = false;   // GPT-2, OPT, where nothing is rotated
  std::uint32_t first_position = 0;  // the row of a text's first token in that table
  bool has_logit_bias = false;
  bool divides_by_layer = false;  // scores of layer i are divided by i + 1 (scale_attn_by_inverse_layer_idx)
};

// Configuration that only LFM2 has.
struct Lfm2Config {
  std::vector<bool> is_convolution;  // by layer; the others are of attention
  std::uint32_t num_taps = 3;        // tokens that a convolution sees, itself the last one
};

// Configuration that only mixtures of experts have.
struct ExpertsConfig {
  std::uint32_t num_experts = 0;
  std::uint32_t num_chosen = 0;         // for each token
  std::uint32_t intermediate_size = 0;  // of one expert
  bool normalizes = true;               // the shares of those chosen sum to 1 (norm_topk_prob)
  std::vector<bool> is_mixed = {};      // by layer, others are dense; empty: all are
  // gpt-oss: biases of router and experts, its own gate, and how a directory has its matrices.
  bool has_bias = false;
  Activation activation = Activation::kSilu;
  bool alternates = false;     // rows of gate and up take turns in one matrix
  bool is_transposed = false;  // unless they are in blocks
};

// Configuration that only networks of recurrent cells have (docs/models.md).
enum class RecurrentKind : std::uint8_t { kLstm, kGru };
// A decoder's, to the states of its encoder: Luong's scores behind the cell, or Bahdanau's before it.
enum class RecurrentAttention : std::uint8_t { kNone, kDot, kGeneral, kAdditive };
struct RecurrentConfig {
  RecurrentKind kind = RecurrentKind::kLstm;
  std::uint32_t embedding_size = 0;
  // Seq2Seq: tokens of the source, whose ids begin behind those of the target.
  std::uint32_t source_vocabulary = 0;
  std::uint32_t num_encoder_layers = 0;
  std::int32_t source_end = -1;     // behind a source; -1: none
  std::int32_t decoder_start = -1;  // in front of an answer
  RecurrentAttention attention = RecurrentAttention::kNone;
};
struct TreeLstmConfig {
  bool is_binary = true;  // else child-sum
  std::uint32_t embedding_size = 0;
  std::vector<std::string> labels = {};
  std::optional<std::int32_t> unknown_word = {};  // its token; none: such trees are refused
};

// Configuration that only transformer encoder-decoders have (Marian, M2M100). intermediate_size and
// num_layers are the decoder's; context_length is that of a source, and as much again.
struct TranslatorConfig {
  std::uint32_t num_encoder_layers = 0;
  std::uint32_t encoder_intermediate_size = 0;
  bool norms_first = false;  // a block reads its norm, and both halves end with one; else norms follow blocks
  Activation activation = Activation::kSilu;
  float embedding_scale = 1.0F;
  std::uint32_t first_position = 0;
  bool ends_at_slowest = false;  // as EmbedSinusoids
  // Tokens that only sources have, whose ids begin behind those of answers; 0: one vocabulary for both.
  std::uint32_t source_vocabulary = 0;
  bool has_logit_bias = false;
  std::int32_t source_end = -1;             // behind a source; -1: none
  std::vector<std::int32_t> answer_begins;  // the decoder's first inputs
};

// In an encoder's, rope_*, tied_embeddings, *_bias and the tokens mean nothing.
struct ModelConfig {
  std::string architecture;  // "LlamaForCausalLM"
  std::uint32_t hidden_size = 0;
  std::uint32_t intermediate_size = 0;
  std::uint32_t num_layers = 0;
  std::uint32_t num_heads = 0;
  std::uint32_t num_kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t vocabulary_size = 0;
  std::uint32_t context_length = 0;  // max_position_embeddings
  float norm_epsilon = 1e-5F;
  float rope_theta = 10000.0F;
  std::optional<RopeScaling> rope_scaling;
  std::uint32_t rotary_dim = 0;      // the first elements of a head; 0: all
  std::vector<float> rope_divisors;  // of the rotary frequencies, [head_dim / 2]; empty: none
  bool tied_embeddings = false;
  bool attention_bias = false;
  bool qkv_bias_only = false;  // of attention_bias: the output projection has none
  bool mlp_bias = false;
  bool fused_projections = false;         // query, key and value in one matrix, gate and up in another
  std::vector<bool> is_rotated = {};      // by layer; empty: all are
  std::uint32_t sliding_window = 0;       // tokens; 0: none
  std::vector<bool> is_sliding = {};      // by layer; empty: all are
  bool attention_sinks = false;           // a score of each head that no token has
  bool head_norms = false;                // of queries and keys, before they are rotated
  DataType weight_type = DataType::kF32;  // torch_dtype / dtype
  std::optional<std::int32_t> bos_token;
  std::vector<std::int32_t> eos_tokens;  // config.json and generation_config.json, joined
  std::optional<GemmaConfig> gemma = {};
  std::optional<GptConfig> gpt = {};
  std::optional<Lfm2Config> lfm2 = {};
  std::optional<ExpertsConfig> experts = {};
  std::optional<EncoderConfig> encoder = {};  // none: a decoder
  std::optional<RecurrentConfig> recurrent = {};
  std::optional<TreeLstmConfig> tree = {};
  std::optional<TranslatorConfig> translator = {};

  std::uint32_t query_width() const { return num_heads * head_dim; }
  std::uint32_t qkv_width() const { return (num_heads + 2 * num_kv_heads) * head_dim; }
  bool has_output_bias() const { return attention_bias && !qkv_bias_only; }
  bool has_pages() const { return !encoder && !recurrent && !tree; }  // a decoder of KV pages
  // A classifier's; null: it is none.
  const std::vector<std::string>* labels() const {
    if (encoder && encoder->classifier) return &encoder->classifier->labels;
    return tree ? &tree->labels : nullptr;
  }
};

// Values that generation_config.json recommends; absent fields stay empty.
struct GenerationDefaults {
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<std::int32_t> top_k;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::vector<std::string> unapplied = {};  // fields that would change answers and have no equal here
};

// Takes a model directory or a GGUF file. Both throw std::runtime_error that names the
// file and what was expected.
ModelConfig load_model_config(const std::filesystem::path& model);
GenerationDefaults load_generation_defaults(const std::filesystem::path& model);

}  // namespace troupe
