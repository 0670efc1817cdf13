// SPDX-License-Identifier: Apache-2.0
#include "http/api/requests/openai_api.hpp"

#include <string>

#include <doctest/doctest.h>

#include "tests/http/running_server.hpp"

using namespace troupe;

namespace {

using Parser = std::variant<ApiEmbeddingRequest, ApiError> (*)(std::string_view, const ServedModels&,
                                                               const Limits&);

ServedModels models() {
  ServedModelInfo vectors = test::embedding_model();
  vectors.prompts.texts = {{"query", "query: "}, {"passage", "passage: "}};
  return ServedModels({test::demo_model(), test::ranking_model(), test::mood_model(), vectors});
}
ApiEmbeddingRequest accepted(Parser parse, const std::string& body) {
  const auto parsed = parse(body, models(), {});
  const auto* error = std::get_if<ApiError>(&parsed);
  INFO(body, " -> ", error == nullptr ? "" : error->message);
  REQUIRE(error == nullptr);
  return std::get<ApiEmbeddingRequest>(parsed);
}
ApiError refused(Parser parse, const std::string& body, const Limits& limits = {}) {
  const auto parsed = parse(body, models(), limits);
  CAPTURE(body.substr(0, 200));
  REQUIRE(std::holds_alternative<ApiError>(parsed));
  return std::get<ApiError>(parsed);
}
const TextPrompt& text(const ApiEmbeddingRequest& request, std::size_t input) {
  return std::get<TextPrompt>(request.embedding.inputs.at(input));
}
std::string list_of(int number) {
  std::string list = "[\"d\"";
  for (int i = 1; i < number; ++i) list += ",\"d\"";
  return list + "]";
}

}  // namespace

TEST_CASE("rerank request: a cross-encoder gets pairs that share the query") {
  const auto request = accepted(parse_rerank_request,
                                R"({"query":"q","documents":["a",{"text":"b"}],"top_n":1,"truncate":true})");
  CHECK(request.use == VectorUse::kRanks);
  CHECK(request.embedding.model == 1);  // the first that scores pairs
  CHECK(request.embedding.truncates);
  CHECK(request.num_first == 0);
  CHECK(request.top_n == 1);
  CHECK(request.activates);
  CHECK(request.documents == std::vector<std::string>{"a", "b"});
  REQUIRE(request.embedding.inputs.size() == 2);
  CHECK(text(request, 1).text == "b");
  CHECK(*text(request, 0).first == "q");
  CHECK(text(request, 0).first == text(request, 1).first);  // one copy
  CHECK(name_of_input(request.embedding, 1) == "documents[1]");
}

TEST_CASE("rerank request: a model of vectors gets texts behind the prompts it was trained with") {
  const auto request =
      accepted(parse_rerank_request,
               R"({"model":"minilm","query":"q","documents":["a","b"],"return_documents":false})");
  CHECK(request.num_first == 1);
  CHECK(request.documents.empty());
  REQUIRE(request.embedding.inputs.size() == 3);
  CHECK(text(request, 0).text == "query: q");
  CHECK(text(request, 2).text == "passage: b");
  CHECK_FALSE(text(request, 0).first);
  CHECK(name_of_input(request.embedding, 0) == "query");
  CHECK(name_of_input(request.embedding, 1) == "documents[0]");
}

