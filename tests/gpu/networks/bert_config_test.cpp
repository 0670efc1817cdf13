// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/bert_config.hpp"

#include <stdexcept>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "gpu/model/random_model.hpp"
#include "gpu/model/weights.hpp"
#include "gpu/networks/network.hpp"
#include "tests/gpu/tiny_bert.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

using nlohmann::json;

json minilm() {
  return {{"architectures", {"BertModel"}},
          {"model_type", "bert"},
          {"hidden_act", "gelu"},
          {"hidden_size", 384},
          {"intermediate_size", 1536},
          {"layer_norm_eps", 1e-12},
          {"max_position_embeddings", 512},
          {"num_attention_heads", 12},
          {"num_hidden_layers", 6},
          {"type_vocab_size", 2},
          {"vocab_size", 30522}};
}

json with(json config, const char* key, const json& value) {
  config[key] = value;
  return config;
}

json module(const char* kind, const char* path = "") {
  return {{"type", std::string("sentence_transformers.models.") + kind}, {"path", path}};
}

// A directory with these files; null: without it.
struct Files {
  json config = minilm();
  json modules = nullptr;
  json pooling = nullptr;
  json sentence = nullptr;

  ModelConfig load() const {
    const TemporaryDirectory directory;
    directory.write("config.json", config.dump());
    if (!modules.is_null()) directory.write("modules.json", modules.dump());
    if (!sentence.is_null()) directory.write("sentence_bert_config.json", sentence.dump());
    std::filesystem::create_directories(directory.path() / "1_Pooling");
    if (!pooling.is_null()) directory.write("1_Pooling/config.json", pooling.dump());
    return load_model_config(directory.path());
  }
  std::string problem() const {
    try {
      load();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "none";
  }
};

const json kTwoModules = {module("Transformer"), module("Pooling", "1_Pooling")};
const json kThreeModules = {module("Transformer"), module("Pooling", "1_Pooling"),
                            module("Normalize", "2_Normalize")};

}  // namespace

TEST_CASE("bert config: what a MiniLM states is read, and nothing of a decoder is asked for") {
  const ModelConfig config = Files{}.load();
  CHECK(config.architecture == "BertModel");
  CHECK(config.hidden_size == 384);
  CHECK(config.intermediate_size == 1536);
  CHECK(config.num_layers == 6);
  CHECK(config.num_heads == 12);
  CHECK(config.head_dim == 32);
  CHECK(config.vocabulary_size == 30522);
  CHECK(config.context_length == 512);
  CHECK(config.norm_epsilon == doctest::Approx(1e-12));
  CHECK(config.weight_type == DataType::kF32);
  CHECK(config.eos_tokens.empty());
  REQUIRE(config.encoder);
  CHECK(config.encoder->num_types == 2);
  CHECK(make_network(config)->cells().front().vector_size == 384);
}

TEST_CASE("bert config: without architectures, model_type says what it is") {
  json config = minilm();
  config.erase("architectures");
  CHECK(Files{.config = config}.load().architecture == "BertModel");
  config["model_type"] = "xlm-roberta";
  CHECK(Files{.config = config}.load().architecture == "XLMRobertaModel");
  config["model_type"] = "electra";
  CHECK(Files{.config = config}.problem().find("the model_type \"electra\" is not supported") !=
        std::string::npos);
}

TEST_CASE("bert config: without modules.json vectors are means of length 1") {
  const auto encoder = Files{}.load().encoder;
  CHECK(encoder->pooling == PoolingMode::kMean);
  CHECK(encoder->normalizes);
}

TEST_CASE("bert config: modules.json says how vectors are made, in the old spelling and the new") {
  struct Case {
    json pooling;
    PoolingMode mode;
  };
  const Case cases[] = {
      {{{"pooling_mode_mean_tokens", true}, {"pooling_mode_cls_token", false}}, PoolingMode::kMean},
      {{{"pooling_mode_mean_tokens", false}, {"pooling_mode_cls_token", true}}, PoolingMode::kCls},
      {{{"pooling_mode_mean_tokens", false}}, PoolingMode::kMean},
      {{{"word_embedding_dimension", 384}, {"pooling_mode", "cls"}}, PoolingMode::kCls},
      {{{"embedding_dimension", 384}, {"pooling_mode", {"mean"}}}, PoolingMode::kMean},
      {{{"pooling_mode_max_tokens", true}}, PoolingMode::kMax},
      {{{"pooling_mode", "lasttoken"}}, PoolingMode::kLast}};
  for (const auto& [pooling, mode] : cases) {
    CAPTURE(pooling.dump());
    const auto two = Files{.modules = kTwoModules, .pooling = pooling}.load().encoder;
    CHECK(two->pooling == mode);
    CHECK_FALSE(two->normalizes);
    const auto three = Files{.modules = kThreeModules, .pooling = pooling}.load().encoder;
    CHECK(three->pooling == mode);
    CHECK(three->normalizes);
  }
}

