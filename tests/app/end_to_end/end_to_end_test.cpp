// SPDX-License-Identifier: Apache-2.0
// The real binary with the demo model, asked through HTTP and judged by meaning.
#include "tests/support/http/http_client.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/eventually.hpp"
#include "tests/support/http/chat.hpp"
#include "tests/support/observability/server_metrics.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

const std::string kDemoModel = TROUPE_SOURCE_DIR "/models/demo";
const std::vector<std::string> kFlags = {"--model", kDemoModel, "--log-level",
                                         "warning", "--memory", "512MiB"};

struct Question {
  std::string category;
  json messages;
  std::string expected;
};

std::vector<Question> held_out_questions() {
  std::ifstream file(kDemoModel + "/held_out_questions.json");
  std::vector<Question> questions;
  for (const auto& entry : json::parse(file))
    questions.push_back({entry.at("category"), entry.at("messages"), entry.at("expected")});
  return questions;
}

json body_of(const json& messages, bool stream) {
  return {
      {"model", "demo"}, {"messages", messages}, {"temperature", 0}, {"stream", stream}, {"max_tokens", 800}};
}

std::string answer_of(std::uint16_t port, const json& messages) {
  const auto answer = http_post(port, "/v1/chat/completions", body_of(messages, false).dump());
  if (answer.status != 200) return "status " + std::to_string(answer.status) + ": " + answer.body;
  return json::parse(answer.body).at("choices").at(0).at("message").at("content");
}

}  // namespace

TEST_CASE("end to end: held-out questions are answered by meaning, alone and 32 at once, and alike") {
  const ServerProcess server(kFlags);
  const auto questions = held_out_questions();
  REQUIRE(questions.size() >= 100);

  std::vector<std::string> alone;
  std::map<std::string, std::pair<int, int>> right_of;  // category: right, asked
  for (const auto& question : questions) {
    alone.push_back(answer_of(server.port(), question.messages));
    auto& [right, asked] = right_of[question.category];
    right += alone.back() == question.expected ? 1 : 0;
    ++asked;
  }
  int right_in_all = 0;
  for (const auto& [category, counts] : right_of) {
    MESSAGE(category << ": " << counts.first << " of " << counts.second << " right");
    right_in_all += counts.first;
  }
  CHECK(right_in_all >= static_cast<int>(questions.size()) * 9 / 10);

  std::vector<std::string> together(questions.size());
  std::vector<std::thread> askers;
  for (std::size_t first = 0; first < 32; ++first)
    askers.emplace_back([&, first] {
      for (std::size_t i = first; i < questions.size(); i += 32)
        together[i] = answer_of(server.port(), questions[i].messages);
    });
  for (auto& asker : askers) asker.join();
  for (std::size_t i = 0; i < questions.size(); ++i) CHECK(together[i] == alone[i]);

  metrics_when_idle(server.port());
  CHECK(ServerMetrics(server.port())
            .series("troupe_kv_pages{model_name=\"demo\",state=\"running\",tier=\"device\"}") == 0);
}

TEST_CASE("end to end: a streamed answer has role, deltas, finish, usage and [DONE], and says the same") {
  const ServerProcess server(kFlags);
  const auto messages = user_asks("Count from 3 to 7.");
  auto body = body_of(messages, true);
  body["stream_options"] = {{"include_usage", true}};
  const auto answer = http_post(server.port(), "/v1/chat/completions", body.dump());
  REQUIRE(answer.status == 200);
  auto payloads = sse_payloads(answer.body);
  REQUIRE(payloads.size() >= 5);
  CHECK(payloads.back() == "[DONE]");
  payloads.pop_back();
  std::string text;
  std::string finish;
  for (const auto& payload : payloads) {
    const auto chunk = json::parse(payload);
    CHECK(chunk.at("object") == "chat.completion.chunk");
    if (chunk.at("choices").empty()) continue;
    const auto& choice = chunk.at("choices").at(0);
    if (choice.at("delta").contains("content")) text += choice.at("delta").at("content").get<std::string>();
    if (!choice.at("finish_reason").is_null()) finish = choice.at("finish_reason");
  }
  CHECK(json::parse(payloads.front()).at("choices").at(0).at("delta").at("role") == "assistant");
  CHECK(text == "3, 4, 5, 6, 7");
  CHECK(finish == "stop");
  const auto usage = json::parse(payloads.back()).at("usage");
  CHECK(usage.at("total_tokens") ==
        usage.at("prompt_tokens").get<int>() + usage.at("completion_tokens").get<int>());
  CHECK(answer_of(server.port(), messages) == text);
}

