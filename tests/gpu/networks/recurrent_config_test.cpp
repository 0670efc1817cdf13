// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/recurrent_config.hpp"

#include <stdexcept>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "gpu/networks/network.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

using nlohmann::json;

json lstm() {
  return {
      {"architectures", {"LstmForCausalLM"}}, {"vocab_size", 65}, {"hidden_size", 128}, {"num_layers", 2}};
}

json seq2seq() {
  return {{"architectures", {"GruForConditionalGeneration"}},
          {"vocab_size", 103},
          {"source_vocab_size", 29},
          {"hidden_size", 256},
          {"decoder_start_token_id", 2}};
}

json tree() {
  return {{"architectures", {"ChildSumTreeLstmForClassification"}}, {"vocab_size", 31}, {"hidden_size", 20}};
}

ModelConfig load(const json& config) {
  const TemporaryDirectory directory;
  directory.write("config.json", config.dump());
  return load_model_config(directory.path());
}

// Without the file's name.
std::string problem_of(json config, const char* key, const json& value) {
  config[key] = value;
  try {
    load(config);
  } catch (const std::runtime_error& error) {
    const std::string text = error.what();
    return text.substr(text.find("config.json: ") + 13);
  }
  return "";
}

}  // namespace

TEST_CASE("recurrent configuration: what is absent has defaults, cells and rules follow") {
  const ModelConfig config = load(lstm());
  CHECK_FALSE(config.has_pages());
  CHECK(config.recurrent->embedding_size == 128);
  CHECK(config.context_length == 65536);
  const auto network = make_network(config);
  CHECK(network->shapes().row_width == 2 * 2 * 128);
  CHECK(network->unfolding() == UnfoldingRule{});
  const auto pair = make_network(load(seq2seq()));
  CHECK(pair->cells().size() == 2);
  CHECK(pair->cells()[1].priority > pair->cells()[0].priority);
  CHECK(pair->unfolding()->decoder_start == 2);
  CHECK(pair->unfolding()->source_end == -1);
  CHECK_FALSE(pair->unfolding()->attends);
  for (const char* attention : {"dot", "general", "additive"}) {
    json config = seq2seq();
    config["attention"] = attention;
    const auto attending = make_network(load(config));
    CHECK(attending->unfolding()->attends);
    // Keys of additive scores are kept.
    const std::uint32_t kept = std::string(attention) == "additive" ? pair->shapes().row_width : 0;
    CHECK(attending->shapes().row_width == pair->shapes().row_width + kept);
  }
  const ModelConfig of_tree = load(tree());
  CHECK(*of_tree.labels() == std::vector<std::string>{"LABEL_0", "LABEL_1"});
  CHECK(make_network(of_tree)->cells()[0].vector_size == 2);
}

TEST_CASE("recurrent configuration: fields that are wrong are named with their values") {
  CHECK(problem_of(lstm(), "vocab_size", nullptr).find("vocab_size") != std::string::npos);
  CHECK(problem_of(lstm(), "hidden_size", 0).find("hidden_size") != std::string::npos);
  CHECK(problem_of(lstm(), "bidirectional", true) == "bidirectional is not supported");
  CHECK(problem_of(lstm(), "eos_token_id", 65) ==
        "eos_token_id is 65, expected a token id below vocab_size 65");
  json wide = lstm();
  wide["embedding_size"] = 64;
  CHECK(problem_of(wide, "tie_word_embeddings", true) ==
        "tie_word_embeddings needs an embedding_size of hidden_size 128");
  CHECK(problem_of(seq2seq(), "source_vocab_size", 103) ==
        "source_vocab_size 103 leaves none of vocab_size 103 to the target");
  CHECK(problem_of(seq2seq(), "decoder_start_token_id", nullptr) == "decoder_start_token_id is missing");
  CHECK(problem_of(seq2seq(), "attention", "concat") ==
        "attention \"concat\" is not supported (none, dot, general and additive are)");
  CHECK(problem_of(tree(), "unk_token_id", -1) ==
        "unk_token_id is -1, expected a token id below vocab_size 31");
  CHECK(problem_of(tree(), "id2label", json::array()) == "id2label is no object of 1 to 4096 names");
}

}  // namespace troupe
