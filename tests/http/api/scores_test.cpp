// SPDX-License-Identifier: Apache-2.0
// POST /v1/classify, /v1/score and /v1/rerank before a scripted engine.
#include "http/server/server.hpp"

#include <limits>

#include <doctest/doctest.h>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "tests/http/running_server.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

TestResponse ask(const RunningServer& server, const std::string& request) {
  TestClient client(server.port());
  client.send(request);
  return client.read_response();
}

}  // namespace

TEST_CASE("scores: every path of an endpoint answers, and the engine gets what was asked") {
  RunningServer server({demo_model(), ranking_model(), mood_model()});
  server.script().on_submit = [&](RequestId id) {
    const auto& request = server.script().submitted(id).embedding;
    const std::uint32_t size = request.model == 2 ? 3 : 1;
    server.script().deliver(id, Embedded{.vectors = std::vector<float>(request.inputs.size() * size, 0),
                                         .size = size,
                                         .prompt_tokens = 4});
  };
  for (const char* path : {"/v1/rerank", "/rerank", "/v2/rerank"}) {
    const auto answer = ask(server, post_request(path, R"({"query":"q","documents":["a","b"]})"));
    CHECK(answer.status == 200);
    CHECK(boost::json::parse(answer.body).at("results").at(1).at("relevance_score").to_number<double>() ==
          0.5);
    CHECK(boost::json::parse(answer.body).at("id").as_string().starts_with("rerank-"));
  }
  for (const char* path : {"/v1/score", "/score"}) {
    const auto answer = ask(server, post_request(path, R"({"text_1":"q","text_2":"a"})"));
    CHECK(answer.status == 200);
    CHECK(boost::json::parse(answer.body).at("data").at(0).at("score").to_number<double>() == 0.5);
  }
  for (const char* path : {"/v1/classify", "/classify"}) {
    const auto answer = ask(server, post_request(path, R"({"model":"moods","input":"a"})"));
    CHECK(answer.status == 200);
    CHECK(boost::json::parse(answer.body).at("data").at(0).at("label").as_string() == "bad");
  }
  const auto first = server.script().submitted(1).embedding;
  CHECK(first.id.starts_with("rerank-"));
  CHECK(*std::get<TextPrompt>(first.inputs[1]).first == "q");
  CHECK(first.origin.path == "/v1/rerank");
}

TEST_CASE("scores: a long document is repeated whole") {
  RunningServer server({ranking_model()});
  server.script().on_submit = [&](RequestId id) {
    server.script().deliver(id, Embedded{.vectors = {1}, .size = 1, .prompt_tokens = 4});
  };
  const std::string document(100'000, 'd');
  const auto answer =
      ask(server, post_request("/rerank", R"({"query":"q","documents":[")" + document + R"("]})"));
  CHECK(answer.status == 200);
  CHECK(boost::json::parse(answer.body).at("results").at(0).at("document").at("text").as_string() ==
        boost::json::string_view(document));
}

TEST_CASE("scores: what can't be answered has its status") {
  RunningServer server({demo_model(), ranking_model()});
  const auto none =
      ask(server, post_request("/v1/rerank", R"({"model":"demo","query":"q","documents":["a"]})"));
  CHECK(none.status == 400);
  CHECK(none.body.find("models that score pairs of texts: \\\"ranker\\\"") != std::string::npos);
  CHECK(ask(server, post_request("/v1/embeddings", R"({"input":"a"})")).status == 400);
  CHECK(ask(server, get_request("/rerank")).status == 405);
  server.script().on_submit = [&](RequestId id) {
    server.script().deliver(
        id, Embedded{.vectors = {std::numeric_limits<float>::infinity()}, .size = 1, .prompt_tokens = 4});
  };
  CHECK(ask(server, post_request("/rerank", R"({"query":"q","documents":["a"]})")).status == 500);
}

TEST_CASE("scores: the list of models says what each can do") {
  RunningServer server({demo_model(), embedding_model(), ranking_model(), mood_model()});
  const auto list = boost::json::parse(ask(server, get_request("/v1/models")).body).at("data");
  const auto can = [&](std::size_t model) {
    return boost::json::serialize(list.at(model).at("capabilities"));
  };
  CHECK(can(0) == R"(["completion"])");
  CHECK(can(1) == R"(["embedding","score","rerank"])");
  CHECK(can(2) == R"(["classify","score","rerank"])");
  CHECK(can(3) == R"(["classify"])");
  CHECK(list.at(3).at("labels").at(2).as_string() == "good");
}
