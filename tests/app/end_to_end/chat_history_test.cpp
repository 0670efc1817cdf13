// SPDX-License-Identifier: Apache-2.0
// Chats that come with their whole history at the real server, with a model that spells
// its answers otherwise than the tokenizer would: two bytes a token, not one.
#include <doctest/doctest.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/app/end_to_end/scripted_model.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/http/chat.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/observability/server_metrics.hpp"
#include "tests/support/process/server_process.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

constexpr const char* kTemplate =
    "{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}<|say|>{% endif %}{{ m.content }}"
    "<|end|>{% endfor %}{% if add_generation_prompt %}assistant:<|say|>{% endif %}";
// Calls are lists behind a special token, as Mistral's.
constexpr const char* kCallTemplate =
    "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
    "{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}<|say|>{% endif %}{{ m.content }}"
    "{% if m.tool_calls %}[CALLS]["
    "{% for c in m.tool_calls %}{{ c.function | tojson }}{% if not loop.last %}, {% endif %}{% endfor %}]"
    "{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}assistant:<|say|>{% endif %}";
constexpr const char* kAnswer = "It was a dark and stormy night; the rain fell in torrents.";
const std::vector<CuedAnswer> kAnswers = {{"<|say|>", {{kAnswer}}}};

struct Turn {
  json message;
  std::size_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
};

class HistoryServer {
 public:
  explicit HistoryServer(std::vector<std::string> flags = {}, const std::string& chat_template = kTemplate,
                         const std::vector<CuedAnswer>& answers = kAnswers)
      : server_((write_scripted_model(directory_, chat_template, answers),
                 with(std::move(flags), {"--model", directory_.path().string(), "--memory", "256MiB",
                                         "--log-level", "warning"}))) {}

  Turn ask(const json& messages, const std::string& key = "", json fields = json::object()) const {
    fields["messages"] = messages;
    fields["temperature"] = 0;
    const auto headers = key.empty() ? "" : "Authorization: Bearer " + key + "\r\n";
    const auto answer = http_post(server_.port(), "/v1/chat/completions", fields.dump(), headers);
    REQUIRE_MESSAGE(answer.status == 200, answer.body);
    const auto body = json::parse(answer.body);
    const auto& usage = body["usage"];
    return {.message = body["choices"][0]["message"],
            .prompt_tokens = usage["prompt_tokens"],
            .completion_tokens = usage["completion_tokens"],
            .cached_tokens = usage["prompt_tokens_details"].value("cached_tokens", std::size_t{0})};
  }

  // The whole answer to /v1/responses.
  json respond(json body) const {
    body["temperature"] = 0;
    const auto answer = http_post(server_.port(), "/v1/responses", body.dump());
    REQUIRE_MESSAGE(answer.status == 200, answer.body);
    return json::parse(answer.body);
  }

  double metric(const std::string& name) const {
    const auto text = http_get(server_.port(), "/metrics").body;
    const auto line = text.find("\n" + name + "{");
    REQUIRE(line != std::string::npos);
    return std::stod(text.substr(text.find("} ", line) + 2));
  }
  std::uint16_t port() const { return server_.port(); }

  // kill -9, when all full pages of these tokens are on the disk, of which some were there before.
  void kill(std::size_t num_tokens, std::size_t num_before) {
    const auto num_pages = static_cast<double>(num_tokens / 32 - num_before / 32);
    REQUIRE(
        eventually([&] { return ServerMetrics(port()).sum("troupe_kv_pages_written_total") >= num_pages; }));
    server_.signal(SIGKILL);
    server_.wait();
  }

 private:
  static std::vector<std::string> with(std::vector<std::string> flags, const std::vector<std::string>& more) {
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }

  troupe::TemporaryDirectory directory_;
  ServerProcess server_;
};

const std::vector<CuedAnswer> kCalls = {
    {"<|say|>",
     {{"I look."},
      {"[CALLS]", true},
      {"[{\"name\": \"clock\", \"arguments\": {\"zone\": \"Europe/Rome\", \"n\": 1}}]"}}}};

// Pages on the disk are read, however little their tokens cost; each server of the test has the same model.
std::vector<std::string> kept_in(const troupe::TemporaryDirectory& store) {
  return {"--store-directory", store.path().string(), "--cache-measure=false", "--model-name", "scripted"};
}

std::size_t cached_tokens(const json& response) {
  return response["usage"]["input_tokens_details"]["cached_tokens"];
}

// The tokens of a response's prompt and answer, without the one that ends it.
std::size_t tokens_run(const json& response) {
  const auto& usage = response["usage"];
  return usage["input_tokens"].get<std::size_t>() + usage["output_tokens"].get<std::size_t>() - 1;
}

