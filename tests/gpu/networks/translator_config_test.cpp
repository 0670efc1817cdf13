// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/translator_config.hpp"

#include <stdexcept>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "gpu/networks/network.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

using nlohmann::json;

json marian() {
  return {{"architectures", {"MarianMTModel"}},
          {"vocab_size", 100},
          {"d_model", 64},
          {"encoder_layers", 6},
          {"decoder_layers", 2},
          {"encoder_attention_heads", 4},
          {"decoder_attention_heads", 4},
          {"encoder_ffn_dim", 128},
          {"decoder_ffn_dim", 96},
          {"activation_function", "swish"},
          {"max_position_embeddings", 512},
          {"decoder_start_token_id", 99},
          {"eos_token_id", 0}};
}

ModelConfig load(const json& config) {
  const TemporaryDirectory directory;
  directory.write("config.json", config.dump());
  return load_model_config(directory.path());
}

std::string refusal(json config, const char* field, const json& value) {
  config[field] = value;
  try {
    load(config);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "none";
}

bool says(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("translator_config: Marian's sources end as its answers do, and its norms follow blocks") {
  const ModelConfig config = load(marian());
  const auto& translator = *config.translator;
  CHECK(config.has_pages());
  CHECK(config.num_layers == 2);
  CHECK(translator.num_encoder_layers == 6);
  CHECK(translator.encoder_intermediate_size == 128);
  CHECK_FALSE(translator.norms_first);
  CHECK(translator.has_logit_bias);
  CHECK(translator.embedding_scale == 1.0F);
  const auto rule = make_network(config)->source();
  CHECK(rule == SourceRule{.source_end = 0, .answer_begins = {99}, .max_source = 512, .max_answer = 512});
}

TEST_CASE("translator_config: M2M100 counts positions from its padding, and may have a first token forced") {
  json file = marian();
  file["architectures"] = {"M2M100ForConditionalGeneration"};
  file["pad_token_id"] = 1;
  file["forced_bos_token_id"] = 7;
  const ModelConfig config = load(file);
  CHECK(config.translator->first_position == 2);
  CHECK(config.translator->norms_first);
  CHECK(config.translator->ends_at_slowest);
  CHECK_FALSE(config.translator->has_logit_bias);
  CHECK(config.translator->embedding_scale == 8.0F);
  CHECK(config.translator->answer_begins == std::vector<std::int32_t>{99, 7});
}

TEST_CASE("translator_config: what it can't be is refused by field and value") {
  CHECK(says(refusal(marian(), "encoder_attention_heads", 8),
             "encoder_attention_heads 8 other than decoder_attention_heads 4"));
  CHECK(says(refusal(marian(), "d_model", 62), "d_model 62 is no multiple of decoder_attention_heads 4"));
  CHECK(says(refusal(marian(), "decoder_start_token_id", nullptr), "decoder_start_token_id is missing"));
  CHECK(says(refusal(marian(), "decoder_start_token_id", 100), "decoder_start_token_id is 100"));
  CHECK(says(refusal(marian(), "source_vocab_size", 100), "leaves none of vocab_size 100 to the answers"));
  CHECK(says(refusal(marian(), "activation_function", "mish"), "activation_function \"mish\""));
  CHECK(says(refusal(marian(), "normalize_before", true), "normalize_before is not supported"));
  CHECK(says(refusal(marian(), "quantization_config", json::object()), "quantization_config"));
  CHECK(says(refusal(marian(), "encoder_layers", 0), "encoder_layers"));
  CHECK(says(refusal(marian(), "share_encoder_decoder_embeddings", false), "needs source_vocab_size"));
}

}  // namespace troupe
