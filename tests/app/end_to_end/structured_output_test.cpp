// SPDX-License-Identifier: Apache-2.0
// Answers that must have a form, of the real server with the demo model, which would say
// something else if it might.
#include <doctest/doctest.h>

#include <regex>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/http/chat.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/process/server_process.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

ServerProcess demo_server(std::vector<std::string> further = {}) {
  std::vector<std::string> options = {"--model",           TROUPE_SOURCE_DIR "/models/demo",
                                      "--memory",          "256MiB",
                                      "--log-level",       "warning",
                                      "--store-directory", "none"};
  options.insert(options.end(), further.begin(), further.end());
  return ServerProcess(options);
}

json request(const std::string& question, json form) {
  json body = {{"messages", user_asks(question)}, {"max_tokens", 200}, {"temperature", 0}};
  body.update(form);
  return body;
}

json ask(const ServerProcess& server, const json& body) {
  const auto answer = http_post(server.port(), "/v1/chat/completions", body.dump());
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  return json::parse(answer.body);
}

json schema_form(json schema) {
  return {{"response_format",
           {{"type", "json_schema"},
            {"json_schema", {{"name", "answer"}, {"strict", true}, {"schema", schema}}}}}};
}

json person() {
  return {{"type", "object"},
          {"properties",
           {{"age", {{"type", "integer"}, {"minimum", 10}, {"maximum", 99}}},
            {"kind", {{"enum", {"cat", "dog"}}}},
            {"name", {{"type", "string"}, {"minLength", 1}, {"maxLength", 12}}}}},
          {"required", {"age", "kind", "name"}},
          {"additionalProperties", false}};
}

void check_person(const std::string& text) {
  CAPTURE(text);
  const json value = json::parse(text);
  REQUIRE(value.is_object());
  CHECK(value.size() == 3);
  CHECK(value["age"].is_number_integer());
  CHECK(value["age"] >= 10);
  CHECK(value["age"] <= 99);
  CHECK((value["kind"] == "cat" || value["kind"] == "dog"));
  const auto name = value["name"].get<std::string>();
  CHECK_FALSE(name.empty());
}

}  // namespace

TEST_CASE("structured output: every draw obeys the schema, whatever the temperature and the neighbours") {
  const auto server = demo_server();
  std::vector<std::thread> clients;
  std::vector<std::string> texts(16);
  for (std::size_t i = 0; i < texts.size(); ++i)
    clients.emplace_back([&, i] {
      json body = request("My name is Ada.", i % 4 == 3 ? json::object() : schema_form(person()));
      body["temperature"] = i % 2 == 0 ? 0.0 : 1.8;
      body["seed"] = i;
      texts[i] = http_post(server.port(), "/v1/chat/completions", body.dump()).body;
    });
  for (std::thread& client : clients) client.join();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const json answer = json::parse(texts[i]);
    REQUIRE_MESSAGE(answer.contains("choices"), texts[i]);
    if (i % 4 == 3) continue;
    CHECK(answer["choices"][0]["finish_reason"] == "stop");
    check_person(content_of(answer));
  }
}

TEST_CASE("structured output: alone and among others the answer is the same") {
  const auto server = demo_server({"--max-batch-sequences", "8"});
  const json body = request("Count from 3 to 7.", schema_form(person()));
  const std::string alone = content_of(ask(server, body));
  std::vector<std::thread> neighbours;
  for (int i = 0; i < 6; ++i)
    neighbours.emplace_back([&, i] {
      http_post(
          server.port(), "/v1/chat/completions",
          request("Tell me a story.", i % 2 == 0 ? json::object() : json{{"regex", "[a-z ]{100}"}}).dump());
    });
  for (int i = 0; i < 5; ++i) CHECK(content_of(ask(server, body)) == alone);
  for (std::thread& neighbour : neighbours) neighbour.join();
}