// One token a byte, and one for each special token of the template.
std::size_t tokens_when_encoded(const json& messages) {
  std::size_t count = std::string("assistant:").size() + 1;
  for (const auto& message : messages) {
    count += message["role"].get<std::string>().size() + 1 + message["content"].get<std::string>().size() + 1;
    if (message["role"] == "assistant") ++count;
  }
  return count;
}

std::size_t count_answers(const std::string& text) {
  std::size_t count = 0;
  for (auto at = text.find(kAnswer); at != std::string::npos; at = text.find(kAnswer, at + 1)) ++count;
  return count;
}

json with(json messages, const json& answer, const std::string& question) {
  messages.push_back(answer);
  messages.push_back(user_message(question));
  return messages;
}

}  // namespace

TEST_CASE("chat history: the second turn finds the KV of the whole first one, however it was spelled") {
  const HistoryServer server;
  const auto first = user_asks("Tell me a story, please.");
  const auto told = server.ask(first);
  REQUIRE(told.message["content"] == kAnswer);
  REQUIRE(told.prompt_tokens == tokens_when_encoded(first));
  const auto drawn = told.completion_tokens - 1;  // without the one that ends it
  REQUIRE(drawn < std::string(kAnswer).size());

  const auto second = with(first, told.message, "And then?");
  const auto next = server.ask(second);
  CHECK(next.prompt_tokens == tokens_when_encoded(second) - std::string(kAnswer).size() + drawn);
  CHECK(next.cached_tokens == told.prompt_tokens + drawn);

  const auto third = with(second, next.message, "More!");
  const auto last = server.ask(third);
  CHECK(last.cached_tokens == next.prompt_tokens + drawn);
  CHECK(server.metric("troupe_turn_memory_hits_total") == 2);
  CHECK(server.metric("troupe_turn_memory_misses_total") == 0);
  CHECK(server.metric("troupe_turn_memory_tokens_total") == next.cached_tokens + last.cached_tokens);
}

TEST_CASE("chat history: an answer is found as text parts, without its last white space, and streamed") {
  const HistoryServer server({}, kTemplate, {{"<|say|>", {{"Over and out.\n"}}}});
  const auto first = user_asks("Say so.");
  const auto told = server.ask(first);
  REQUIRE(told.message["content"] == "Over and out.\n");
  const auto drawn = told.completion_tokens - 1;
  const json part = {{"type", "text"}, {"text", "Over and out.\n"}};
  const json in_parts = {{"role", "assistant"}, {"content", json::array({part})}};
  CHECK(server.ask(with(first, in_parts, "And?")).cached_tokens == told.prompt_tokens + drawn);
  const auto trimmed = server.ask(with(first, assistant_message("Over and out."), "And?"));
  CHECK(trimmed.cached_tokens >= told.prompt_tokens + drawn - 2);
  CHECK(trimmed.cached_tokens < told.prompt_tokens + drawn);

  const json body = {{"messages", user_asks("Stream it.")}, {"temperature", 0}, {"stream", true}};
  REQUIRE(http_post(server.port(), "/v1/chat/completions", body.dump()).status == 200);
  const auto streamed = with(user_asks("Stream it."), told.message, "And?");
  CHECK(server.ask(streamed).cached_tokens > tokens_when_encoded(user_asks("Stream it.")) + drawn / 2);
}

TEST_CASE("chat history: an edited message is encoded anew, with all behind it") {
  const HistoryServer server;
  const auto first = user_asks("Tell me a story, please.");
  const auto told = server.ask(first);
  const auto second = with(first, told.message, "And then?");
  const auto next = server.ask(second);
  auto edited = with(second, next.message, "More!");
  edited[0]["content"] = "Tell me a story at once.";
  const auto anew = server.ask(edited);
  CHECK(anew.prompt_tokens == tokens_when_encoded(edited));
  CHECK(anew.cached_tokens < told.prompt_tokens);

  auto later = with(second, next.message, "More!");
  later[2]["content"] = "And before?";
  const auto half = server.ask(later);
  const auto drawn = told.completion_tokens - 1;
  CHECK(half.prompt_tokens == tokens_when_encoded(later) - std::string(kAnswer).size() + drawn);
  CHECK(half.cached_tokens >= told.prompt_tokens + drawn);
  CHECK(half.cached_tokens < next.prompt_tokens);
}

