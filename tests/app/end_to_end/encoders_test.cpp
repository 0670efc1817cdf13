// SPDX-License-Identifier: Apache-2.0
// The real server with cross-encoders, classifiers and a model of vectors, asked over
// HTTP for what transformers computes with the same weights and tokens.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/gpu/encoder_fixture.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/text/tokenizer/bert_file.hpp"

using namespace troupe;
using namespace troupe::test;
using nlohmann::json;

namespace {

const EncoderFixture& fixture_of(const std::string& architecture, std::size_t num_labels,
                                 const std::string& pooling = "") {
  static const auto fixtures = read_encoder_fixtures();
  for (const auto& fixture : fixtures) {
    const bool fits = num_labels == 0 || fixture.config.at("id2label").size() == num_labels;
    if (fixture.architecture() == architecture && fixture.pooling == pooling && fits) return fixture;
  }
  FAIL("no fixture of " << architecture);
  return fixtures.front();
}

// Word i of the vocabulary is "wi", but for the special ones.
std::string words(const std::vector<std::int32_t>& tokens, std::size_t begin, std::size_t end) {
  std::string text;
  for (std::size_t i = begin; i < end; ++i) text += (i > begin ? " w" : "w") + std::to_string(tokens[i]);
  return text;
}

json tokenizer_file() {
  std::vector<std::string> vocabulary = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  while (vocabulary.size() < 50) vocabulary.push_back("w" + std::to_string(vocabulary.size()));
  json file = bert_file(vocabulary);
  file["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"[CLS]", 2}}, {"sep", {"[SEP]", 3}}};
  return file;
}

// As XLM-R has it: pieces with scores, of which text is cut at spaces, between <s> and </s>.
json unigram_file() {
  json pieces = json::array(), added = json::array();
  for (const char* special : {"<unk>", "<pad>", "<s>", "</s>", "<mask>"}) {
    added.push_back({{"id", pieces.size()}, {"content", special}, {"special", true}});
    pieces.push_back(json::array({special, 0.0}));
  }
  while (pieces.size() < 50) {
    const auto id = static_cast<double>(pieces.size());
    pieces.push_back(json::array({"▁w" + std::to_string(pieces.size()), -1.0 - id / 10}));
  }
  return {
      {"added_tokens", added},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers", {{{"type", "WhitespaceSplit"}}, {{"type", "Metaspace"}, {"replacement", "▁"}}}}}},
      {"post_processor", {{"type", "RobertaProcessing"}, {"cls", {"<s>", 2}}, {"sep", {"</s>", 3}}}},
      {"decoder", {{"type", "Metaspace"}, {"replacement", "▁"}}},
      {"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", pieces}}}};
}

class EncoderServer {
 public:
  EncoderServer() : server_(flags()) {}

  HttpAnswer post(const std::string& path, const json& body) const {
    return http_post(server_.port(), path, body.dump());
  }
  json answer(const std::string& path, const json& body) const {
    const auto given = post(path, body);
    REQUIRE_MESSAGE(given.status == 200, given.body);
    return json::parse(given.body);
  }

 private:
  std::vector<std::string> flags() {
    std::vector<std::string> flags = {"--log-level", "warning", "--device", "cpu", "--memory", "256MiB"};
    const auto add = [&](const char* name, const EncoderFixture& fixture, const json& tokenizer) {
      const auto path = directory_.path() / name;
      std::filesystem::create_directory(path);
      fixture.write(path);
      std::ofstream(path / "tokenizer.json") << tokenizer.dump();
      std::ofstream(path / "config_sentence_transformers.json") << R"({"prompts": {"query": "w7 "}})";
      flags.insert(flags.end(), {"--model", path.string()});
    };
    add("ranker", fixture_of("BertForSequenceClassification", 1), tokenizer_file());
    add("moods", fixture_of("BertForSequenceClassification", 3), tokenizer_file());
    add("vectors", fixture_of("BertModel", 0), tokenizer_file());
    add("multilingual", fixture_of("XLMRobertaModel", 0, "cls"), unigram_file());
    return flags;
  }

  TemporaryDirectory directory_;
  ServerProcess server_;
};

}  // namespace

TEST_CASE("encoders: a pair has transformers' score, on every endpoint, alone and in company") {
  const EncoderServer server;
  const auto& result = fixture_of("BertForSequenceClassification", 1).results.at(2);
  const std::string first = words(result.tokens, 1, 4), second = words(result.tokens, 5, 7);
  const json score = server.answer(
      "/score", {{"model", "ranker"}, {"text_1", first}, {"text_2", second}, {"use_activation", false}});
  const auto alone = score.at("data").at(0).at("score").get<double>();
  CHECK(alone == doctest::Approx(result.vector.at(0)).epsilon(1e-4));
  CHECK(score.at("usage").at("prompt_tokens") == result.tokens.size());
  std::vector<std::string> documents;
  for (int i = 0; i < 40; ++i) documents.push_back("w" + std::to_string(5 + i) + " w9");
  documents[23] = second;
  const json ranks = server.answer(
      "/v1/rerank",
      {{"model", "ranker"}, {"query", first}, {"documents", documents}, {"top_n", 40}, {"raw_scores", true}});
  double previous = 1e9;
  bool is_found = false;
  for (const json& rank : ranks.at("results")) {
    const auto relevance = rank.at("relevance_score").get<double>();
    CHECK(relevance <= previous);
    previous = relevance;
    CHECK(rank.at("document").at("text") == documents.at(rank.at("index").get<std::size_t>()));
    if (rank.at("index") != 23) continue;
    is_found = true;
    CHECK(relevance == alone);  // to the last bit
  }
  CHECK(is_found);
  const json best = server.answer(
      "/rerank", {{"model", "ranker"}, {"query", first}, {"documents", documents}, {"top_n", 1}});
  REQUIRE(best.at("results").size() == 1);
  CHECK(best.at("results").at(0).at("index") == ranks.at("results").at(0).at("index"));
  CHECK(best.at("results").at(0).at("relevance_score") > 0);
  CHECK(best.at("results").at(0).at("relevance_score") < 1);
}