TEST_CASE("bert config: sentence_bert_config.json says how many tokens an input may have") {
  const auto longest = [](const json& sentence) {
    const auto config = Files{.modules = kTwoModules, .pooling = json::object(), .sentence = sentence}.load();
    CHECK(config.context_length == 512);  // rows of the table of positions
    return make_network(config)->shapes().context_length;
  };
  CHECK(longest(nullptr) == 512);
  CHECK(longest({{"max_seq_length", 256}, {"do_lower_case", false}}) == 256);
  CHECK(longest({{"max_seq_length", nullptr}}) == 512);
  CHECK(longest({{"max_seq_length", 4096}}) == 512);
  CHECK_THROWS_WITH_AS(longest({{"max_seq_length", 0}}), doctest::Contains("max_seq_length is 0"),
                       std::runtime_error);
}

TEST_CASE("bert config: what is not supported is refused by name") {
  struct Case {
    const char* key;
    json value;
    const char* reason;
  };
  const Case cases[] = {
      {"hidden_act", "silu", "hidden_act \"silu\" is not supported (gelu, gelu_new and relu are)"},
      {"position_embedding_type", "relative_key", "\"relative_key\" is not supported"},
      {"is_decoder", true, "is_decoder is not supported"},
      {"quantization_config", {{"bits", 8}}, "quantization_config"},
      {"num_attention_heads", 7, "hidden_size 384 is no multiple of num_attention_heads 7"},
      {"num_attention_heads", 32, "heads of 12 are not supported"},
      {"num_attention_heads", 1, "heads of 384 are not supported"},
      {"max_position_embeddings", nullptr, "max_position_embeddings is missing"},
      {"hidden_size", nullptr, "hidden_size is missing"},
      {"type_vocab_size", 0, "type_vocab_size is 0"},
      {"layer_norm_eps", -1.0, "layer_norm_eps"},
      {"architectures", {"BertForMaskedLM"}, "BertForMaskedLM\" is not supported"},
  };
  for (const auto& [key, value, reason] : cases) {
    CAPTURE(key);
    const std::string problem = Files{.config = with(minilm(), key, value)}.problem();
    CHECK(problem.find(reason) != std::string::npos);
    CHECK(problem.find("config.json: ") != std::string::npos);
  }
}