TEST_CASE("chat history: another tenant does not get it, nor does another cache_salt") {
  const troupe::TemporaryDirectory keys;
  keys.write("keys", "ada key-of-ada\nbob key-of-bob\n");
  const HistoryServer server({"--api-keys-file", (keys.path() / "keys").string()});
  const auto first = user_asks("Tell me a story, please.");
  const auto told = server.ask(first, "key-of-ada");
  const auto second = with(first, told.message, "And then?");
  const auto others = server.ask(second, "key-of-bob");
  CHECK(others.prompt_tokens == tokens_when_encoded(second));
  CHECK(others.cached_tokens == 0);
  const auto salted = server.ask(second, "key-of-ada", {{"cache_salt", "mine"}});
  CHECK(salted.prompt_tokens == tokens_when_encoded(second));
  CHECK(server.ask(second, "key-of-ada").cached_tokens == told.prompt_tokens + told.completion_tokens - 1);
}

TEST_CASE("chat history: without memory for it every request is encoded anew") {
  const HistoryServer server({"--cache-turn-memory", "0"});
  const auto first = user_asks("Tell me a story, please.");
  const auto told = server.ask(first);
  const auto second = with(first, told.message, "And then?");
  const auto next = server.ask(second);
  CHECK(next.prompt_tokens == tokens_when_encoded(second));
  CHECK(next.cached_tokens < told.prompt_tokens + told.completion_tokens - 1);
}

TEST_CASE("chat history: the memory keeps to its limit, the oldest chat goes") {
  const HistoryServer server({"--cache-turn-memory", "16KiB"});
  const auto first = user_asks("Tell me a story, please.");
  const auto told = server.ask(first);
  const auto second = with(first, told.message, "And then?");
  REQUIRE(server.ask(second).prompt_tokens < tokens_when_encoded(second));
  for (int i = 0; i < 12; ++i) server.ask(user_asks("Another story, number " + std::to_string(i) + "."));
  CHECK(server.ask(second).prompt_tokens == tokens_when_encoded(second));
  CHECK(server.metric("troupe_turn_memory_bytes") > 0);
  CHECK(server.metric("troupe_turn_memory_bytes") <= 16 * 1024);
}

TEST_CASE("chat history: a call is found by the name and arguments that its client sends back") {
  const HistoryServer server({}, kCallTemplate, kCalls);
  const json clock = {{"name", "clock"},
                      {"parameters", {{"type", "object"}, {"additionalProperties", true}}}};
  const json tools = {{"tools", json::array({{{"type", "function"}, {"function", clock}}})}};
  json chat = user_asks("The time?");
  const auto called = server.ask(chat, "", tools);
  REQUIRE(called.message["tool_calls"].size() == 1);
  const std::string id = called.message["tool_calls"][0]["id"];
  chat.push_back(called.message);
  chat.push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", "12:00"}});
  const auto drawn = called.completion_tokens - 1;
  CHECK(server.ask(chat, "", tools).cached_tokens == called.prompt_tokens + drawn);
  chat[1]["tool_calls"][0]["function"]["arguments"] = "{\"zone\":\"Europe/Rome\",\"n\":1}";
  CHECK(server.ask(chat, "", tools).cached_tokens >= called.prompt_tokens + drawn);
  chat[1]["tool_calls"][0]["function"]["arguments"] = "{\"zone\":\"Europe/Oslo\",\"n\":1}";
  CHECK(server.ask(chat, "", tools).cached_tokens < called.prompt_tokens + drawn);
}

TEST_CASE("chat history: responses that send their whole input find the KV of every answer") {
  const HistoryServer server;
  json input = user_asks("Tell me a story, please.");
  json body = {{"store", false}, {"instructions", "Be brief."}};
  std::size_t run = 0;
  for (int turn = 0; turn < 3; ++turn) {
    body["input"] = input;
    const auto response = server.respond(body);
    REQUIRE(response["output"][0]["content"][0]["text"] == kAnswer);
    CHECK(cached_tokens(response) == run);
    run = tokens_run(response);
    input.push_back(response["output"][0]);
    input.push_back(user_message("And then?"));
  }
  CHECK(server.metric("troupe_turn_memory_hits_total") == 2);
}

json clock_tool() {
  return {{"type", "function"},
          {"name", "clock"},
          {"parameters", {{"type", "object"}, {"additionalProperties", true}}}};
}

TEST_CASE("chat history: stored responses keep their tokens behind calls, and behind what follows them") {
  const troupe::TemporaryDirectory store;
  const HistoryServer server({"--store-directory", store.path().string()}, kCallTemplate, kCalls);
  json body = {{"input", "The time?"}, {"tools", json::array({clock_tool()})}};
  std::size_t run = 0;
  for (int turn = 0; turn < 3; ++turn) {
    const auto response = server.respond(body);
    CHECK(cached_tokens(response) == run);
    run = tokens_run(response);
    const auto& call = response["output"].back();
    REQUIRE(call["type"] == "function_call");
    body["previous_response_id"] = response["id"];
    body["input"] =
        json::array({{{"type", "function_call_output"}, {"call_id", call["call_id"]}, {"output", "12:00"}}});
  }
}