TEST_CASE("encoders: a classifier gives transformers' numbers by its labels") {
  const EncoderServer server;
  const auto& result = fixture_of("BertForSequenceClassification", 3).results.at(1);
  const std::string text = words(result.tokens, 1, result.tokens.size() - 1);
  const json raw =
      server.answer("/v1/classify", {{"model", "moods"}, {"input", {text, "w5"}}, {"use_activation", false}});
  REQUIRE(raw.at("data").size() == 2);
  std::size_t best = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(raw.at("data").at(0).at("probs").at(i).get<double>() ==
          doctest::Approx(result.vector.at(i)).epsilon(1e-4));
    if (result.vector[i] > result.vector[best]) best = i;
  }
  const char* labels[] = {"bad", "so-so", "good"};
  CHECK(raw.at("data").at(0).at("label") == labels[best]);
  const json shares = server.answer("/classify", {{"model", "moods"}, {"input", text}});
  double sum = 0;
  for (const json& share : shares.at("data").at(0).at("probs")) sum += share.get<double>();
  CHECK(sum == doctest::Approx(1));
}

TEST_CASE("encoders: a model of vectors ranks by cosine, behind its prompts") {
  const EncoderServer server;
  const auto vector = [&](const json& body) {
    return server.answer("/v1/embeddings", body).at("data").at(0).at("embedding").get<std::vector<float>>();
  };
  const auto query = vector({{"model", "vectors"}, {"input", "w20 w21"}, {"prompt_name", "query"}});
  CHECK(query == vector({{"model", "vectors"}, {"input", "w7 w20 w21"}}));
  const auto document = vector({{"model", "vectors"}, {"input", "w30"}});
  double cosine = 0;  // both have length 1
  for (std::size_t i = 0; i < query.size(); ++i) cosine += double{query[i]} * document[i];
  const json ranks =
      server.answer("/v1/rerank", {{"model", "vectors"}, {"query", "w20 w21"}, {"documents", {"w30"}}});
  CHECK(ranks.at("results").at(0).at("relevance_score").get<double>() ==
        doctest::Approx(cosine).epsilon(1e-5));
}

TEST_CASE("encoders: an XLM-R with a tokenizer of type Unigram gives transformers' vectors") {
  const EncoderServer server;
  const auto& result = fixture_of("XLMRobertaModel", 0, "cls").results.at(1);
  const std::string text = words(result.tokens, 1, result.tokens.size() - 1);
  const json answer =
      server.answer("/v1/embeddings", {{"model", "multilingual"}, {"input", "\t" + text + "\n"}});
  CHECK(answer.at("usage").at("prompt_tokens") == result.tokens.size());
  const auto vector = answer.at("data").at(0).at("embedding").get<std::vector<double>>();
  REQUIRE(vector.size() == result.vector.size());
  double product = 0, square = 0, expected_square = 0;
  for (std::size_t i = 0; i < vector.size(); ++i) {
    product += vector[i] * result.vector[i];
    square += vector[i] * vector[i];
    expected_square += result.vector[i] * result.vector[i];
  }
  CHECK(product / std::sqrt(square * expected_square) > 0.99999);
}

TEST_CASE("encoders: what is too long is refused by name or cut, and what can't be is said") {
  const EncoderServer server;
  std::string text = "w5";
  for (int i = 0; i < 40; ++i) text += " w6";
  json body = {{"model", "ranker"}, {"query", "w7"}, {"documents", {"w8", text}}};
  const auto refused = server.post("/rerank", body);
  CHECK(refused.status == 400);
  CHECK(json::parse(refused.body).at("error").at("param") == "documents[1]");
  CHECK(json::parse(refused.body).at("error").at("code") == "context_length_exceeded");
  body["truncate"] = true;
  CHECK(server.answer("/rerank", body).at("usage").at("prompt_tokens") == 5 + 24);
  CHECK(server.post("/v1/rerank", {{"model", "moods"}, {"query", "w7"}, {"documents", {"w8"}}}).status ==
        400);
  CHECK(server.post("/v1/embeddings", {{"model", "ranker"}, {"input", "w7"}}).status == 400);
  CHECK(server.post("/v1/classify", {{"model", "vectors"}, {"input", "w7"}}).status == 400);
}