TEST_CASE("bert config: modules that are not computed here, or make no sense, are refused by name") {
  const json mean = {{"pooling_mode_mean_tokens", true}};
  const auto problem = [&](const json& modules, const json& pooling) {
    return Files{.modules = modules, .pooling = pooling}.problem();
  };
  const auto has = [](const std::string& text, const char* part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has(problem({module("Transformer"), module("Pooling", "1_Pooling"), module("Dense", "2_Dense")}, mean),
      "modules.json: a module Dense at place 2 is not supported");
  has(problem(json::array({module("Transformer")}), mean), "names no Pooling");
  has(problem({module("Transformer"), module("Normalize")}, mean), "a module Normalize at place 1");
  has(problem(json::array(), mean), "is not a list of a few modules");
  has(problem({{"a", 1}}, mean), "is not a list of a few modules");
  has(problem(json::array({1, 2}), mean), "is not a JSON object");
  for (const char* path : {"../1_Pooling", "/etc", "", ".", "a/b"})
    has(problem({module("Transformer"), module("Pooling", path)}, mean), "no plain name of a folder");
  has(problem(kTwoModules, nullptr), "1_Pooling/config.json: is missing");
  has(problem(kTwoModules, {{"pooling_mode_weightedmean_tokens", true}}),
      "pooling \"weightedmean\" is not supported");
  has(problem(kTwoModules, {{"pooling_mode", "mean_sqrt_len_tokens"}}),
      "pooling \"mean_sqrt_len_tokens\" is not supported");
  has(problem(kTwoModules, {{"pooling_mode", "mean"}, {"include_prompt", false}}),
      "include_prompt false is not supported");
  has(problem(kTwoModules, {{"pooling_mode", 3}}), "pooling_mode is 3, expected a name");
  has(problem(kTwoModules, {{"pooling_mode_mean_tokens", true}, {"pooling_mode_cls_token", true}}),
      "several poolings");
  has(problem(kTwoModules, {{"word_embedding_dimension", 768}}), "word_embedding_dimension is 768");
}

TEST_CASE("bert config: relatives have names and defaults of their own") {
  json roberta = with(minilm(), "architectures", {"XLMRobertaModel"});
  roberta["max_position_embeddings"] = 514;
  roberta["pad_token_id"] = 1;
  const ModelConfig xlm = Files{.config = roberta}.load();
  CHECK(xlm.encoder->family == EncoderFamily::kRoberta);
  CHECK(xlm.encoder->first_position == 2);
  CHECK(xlm.context_length == 512);
  const ModelConfig distil = Files{
      .config = {{"architectures", {"DistilBertModel"}},
                 {"dim", 768},
                 {"hidden_dim", 3072},
                 {"n_layers", 6},
                 {"n_heads", 12},
                 {"activation", "gelu"},
                 {"vocab_size", 30522},
                 {"max_position_embeddings",
                  512}}}.load();
  CHECK(distil.hidden_size == 768);
  CHECK(distil.num_layers == 6);
  CHECK(distil.encoder->num_types == 0);
  CHECK(distil.norm_epsilon == doctest::Approx(1e-12));
  json albert = with(minilm(), "architectures", {"AlbertModel"});
  albert["embedding_size"] = 128;
  albert.erase("hidden_act");
  const ModelConfig shared = Files{.config = albert}.load();
  CHECK(shared.encoder->embedding_size == 128);
  CHECK(shared.encoder->num_groups == 1);
  CHECK(shared.encoder->activation == Activation::kGeluTanh);
}

TEST_CASE("bert config: a classifier has the labels that the file names") {
  const json one = with(minilm(), "architectures", {"BertForSequenceClassification"});
  CHECK(Files{.config = one}.load().encoder->classifier->labels ==
        std::vector<std::string>{"LABEL_0", "LABEL_1"});
  json named = with(one, "id2label", {{"1", "good"}, {"0", "bad"}, {"2", "so-so"}});
  const auto classifier = Files{.config = named}.load().encoder->classifier;
  CHECK(classifier->labels == std::vector<std::string>{"bad", "good", "so-so"});
  CHECK_FALSE(classifier->are_independent);
  named["problem_type"] = "multi_label_classification";
  CHECK(Files{.config = named}.load().encoder->classifier->are_independent);
  CHECK(make_network(Files{.config = named}.load())->cells().front().vector_size == 3);
}

TEST_CASE("bert config: what a relative lacks or states wrongly is refused by name") {
  const auto refuses = [](const char* architecture, const char* key, const json& value, const char* reason) {
    json config = with(minilm(), "architectures", {architecture});
    config["embedding_size"] = 128;
    const std::string problem = Files{.config = with(config, key, value)}.problem();
    CAPTURE(problem);
    CHECK(problem.find(reason) != std::string::npos);
  };
  refuses("RobertaModel", "pad_token_id", 511, "but the first position is 512");
  refuses("RobertaModel", "pad_token_id", -1, "pad_token_id is -1");
  refuses("DistilBertModel", "dim", nullptr, "dim is missing");
  refuses("AlbertModel", "embedding_size", nullptr, "embedding_size is missing");
  refuses("AlbertModel", "num_hidden_groups", 4, "no multiple of num_hidden_groups 4");
  refuses("AlbertModel", "inner_group_num", 1024, "times inner_group_num");
  refuses("BertForSequenceClassification", "id2label", {{"1", "x"}}, "id2label has no name");
  refuses("BertForSequenceClassification", "id2label", json::object(), "id2label is no object");
  refuses("BertForSequenceClassification", "id2label", {{"0", std::string(300, 'x')}}, "at most 256 bytes");
  refuses("ElectraModel", "dim", 1, "ElectraModel\" is not supported");
}

TEST_CASE("random model: a BERT that was written is read back") {
  for (const bool is_plain : {true, false}) {
    const TemporaryDirectory directory;
    ModelConfig config = tiny_bert();
    if (!is_plain)
      config.encoder = EncoderConfig{.num_types = 1, .pooling = PoolingMode::kLast, .normalizes = false};
    write_random_bert(directory.path(), config, 1);
    const ModelConfig read = load_model_config(directory.path());
    CHECK(read.encoder->num_types == config.encoder->num_types);
    CHECK(read.encoder->pooling == config.encoder->pooling);
    CHECK(read.encoder->normalizes == config.encoder->normalizes);
    CHECK_NOTHROW(check_weights(WeightStore(directory.path()), *make_network(read)));
  }
}

}  // namespace troupe