TEST_CASE("rerank request: what is wrong is named") {
  const auto field = [](const std::string& body, const Limits& limits = {}) {
    return refused(parse_rerank_request, body, limits).field.value_or("");
  };
  CHECK(field(R"({"documents":["a"]})") == "query");
  CHECK(field(R"({"query":"","documents":["a"]})") == "query");
  CHECK(field(R"({"query":3,"documents":["a"]})") == "query");
  CHECK(field(R"({"query":"q"})") == "documents");
  CHECK(field(R"({"query":"q","documents":"a"})") == "documents");
  CHECK(field(R"({"query":"q","documents":[]})") == "documents");
  CHECK(field(R"({"query":"q","documents":["a",""]})") == "documents[1]");
  CHECK(field(R"({"query":"q","documents":[{"title":"a"}]})") == "documents[0]");
  CHECK(field(R"({"query":"q","documents":[7]})") == "documents[0]");
  CHECK(field(R"({"query":"q","documents":["a"],"top_n":-1})") == "top_n");
  CHECK(field(R"({"query":"q","documents":["a"],"return_documents":1})") == "return_documents");
  CHECK(field(R"({"query":"q","documents":["a"],"max_tokens_per_doc":100})") == "max_tokens_per_doc");
  CHECK(field(R"({"query":"q","documents":["a"],"truncate_prompt_tokens":5})") == "truncate_prompt_tokens");
  CHECK(field("{\"query\":\"q\",\"documents\":" + list_of(2049) + "}") == "documents");
  Limits limits;
  limits.max_pair_bytes = 19;
  CHECK(field("{\"query\":\"qqqq\",\"documents\":" + list_of(4) + "}", limits) == "query");
  CHECK(refused(parse_rerank_request, R"({"model":"moods","query":"q","documents":["a"]})")
            .message.find("models that score pairs of texts: \"ranker\", \"minilm\"") != std::string::npos);
}

TEST_CASE("score request: one text with one, with many, or pair by pair") {
  const auto one = accepted(parse_score_request, R"({"text_1":"a","text_2":"b"})");
  CHECK(one.use == VectorUse::kScores);
  REQUIRE(one.embedding.inputs.size() == 1);
  CHECK(name_of_input(one.embedding, 0) == "text_2");
  const auto many = accepted(parse_score_request, R"({"text_1":["a"],"text_2":["b","c"]})");
  CHECK(*text(many, 1).first == "a");
  const auto pairs =
      accepted(parse_score_request, R"({"text_1":["a","b"],"text_2":["c","d"],"use_activation":false})");
  CHECK(*text(pairs, 1).first == "b");
  CHECK(text(pairs, 1).text == "d");
  CHECK_FALSE(pairs.activates);
  const auto vectors =
      accepted(parse_score_request, R"({"model":"minilm","text_1":["a","b"],"text_2":["c","d"]})");
  CHECK(vectors.num_first == 2);
  CHECK(vectors.embedding.inputs.size() == 4);
  CHECK(name_of_input(vectors.embedding, 3) == "text_2[1]");
  CHECK(refused(parse_score_request, R"({"text_1":["a","b"],"text_2":["c","d","e"]})").field == "text_1");
  CHECK(refused(parse_score_request, R"({"text_1":["a","b"],"text_2":"c"})").field == "text_1");
  CHECK(refused(parse_score_request, R"({"text_1":"a"})").field == "text_2");
}

TEST_CASE("classify request: texts or token ids, numbers as they are where that is asked for") {
  const auto request = accepted(parse_classify_request, R"({"model":"moods","input":["a",[1,2]]})");
  CHECK(request.use == VectorUse::kClasses);
  CHECK(request.embedding.inputs.size() == 2);
  CHECK(request.activates);
  CHECK_FALSE(accepted(parse_classify_request, R"({"input":"a","raw_scores":true})").activates);
  CHECK_FALSE(accepted(parse_classify_request, R"({"input":"a","activation":false})").activates);
  CHECK(refused(parse_classify_request, R"({"input":""})").field == "input");
  CHECK(refused(parse_classify_request, R"({"model":"minilm","input":"a"})").field == "model");
  CHECK(refused(parse_classify_request, R"({"input":"a","use_activation":"no"})").field == "use_activation");
}

TEST_CASE("embedding request: a prompt of the model is put in front of texts by its name") {
  const auto request = accepted(parse_embedding_request, R"({"input":["a",[1]],"prompt_name":"query"})");
  CHECK(text(request, 0).text == "query: a");
  CHECK(std::get<TokenPrompt>(request.embedding.inputs[1]).tokens.size() == 1);
  CHECK(text(accepted(parse_embedding_request, R"({"input":"a"})"), 0).text == "a");
  const ApiError error = refused(parse_embedding_request, R"({"input":"a","prompt_name":"x"})");
  CHECK(error.field == "prompt_name");
  CHECK(error.message.find("\"passage\", \"query\"") != std::string::npos);
}