TEST_CASE("structured output: regular expressions and grammars are followed to their end") {
  const auto server = demo_server();
  const auto digits = ask(server, request("Hello!", {{"regex", "[0-9]{3}-[A-F]{2}"}}));
  CHECK(std::regex_match(content_of(digits), std::regex("[0-9]{3}-[A-F]{2}")));
  CHECK(digits["choices"][0]["finish_reason"] == "stop");
  const auto words = ask(server, request("Hello!", {{"grammar", "root ::= (\"ja\" | \"nein\") \"!\"{2}"}}));
  CHECK((content_of(words) == "ja!!" || content_of(words) == "nein!!"));
  const auto named = ask(server, request("Hello!", {{"grammar", "root ::= \"ja\" <|user|> \"!\""}}));
  CHECK(named["choices"][0]["finish_reason"] == "stop");
  CHECK(content_of(named).starts_with("ja"));
  const auto object =
      ask(server, request("Hello!", {{"response_format", {{"type", "json_object"}}}, {"max_tokens", 400}}));
  if (object["choices"][0]["finish_reason"] == "stop") CHECK(json::parse(content_of(object)).is_object());
  CHECK(content_of(object).front() == '{');
  const auto cut = ask(server, request("Hello!", {{"regex", "[a-z]{50}"}, {"max_tokens", 2}}));
  CHECK(cut["choices"][0]["finish_reason"] == "length");
}

TEST_CASE("structured output: streamed, and in completions and responses") {
  const auto server = demo_server();
  json body = request("Hello!", {{"regex", "[0-9]{8}"}});
  body["stream"] = true;
  const auto streamed = http_post(server.port(), "/v1/chat/completions", body.dump());
  CHECK(streamed.body.find("\"finish_reason\":\"stop\"") != std::string::npos);
  const auto completion = http_post(server.port(), "/v1/completions",
                                    json{{"prompt", "x"}, {"max_tokens", 20}, {"regex", "(ab){3}"}}.dump());
  CHECK(json::parse(completion.body)["choices"][0]["text"] == "ababab");
  const json format = {{"type", "json_schema"}, {"name", "n"}, {"schema", {{"const", "yes"}}}};
  const auto response = http_post(server.port(), "/v1/responses",
                                  json{{"input", "Hello!"}, {"text", {{"format", format}}}}.dump());
  CHECK(json::parse(response.body)["output"][0]["content"][0]["text"] == "\"yes\"");
}

TEST_CASE("structured output: what can't be followed is refused with its place") {
  const auto server = demo_server();
  const auto refused = [&](json form) {
    const auto answer =
        http_post(server.port(), "/v1/chat/completions", request("Hello!", std::move(form)).dump());
    CHECK(answer.status == 400);
    return json::parse(answer.body)["error"];
  };
  const json bad_schema = refused(schema_form({{"type", "number"}, {"multipleOf", 0.37}}));
  CHECK(bad_schema["param"] == "response_format.json_schema.schema");
  CHECK(bad_schema["message"].get<std::string>().find("multipleOf") != std::string::npos);
  CHECK(refused({{"regex", "(a"}})["param"] == "regex");
  CHECK(refused({{"grammar", "root ::= nothing"}})["param"] == "grammar");
  CHECK(refused({{"grammar", "root ::= \"ja\" <|nobody|>"}})["param"] == "grammar");
  CHECK(refused({{"regex", "(?=a)b"}})["message"].get<std::string>().find("ook") != std::string::npos);
}

TEST_CASE("logit_bias: a token that is pushed away is not drawn, one that is pulled in is") {
  const auto server = demo_server();
  const json plain = {{"prompt", "The"}, {"max_tokens", 1}, {"temperature", 0}, {"logprobs", 1}};
  const auto first = json::parse(http_post(server.port(), "/v1/completions", plain.dump()).body);
  const auto text = first["choices"][0]["text"].get<std::string>();
  json biased = plain;
  for (int id = 0; id < 1000; ++id) biased["logit_bias"][std::to_string(id)] = id == 300 ? 100 : -100;
  const auto pulled = json::parse(http_post(server.port(), "/v1/completions", biased.dump()).body);
  json again = biased;
  again["prompt"] = "Another";
  CHECK(pulled["choices"][0]["text"] ==
        json::parse(http_post(server.port(), "/v1/completions", again.dump()).body)["choices"][0]["text"]);
  CHECK(pulled["choices"][0]["text"] != text);
  // Log-probabilities are of the model's own distribution, before the bias.
  CHECK(pulled["choices"][0]["logprobs"]["top_logprobs"][0][text] ==
        first["choices"][0]["logprobs"]["top_logprobs"][0][text]);
  json unknown = plain;
  unknown["logit_bias"]["12345678"] = 1;
  CHECK(json::parse(http_post(server.port(), "/v1/completions", unknown.dump()).body)["error"]["param"] ==
        "logit_bias");
}
