// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/vectors/score_json.hpp"

#include <string>

#include <doctest/doctest.h>

#include "tests/http/running_server.hpp"

using namespace troupe;

namespace {

std::string written(void (*append)(AnswerJson&, const ApiEmbeddingRequest&, const ServedModelInfo&,
                                   const Embedded&),
                    ApiEmbeddingRequest request, const ServedModelInfo& model, const Embedded& answer) {
  request.id = "x-1";
  request.created = 7;
  std::string out;
  AnswerJson json(out, AnswerJson::Long::kAtOnce);
  append(json, request, model, answer);
  return out;
}

}  // namespace

TEST_CASE("score json: numbers of a classifier are between 0 and 1, or as they are") {
  const Embedded answer{.vectors = {0, 2, -2}, .size = 1};
  const auto scores = scores_of({}, answer);
  REQUIRE(scores.size() == 3);
  CHECK(scores[0] == 0.5F);
  CHECK(scores[1] == doctest::Approx(0.880797));
  CHECK(scores[1] + scores[2] == doctest::Approx(1));
  CHECK(scores_of({.activates = false}, answer) == std::vector<float>{0, 2, -2});
}

TEST_CASE("score json: the order is that of the numbers, not of what they are squeezed to") {
  const Embedded answer{.vectors = {20, 30, 25}, .size = 1};
  CHECK(scores_of({}, answer) == std::vector<float>{1, 1, 1});
  const auto ranks = written(append_ranks, {}, test::ranking_model(), answer);
  CHECK(ranks.find("\"index\":1") < ranks.find("\"index\":2"));
  CHECK(ranks.find("\"index\":2") < ranks.find("\"index\":0"));
  ServedModelInfo model = test::mood_model();
  model.has_independent_labels = true;
  const auto classes = written(append_classes, {}, model, {.vectors = {20, 0, 30}, .size = 3});
  CHECK(classes.find("\"label\":\"good\"") != std::string::npos);
}

TEST_CASE("score json: vectors have the cosine of their angle, one with each or pair by pair") {
  const Embedded answer{.vectors = {3, 4, 0, 5, 4, -3, 0, 0}, .size = 2};
  const auto one = scores_of({.num_first = 1}, answer);
  REQUIRE(one.size() == 3);
  CHECK(one[0] == doctest::Approx(0.8));
  CHECK(one[1] == doctest::Approx(0));
  CHECK(one[2] == 0);  // a vector without length
  const auto pairs = scores_of({.num_first = 2}, answer);
  REQUIRE(pairs.size() == 2);
  CHECK(pairs[1] == 0);
}

TEST_CASE("score json: probabilities add up to 1, unless labels are independent") {
  ServedModelInfo model = test::mood_model();
  const std::vector<float> numbers = {1, 2, 3};
  const auto shares = probabilities_of(numbers, model, true);
  CHECK(shares[0] + shares[1] + shares[2] == doctest::Approx(1));
  CHECK(shares[2] == doctest::Approx(0.665241));
  CHECK(probabilities_of(numbers, model, false) == numbers);
  CHECK(probabilities_of(std::vector<float>{1000, 0, 0}, model, true)[0] == 1);
  model.has_independent_labels = true;
  CHECK(probabilities_of(numbers, model, true)[0] == doctest::Approx(0.731059));
}

TEST_CASE("score json: nodes of many small trees are written as the client takes them") {
  Embedded answer{.size = 3};
  for (int tree = 0; tree < 300; ++tree) {
    answer.trees.push_back({.num_nodes = 3, .root = 2});
    for (int i = 0; i < 9; ++i) answer.vectors.push_back(static_cast<float>((tree + i) % 5));
  }
  const ServedModelInfo model = test::mood_model();
  std::string reply;
  AnswerJson json(reply);
  append_classes(json, {.id = "x-1", .created = 7}, model, answer);
  REQUIRE(json.has_gaps());
  CHECK(reply.find("nodes\":[{") == std::string::npos);
  LongAnswer pieces = json.take(nullptr);
  std::string joined;
  while (pieces.append_some(joined, 1000)) {
  }
  CHECK(joined == written(append_classes, {}, model, answer));
}

TEST_CASE("score json: classes, scores and ranks, byte for byte") {
  CHECK(written(append_classes, {.activates = false}, test::mood_model(),
                {.vectors = {1, 0.5F, 2, 3, 0, 0}, .size = 3, .prompt_tokens = 9}) ==
        R"({"id":"x-1","object":"list","created":7,"model":"moods","data":[)"
        R"({"index":0,"label":"good","probs":[1,0.5,2],"num_classes":3},)"
        R"({"index":1,"label":"bad","probs":[3,0,0],"num_classes":3}],)"
        R"("usage":{"prompt_tokens":9,"total_tokens":9}})");
  const Embedded answer{.vectors = {0.5F, 2, 0.5F, 3}, .size = 1, .prompt_tokens = 9};
  CHECK(written(append_scores, {.activates = false}, test::ranking_model(), answer) ==
        R"({"id":"x-1","object":"list","created":7,"model":"ranker","data":[)"
        R"({"index":0,"object":"score","score":0.5},{"index":1,"object":"score","score":2},)"
        R"({"index":2,"object":"score","score":0.5},{"index":3,"object":"score","score":3}],)"
        R"("usage":{"prompt_tokens":9,"total_tokens":9}})");
  CHECK(written(append_ranks, {.activates = false, .top_n = 3, .documents = {"a", "b\"", "c", "d"}},
                test::ranking_model(), answer) ==
        R"({"id":"x-1","model":"ranker","results":[{"index":3,"document":{"text":"d"},"relevance_score":3},)"
        R"({"index":1,"document":{"text":"b\""},"relevance_score":2},)"
        R"({"index":0,"document":{"text":"a"},"relevance_score":0.5}],)"
        R"("usage":{"prompt_tokens":9,"total_tokens":9},)"
        R"("meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1}}})");
}