TEST_CASE("chat history: a stored answer of text is remembered for the calls behind it") {
  const troupe::TemporaryDirectory store;
  const HistoryServer server({"--store-directory", store.path().string()});
  json body = {{"input", "Tell me a story, please."}};
  std::vector<json> responses;
  for (int turn = 0; turn < 3; ++turn) {
    responses.push_back(server.respond(body));
    body = {{"input", "And then?"}, {"previous_response_id", responses.back()["id"]}};
  }
  CHECK(cached_tokens(responses[2]) == tokens_run(responses[1]));
  // The same conversation without the store: only what is remembered can be found.
  json input = user_asks("Tell me a story, please.");
  for (const json& response : responses) {
    input.push_back(response["output"][0]);
    input.push_back(user_message("And then?"));
  }
  CHECK(cached_tokens(server.respond({{"input", input}, {"store", false}})) == tokens_run(responses[2]));
}

TEST_CASE("chat history: behind a kill -9 a chat finds all of its answers but for the last page") {
  const troupe::TemporaryDirectory store;
  json chat = user_asks("Tell me a story, please.");
  std::size_t run = 0;
  for (std::size_t turn = 0; turn < 4; ++turn) {
    HistoryServer server(kept_in(store));
    const auto told = server.ask(chat);
    CHECK(told.prompt_tokens < tokens_when_encoded(chat) + (turn == 0 ? 1 : 0));
    CHECK(told.cached_tokens <= run);
    CHECK(told.cached_tokens + 32 > run);
    run = told.prompt_tokens + told.completion_tokens - 1;
    chat = with(chat, told.message, "And then?");
    // The client does not wait for it.
    REQUIRE(eventually([&] { return count_answers(file_text(store.path() / "turns.log")) > turn; }));
    server.kill(run, told.cached_tokens);
  }
}

TEST_CASE("chat history: behind a kill -9 a stored response behind calls finds all but the last page") {
  const troupe::TemporaryDirectory store;
  json body = {{"input", "The time?"}, {"tools", json::array({clock_tool()})}};
  std::size_t run = 0;
  for (int turn = 0; turn < 4; ++turn) {
    HistoryServer server(kept_in(store), kCallTemplate, kCalls);
    const auto response = server.respond(body);
    CHECK(cached_tokens(response) <= run);
    CHECK(cached_tokens(response) + 32 > run);
    run = tokens_run(response);
    const auto& call = response["output"].back();
    REQUIRE(call["type"] == "function_call");
    body["previous_response_id"] = response["id"];
    body["input"] =
        json::array({{{"type", "function_call_output"}, {"call_id", call["call_id"]}, {"output", "12:00"}}});
    server.kill(run, cached_tokens(response));
  }
}

TEST_CASE("chat history: a disk tier that fails at one start costs no turns") {
  const troupe::TemporaryDirectory store;
  const auto chat = user_asks("Tell me a story, please.");
  const auto num_kept = [&] { return count_answers(file_text(store.path() / "turns.log")); };
  json next;
  {
    const HistoryServer server(kept_in(store));
    next = with(chat, server.ask(chat).message, "And then?");
    REQUIRE(eventually([&] { return num_kept() == 1; }));
  }
  const auto index = store.path() / "kv-pages.index";
  std::filesystem::remove(index);
  std::filesystem::create_directory(index);  // stands in its way
  for (int start = 0; start < 2; ++start) {
    const HistoryServer server(kept_in(store));
    CHECK(num_kept() == 1);
  }
  const HistoryServer server(kept_in(store));
  server.ask(next);
  CHECK(server.metric("troupe_turn_memory_hits_total") == 1);
}

TEST_CASE("chat history: a response that is deleted leaves none of its words in the file of turns") {
  const troupe::TemporaryDirectory store;
  const HistoryServer server({"--store-directory", store.path().string()});
  const auto words = [&] { return file_text(store.path() / "turns.log"); };
  const auto response = server.respond({{"input", "Tell me a secret."}});
  server.ask(user_asks("Tell me a story."));
  REQUIRE(eventually([&] { return words().find("Tell me a story.") != std::string::npos; }));
  REQUIRE(words().find("Tell me a secret.") != std::string::npos);
  const std::string path = "/v1/responses/" + response["id"].get<std::string>();
  REQUIRE(http_send(server.port(), "DELETE", path).status == 200);
  CHECK(words().find("Tell me a secret.") == std::string::npos);
  CHECK(words().find("Tell me a story.") != std::string::npos);
}