TEST_CASE("end to end: a client that applies the template itself gets the answer that a chat gets") {
  const ServerProcess server(kFlags);
  const auto completion_of = [&](const std::string& prompt) {
    const json body = {{"prompt", prompt}, {"temperature", 0}, {"max_tokens", 100}};
    const auto answer = http_post(server.port(), "/v1/completions", body.dump());
    REQUIRE(answer.status == 200);
    return json::parse(answer.body);
  };
  const std::string templated = "<|user|>Count from 3 to 7.<|end|><|assistant|>";
  const auto completion = completion_of(templated);
  CHECK(completion.at("choices").at(0).at("text") ==
        answer_of(server.port(), user_asks("Count from 3 to 7.")));
  CHECK(completion.at("usage").at("prompt_tokens") == 11);
  CHECK(completion.at("choices").at(0).at("text") != answer_of(server.port(), user_asks(templated)));
}

TEST_CASE("end to end: the model's own penalty holds where a request has none, what can't be is named") {
  const TemporaryDirectory directory;
  std::filesystem::copy(kDemoModel, directory.path() / "demo");
  std::ofstream(directory.path() / "demo" / "generation_config.json")
      << R"({"eos_token_id": [4, 0], "do_sample": false, "repetition_penalty": 1000, "num_beams": 4})";
  auto flags = kFlags;
  flags.at(1) = (directory.path() / "demo").string();
  const ServerProcess penalizing(flags), plain(kFlags);
  const auto messages = user_asks("Count from 3 to 7.");
  const std::string penalized = answer_of(penalizing.port(), messages);
  auto body = body_of(messages, false);
  body["repetition_penalty"] = 1000;
  const auto asked = http_post(plain.port(), "/v1/chat/completions", body.dump());
  REQUIRE(asked.status == 200);
  CHECK(json::parse(asked.body).at("choices").at(0).at("message").at("content") == penalized);
  CHECK(penalized != answer_of(plain.port(), messages));
  CHECK(penalizing.output().find("the model recommends sampling that is not applied model=demo "
                                 "fields=num_beams") != std::string::npos);
}

TEST_CASE("end to end: a second turn finds the first one's pages and remembers") {
  const ServerProcess server(kFlags);
  auto messages = user_asks("My name is Ada.");
  messages.push_back(assistant_message(answer_of(server.port(), messages)));
  for (const char* between :
       {"Count from 3 to 40.", "Spell the word cat.", "What is 12 + 7?", "Count from 50 to 80."}) {
    messages.push_back(user_message(between));
    messages.push_back(assistant_message(answer_of(server.port(), messages)));
  }
  messages.push_back(user_message("What is my name?"));
  const auto answer = http_post(server.port(), "/v1/chat/completions", body_of(messages, false).dump());
  REQUIRE(answer.status == 200);
  const auto parsed = json::parse(answer.body);
  CHECK(parsed.at("choices").at(0).at("message").at("content").get<std::string>().find("Ada") !=
        std::string::npos);
  CHECK(parsed.at("usage").at("prompt_tokens_details").at("cached_tokens").get<int>() >= 32);
}

TEST_CASE("end to end: a client that leaves mid-stream gives its pages back") {
  const ServerProcess server(kFlags);
  auto body = body_of(user_asks("Count from 1 to 100."), true);
  body["ignore_eos"] = true;
  body["max_tokens"] = 1900;
  http_post_and_leave(server.port(), "/v1/chat/completions", body.dump(),
                      [](std::string_view raw) { return raw.find("10") != std::string_view::npos; });
  metrics_when_idle(server.port());
  CHECK(ServerMetrics(server.port())
            .series("troupe_kv_pages{model_name=\"demo\",state=\"running\",tier=\"device\"}") == 0);
  CHECK(ServerMetrics(server.port()).series("troupe_requests_total{finished_reason=\"cancelled\"") == 1);
  CHECK(ServerMetrics(server.port()).series("troupe_generation_tokens_total") < 1900);
}

TEST_CASE("end to end: bad input is refused with a clear error and changes nothing") {
  const ServerProcess server(kFlags);
  struct Case {
    std::string body;
    unsigned status;
    std::string says;
  };
  const auto messages = user_asks("Hi").dump();
  std::string long_prompt;
  for (int i = 0; i < 3000; ++i) long_prompt += "word ";
  const std::vector<Case> cases = {
      {"{", 400, "JSON"},
      {"[]", 400, ""},
      {R"({"model":"demo"})", 400, "messages"},
      {R"({"model":"other","messages":)" + messages + "}", 404, "other"},
      {R"({"model":"demo","temperature":3,"messages":)" + messages + "}", 400, "temperature"},
      {R"({"model":"demo","temperature":"warm","messages":)" + messages + "}", 400, "temperature"},
      {R"({"model":"demo","n":0,"messages":)" + messages + "}", 400, "n"},
      {R"({"model":"demo","max_tokens":0,"messages":)" + messages + "}", 400, "max_tokens"},
      {"{\"model\":\"demo\",\"messages\":[{\"role\":\"user\",\"content\":\"\xFF\"}]}", 400, "UTF-8"},
      {json{{"model", "demo"}, {"messages", user_asks(long_prompt)}}.dump(), 400, "2048"},
  };
  for (const auto& wrong : cases) {
    const auto answer = http_post(server.port(), "/v1/chat/completions", wrong.body);
    CHECK(answer.status == wrong.status);
    const auto error = json::parse(answer.body).at("error");
    CHECK_MESSAGE(error.at("message").get<std::string>().find(wrong.says) != std::string::npos, answer.body);
    CHECK(error.contains("type"));
    CHECK(error.contains("param"));
    CHECK(error.contains("code"));
  }
  CHECK(http_get(server.port(), "/nowhere").status == 404);
  CHECK(answer_of(server.port(), user_asks("Count from 3 to 7.")) == "3, 4, 5, 6, 7");
}

TEST_CASE("end to end: SIGTERM lets a running answer finish and exits 0") {
  ServerProcess server(kFlags);
  HttpAnswer answer;
  std::thread asker([&] {
    auto body = body_of(user_asks("Count from 1 to 40."), true);
    answer = http_post(server.port(), "/v1/chat/completions", body.dump());
  });
  CHECK(eventually([&] {
    return ServerMetrics(server.port()).series("troupe_num_requests_running") > 0 ||
           ServerMetrics(server.port()).series("troupe_generation_tokens_total") > 0;
  }));
  server.signal(SIGTERM);
  asker.join();
  CHECK(sse_payloads(answer.body).back() == "[DONE]");
  CHECK(server.wait() == 0);
}

TEST_CASE("end to end: the probes, the models and the version answer") {
  const ServerProcess server(kFlags);
  for (const char* target : {"/health", "/ready", "/metrics", "/version", "/v1/models", "/v1/models/demo"})
    CHECK(http_get(server.port(), target).status == 200);
  CHECK(json::parse(http_get(server.port(), "/v1/models").body).at("data").at(0).at("id") == "demo");
}

TEST_CASE("end to end: a port in use is named") {
  const ServerProcess server(kFlags);
  const auto port = std::to_string(server.port());
  const auto second = run_command({TROUPE_BINARY, "serve", "--model", kDemoModel, "--port", port});
  CHECK(second.exit_status != 0);
  CHECK(second.output.find(port) != std::string::npos);
  CHECK(second.output.find("in use") != std::string::npos);
}

TEST_CASE("end to end: missing and truncated model files are named with the reason") {
  const TemporaryDirectory place;
  const auto broken = place.path() / "model";
  const auto refusal = [&] {
    return run_command({TROUPE_BINARY, "serve", "--port", "0", "--model", broken.string()});
  };
  const auto missing = refusal();
  CHECK(missing.exit_status != 0);
  CHECK(missing.output.find(broken.string()) != std::string::npos);

  std::filesystem::copy(kDemoModel, broken);
  const auto weights = broken / "model.safetensors";
  std::filesystem::resize_file(weights, std::filesystem::file_size(weights) / 2);
  const auto truncated = refusal();
  CHECK(truncated.exit_status != 0);
  CHECK(truncated.output.find("model.safetensors") != std::string::npos);
  std::filesystem::remove(broken / "tokenizer.json");
  std::filesystem::remove(weights);
  std::filesystem::copy(kDemoModel + "/model.safetensors", weights);
  CHECK(refusal().output.find("tokenizer.json") != std::string::npos);
}

TEST_CASE("end to end: generate answers on the terminal, inspect says what the directory holds") {
  const auto generated = run_command({TROUPE_BINARY, "generate", "--model", kDemoModel, "--log-level",
                                      "warning", "--prompt", "Count from 3 to 7."});
  CHECK(generated.exit_status == 0);
  CHECK(generated.output.find("3, 4, 5, 6, 7") != std::string::npos);
  const auto inspected = run_command({TROUPE_BINARY, "inspect", kDemoModel});
  CHECK(inspected.exit_status == 0);
  CHECK(inspected.output.find("LlamaForCausalLM") != std::string::npos);
  CHECK(inspected.output.find("supported") != std::string::npos);
}
