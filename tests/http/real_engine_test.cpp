// SPDX-License-Identifier: Apache-2.0
// The HTTP side before the engine as it is shipped, over a device that costs
// nothing: after every kind of request and hang-up nothing may be left running.
#include "http/server/server.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "actors/engine.hpp"
#include "gpu/noop/noop_device.hpp"
#include "telemetry/metrics/metrics.hpp"
#include "test_client.hpp"
#include "tests/actors/byte_model.hpp"
#include "tests/support/eventually.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

struct Stack {
  explicit Stack(std::chrono::nanoseconds iteration_time = {}, EngineOptions engine_options = {},
                 ServedModel model = byte_model(), ServerOptions server_options = options())
      : engine(
            std::move(model),
            [iteration_time](WorkerId) {
              return std::make_unique<NoopDevice>(letters_device(iteration_time));
            },
            engine_options, metrics),
        server(engine, metrics,
               {{.name = "bytes",
                 .created = 1,
                 .context_length = 512,
                 .defaults = {},
                 .reasons = true,
                 .switches_reasoning = true}},
               std::move(server_options)) {
    server.start();
    REQUIRE(eventually([&] { return engine.status().state == EngineState::kReady; }));
  }

  static ServerOptions options() {
    ServerOptions options;
    options.port = 0;
    return options;
  }

  // Nothing runs, nothing waits, every page is free or merely cached.
  bool is_quiet() {
    return eventually([&] {
      const EngineStatus status = engine.status();
      return status.num_running == 0 && status.num_waiting == 0 && status.pages_running == 0 &&
             status.pages_free + status.pages_cached == status.pages_total && status.pages_total > 0;
    });
  }

  Metrics metrics{"bytes"};
  Engine engine;
  Server server;
};

std::string completion(int num_tokens, bool stream, std::string_view more = "") {
  return post_request("/v1/completions", R"({"prompt":"hello","max_tokens":)" + std::to_string(num_tokens) +
                                             ",\"stream\":" + (stream ? "true" : "false") +
                                             std::string(more) + "}");
}

std::string text_of(const TestResponse& response) {
  std::string text;
  constexpr std::string_view kText = "\"text\":\"";
  for (const auto& data : sse_data(response.body)) {
    const std::size_t at = data.find(kText);
    if (at == std::string::npos) continue;
    const std::size_t start = at + kText.size();
    text += data.substr(start, data.find('"', start) - start);
  }
  return text;
}

std::string letters(std::size_t num) {
  std::string text;
  for (std::size_t i = 0; i < num; ++i) text += static_cast<char>('a' + (5 + i) % 26);
  return text;
}

}  // namespace

TEST_CASE("http and engine: streamed and whole, the text is the device's") {
  Stack stack;
  TestClient client(stack.server.port());
  client.send(completion(30, true));
  const TestResponse streamed = client.read_response();
  CHECK(text_of(streamed) == letters(30));
  CHECK(streamed.body.find("\"finish_reason\":\"length\"") != std::string::npos);
  client.send(completion(30, false));
  const TestResponse whole = client.read_response();
  CHECK(whole.body.find("\"text\":\"" + letters(30) + "\"") != std::string::npos);
  CHECK(whole.body.find("\"prompt_tokens\":5,\"completion_tokens\":30,\"total_tokens\":35") !=
        std::string::npos);
  client.send(completion(30, false, R"(,"stop":"klm","echo":true)"));
  CHECK(client.read_response().body.find(
            R"("text":"hellofghij","logprobs":null,"finish_reason":"stop","stop_reason":"klm")") !=
        std::string::npos);
  CHECK(stack.is_quiet());
}

TEST_CASE("http and engine: log-probabilities come whole and streamed, without those of a stop string") {
  Stack stack;
  TestClient client(stack.server.port());
  client.send(completion(30, false, R"(,"stop":"klm","logprobs":1)"));
  CHECK(client.read_response().body.find(
            R"("text":"fghij","logprobs":{"text_offset":[0,1,2,3,4],"token_logprobs":[0,0,0,0,0],)"
            R"("tokens":["f","g","h","i","j"],"top_logprobs":[{"f":0},{"g":0},{"h":0},{"i":0},{"j":0}]})") !=
        std::string::npos);
  client.send(completion(0, false, R"(,"echo":true,"logprobs":1)"));
  CHECK(client.read_response().body.find(
            R"("text":"hello","logprobs":{"text_offset":[0,1,2,3,4],"token_logprobs":[null,0,0,0,0],)"
            R"("tokens":["h","e","l","l","o"],"top_logprobs":[null,{"e":0},{"l":0},{"l":0},{"o":0}]},)"
            R"("finish_reason":"length")") != std::string::npos);
  client.send(completion(30, true, R"(,"stop":"klx","logprobs":0)"));
  std::string tokens;
  const auto data = sse_data(client.read_response().body);
  for (const std::string& chunk : data) {
    constexpr std::string_view kTokens = "\"tokens\":[";
    const std::size_t at = chunk.find(kTokens);
    if (at == std::string::npos) continue;
    for (std::size_t i = at + kTokens.size(); chunk[i] != ']'; ++i)
      if (chunk[i] >= 'a' && chunk[i] <= 'z') tokens += chunk[i];
  }
  CHECK(tokens == letters(30));
  CHECK(stack.is_quiet());
}

TEST_CASE(
    "http and engine: the prompt's log-probabilities stand beside the text, of each prompt once computed") {
  Stack stack;
  TestClient client(stack.server.port());
  client.send(post_request("/v1/completions",
                           R"({"prompt":["hi","ho"],"max_tokens":2,"n":2,"best_of":3,"prompt_logprobs":1})"));
  const std::string body = client.read_response().body;
  const auto of_prompt = [](const std::string& letter, int id) {
    return R"("prompt_logprobs":[null,{")" + std::to_string(id) +
           R"(":{"logprob":0,"rank":1,"decoded_token":")" + letter + "\"}}]";
  };
  const auto count = [&](const std::string& text) {
    int number = 0;
    for (auto at = body.find(text); at != std::string::npos; at = body.find(text, at + 1)) ++number;
    return number;
  };
  CHECK(count(of_prompt("i", 'i')) == 2);
  CHECK(count(of_prompt("o", 'o')) == 2);
  CHECK(body.find(R"("prompt_tokens":4,"completion_tokens":12)") != std::string::npos);
  client.send(completion(1, false, R"(,"suffix":"x")"));
  CHECK(client.read_response().body.find("can't fill in text") != std::string::npos);
  CHECK(stack.is_quiet());
}

TEST_CASE("http and engine: a prompt's log-probabilities come in chunks, and are bounded over all choices") {
  Stack stack;
  TestClient client(stack.server.port());
  const auto ask = [&](std::uint32_t number, std::uint32_t num_alternatives) {
    client.send(post_request("/v1/completions", R"({"prompt":")" + std::string(400, 'x') +
                                                    R"(","max_tokens":1,"n":)" + std::to_string(number) +
                                                    R"(,"prompt_logprobs":)" +
                                                    std::to_string(num_alternatives) + "}"));
    return client.read_response();
  };
  const TestResponse few = ask(2, 20);
  CHECK(few.status == 200);
  CHECK(few.field("Transfer-Encoding") == "chunked");
  CHECK(few.body.ends_with("}"));
  const TestResponse many = ask(128, 20);
  CHECK(many.status == 400);
  CHECK(many.body.find("has 400 tokens, each with 21, and its answer 1075200 or more.") != std::string::npos);
  CHECK(stack.is_quiet());
}

TEST_CASE(
    "http and engine: a list of more prompts than a client's answers may be bound at once is answered") {
  Stack stack;
  TestClient client(stack.server.port());
  std::string prompts = "\"0\"";
  for (int i = 1; i < 100; ++i) prompts += ",\"" + std::to_string(i) + "\"";
  for (const std::string form :
       {R"("regex":"[a-z]*")", R"("regex":"[a-z]*","stream":true,"stream_options":{"include_usage":true})"}) {
    client.send(
        post_request("/v1/completions", "{\"prompt\":[" + prompts + "],\"max_tokens\":3," + form + "}"));
    const TestResponse response = client.read_response();
    CHECK(response.status == 200);
    CHECK(response.body.find("\"completion_tokens\":300") != std::string::npos);
  }
  CHECK(stack.is_quiet());
}

TEST_CASE("http and engine: a model told not to reason does not, and usage counts the tokens it reasoned") {
  ServedModel model = byte_model();
  model.chat_template = std::make_shared<const ChatTemplate>(ChatTemplate::parse(
      "{{ messages[0].content }}{% if enable_thinking is not false %}<think>{% endif %}{# </think> #}"));
  Stack stack({}, {}, std::move(model));
  TestClient client(stack.server.port());
  const auto answer = [&](const std::string& more) {
    client.send(post_request("/v1/chat/completions",
                             R"({"max_tokens":5,"messages":[{"role":"user","content":"hi"}])" + more + "}"));
    return client.read_response().body;
  };
  const std::string thought = answer(R"(,"prompt_logprobs":0)");
  CHECK(thought.find(R"("completion_tokens_details":{"reasoning_tokens":5})") != std::string::npos);
  CHECK(thought.find("\"content\":\"\"") != std::string::npos);
  CHECK(thought.find(R"(,"prompt_logprobs":[null,{"105":{"logprob":0,"rank":null,"decoded_token":"i"}},)") !=
        std::string::npos);
  const std::string said = answer(R"(,"reasoning_effort":"none")");
  CHECK(said.find(R"("completion_tokens_details":{"reasoning_tokens":0})") != std::string::npos);
  CHECK(said.find("\"reasoning_content\"") == std::string::npos);
  CHECK(said.find("\"content\":\"\"") == std::string::npos);
  CHECK(stack.is_quiet());
}

TEST_CASE("http and engine: what the engine refuses is told with its numbers") {
  Stack stack;
  TestClient client(stack.server.port());
  client.send(
      post_request("/v1/completions", R"({"prompt":")" + std::string(600, 'x') + "\",\"stream\":true}"));
  const TestResponse too_long = client.read_response();
  CHECK(too_long.status == 400);
  CHECK(too_long.body.find("context_length_exceeded") != std::string::npos);
  CHECK(too_long.body.find("more than 511 tokens") != std::string::npos);
  CHECK(too_long.body.find("512") != std::string::npos);
  client.send(post_request("/v1/completions", R"({"prompt":[1,99999]})"));
  CHECK(client.read_response().status == 400);
  client.send(post_request("/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}]})"));
  CHECK(client.read_response().status == 400);  // this model has no template
  CHECK(stack.is_quiet());
}

TEST_CASE("http and engine: 64 streams at once, each whole and right") {
  Stack stack(std::chrono::microseconds(200));
  std::vector<TestClient> clients;
  for (int i = 0; i < 64; ++i) {
    clients.emplace_back(stack.server.port());
    clients.back().send(completion(100, true));
  }
  for (auto& client : clients) CHECK(text_of(client.read_response()) == letters(100));
  CHECK(stack.is_quiet());
}

TEST_CASE("http and engine: an overloaded engine answers 429 with a time to come back") {
  EngineOptions options;
  options.serving.max_waiting = 4;
  Stack stack(std::chrono::milliseconds(5), options);
  std::vector<TestClient> clients;
  for (int i = 0; i < 120; ++i) {
    clients.emplace_back(stack.server.port());
    clients.back().send(completion(200, true));
  }
  int num_refused = 0;
  for (auto& client : clients) {
    if (client.read_until("\r\n").find("429") == std::string::npos) continue;
    ++num_refused;
  }
  CHECK(num_refused > 0);
  CHECK(num_refused < 120);
  clients.clear();
  CHECK(stack.is_quiet());
}

TEST_CASE("http and engine: clients leaving at any moment leave nothing behind") {
  Stack stack(std::chrono::microseconds(300));
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    TestClient client(stack.server.port());
    const std::string request = completion(300, random() % 2 == 0);
    client.send(
        std::string_view(request).substr(0, random() % 3 == 0 ? random() % request.size() : request.size()));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    switch (random() % 3) {
      case 0: client.reset(); break;
      case 1: client.half_close(); break;
      default: break;
    }
  }
  CHECK(stack.is_quiet());
  TestClient client(stack.server.port());
  client.send(completion(10, true));
  CHECK(text_of(client.read_response()) == letters(10));
}

TEST_CASE("http and engine: a reader that stops is paused, and goes on where it was") {
  EngineOptions options;
  options.pause_bytes = 4096;
  Stack stack({}, options);
  TestClient client(stack.server.port(), 2048);
  client.send(completion(500, true, R"(,"ignore_eos":true)"));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK(text_of(client.read_response()) == letters(500));
  CHECK(stack.is_quiet());
}

TEST_CASE("http and engine: draining lets answers finish, then says it is done") {
  Stack stack(std::chrono::microseconds(500));
  std::vector<TestClient> clients;
  for (int i = 0; i < 20; ++i) {
    clients.emplace_back(stack.server.port());
    clients.back().send(completion(200, true));
    clients.back().read_until("\"text\"");
  }
  stack.server.drain(std::chrono::seconds(20));
  stack.engine.drain(std::chrono::milliseconds(0));
  for (auto& client : clients) CHECK(client.read_to_end().find("[DONE]") != std::string::npos);
  stack.server.stop();
}

TEST_CASE("http and engine: a tenant's prompts and answers count against its limits") {
  ServerOptions options = Stack::options();
  options.api_keys = {{"alice", "a"}};
  options.tenant_limits.by_tenant["alice"] = {.max_tokens = 40, .tokens_per_minute = 60, .burst_tokens = 10};
  Stack stack({}, {}, byte_model(), std::move(options));
  TestClient client(stack.server.port());
  const auto ask = [&](const std::string& fields) {
    client.send(post_request("/v1/completions", R"({"prompt":"hello")" + fields + "}",
                             "Authorization: Bearer a\r\n"));
    return client.read_response();
  };
  for (const std::string fields :
       {R"(,"max_tokens":36)", R"(,"max_tokens":18,"n":2)", R"(,"max_tokens":-1)"}) {
    const TestResponse too_many = ask(fields);
    CHECK(too_many.status == 400);
    CHECK(too_many.body.find("\"param\":\"max_tokens\"") != std::string::npos);
  }
  CHECK(ask(R"(,"max_tokens":17,"n":2)").status == 200);  // 39 tokens: 29 of debt, less what time has paid
  const TestResponse refused = ask(R"(,"max_tokens":1)");
  CHECK(refused.status == 429);
  CHECK(refused.body.find("60 tokens a minute") != std::string::npos);
  const int seconds = std::stoi(refused.field("Retry-After"));
  CHECK(seconds <= 30);
  CHECK(seconds >= 20);  // unless the test took ten seconds
  const std::string all = stack.metrics.expose();
  CHECK(all.find("troupe_by_tenant_tokens_total{model_name=\"bytes\",tenant=\"alice\"} 39") !=
        std::string::npos);
  CHECK(all.find("troupe_by_tenant_tokens_in_flight{model_name=\"bytes\",tenant=\"alice\"} 0") !=
        std::string::npos);
  CHECK(stack.is_quiet());
}

TEST_CASE("http and engine: a list of prompts is one request to its tenant's limits") {
  ServerOptions options = Stack::options();
  options.api_keys = {{"alice", "a"}};
  options.tenant_limits.by_tenant["alice"] = {.max_tokens = 40};
  Stack stack({}, {}, byte_model(), std::move(options));
  TestClient client(stack.server.port());
  const auto ask = [&](const std::string& prompts) {
    client.send(post_request("/v1/completions", R"({"max_tokens":2,"prompt":)" + prompts + "}",
                             "Authorization: Bearer a\r\n"));
    return client.read_response();
  };
  // 42 tokens may not be in flight, however long one waits.
  const TestResponse too_many = ask(R"(["hello","hello","hello","hello","hello","hello"])");
  CHECK(too_many.status == 400);
  CHECK(too_many.body.find("Fewer prompts") != std::string::npos);
  CHECK(stack.metrics.expose().find("troupe_by_tenant_refused_total{limit=\"tokens\",model_name=\"bytes\","
                                    "tenant=\"alice\"} 1") != std::string::npos);
}

TEST_CASE("http and engine: who is let in with the first prompt of a list has all of them answered") {
  ServerOptions options = Stack::options();
  options.api_keys = {{"alice", "a"}, {"bob", "b"}};
  options.tenant_limits.by_tenant["alice"] = {.tokens_per_minute = 60, .burst_tokens = 5};
  Stack stack({}, {}, byte_model(), std::move(options));
  TestClient client(stack.server.port());
  client.send(post_request("/v1/completions", R"({"max_tokens":2,"prompt":["hello","hello","hello"]})",
                           "Authorization: Bearer a\r\n"));
  CHECK(client.read_response().status == 200);
  // The next one waits for the debt of 16 tokens, less what time has paid.
  client.send(
      post_request("/v1/completions", R"({"max_tokens":1,"prompt":"x"})", "Authorization: Bearer a\r\n"));
  CHECK(client.read_response().status == 429);
  client.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer b\r\n\r\n");
  const std::string seen_by_bob = client.read_response().body;
  CHECK(seen_by_bob.find("tenant=\"bob\"") != std::string::npos);
  CHECK(seen_by_bob.find("alice") == std::string::npos);
  CHECK(seen_by_bob.find("troupe_generation_tokens_total{") != std::string::npos);
  CHECK(stack.is_quiet());
}

TEST_CASE("http and engine: a long list of bound prompts is let in as a whole, or draws nothing") {
  const auto ask = [](std::uint64_t max_tokens,
                      const std::function<void(Stack&, const TestResponse&)>& look) {
    ServerOptions options = Stack::options();
    options.api_keys = {{"alice", "a"}};
    options.tenant_limits.by_tenant["alice"] = {
        .max_tokens = max_tokens, .tokens_per_minute = 60, .burst_tokens = 5};
    Stack stack({}, {}, byte_model(), std::move(options));
    TestClient client(stack.server.port());
    std::string prompts = "\"hello\"";
    for (int i = 1; i < 40; ++i) prompts += ",\"hello\"";
    client.send(post_request("/v1/completions",
                             R"({"max_tokens":2,"regex":"[a-z]*","stream":true,"prompt":[)" + prompts + "]}",
                             "Authorization: Bearer a\r\n"));
    look(stack, client.read_response());
    CHECK(stack.is_quiet());
    CHECK(eventually([&] {
      return stack.metrics.expose().find(
                 "troupe_by_tenant_tokens_in_flight{model_name=\"bytes\",tenant=\"alice\"} 0") !=
             std::string::npos;
    }));
  };
  ask(279, [](Stack& stack, const TestResponse& refused) {  // room for 39 prompts with their answers
    CHECK(refused.status == 400);
    CHECK(refused.body.find("Fewer prompts") != std::string::npos);
    CHECK(stack.metrics.expose().find("troupe_generation_tokens_total{model_name=\"bytes\"} 0") !=
          std::string::npos);
  });
  ask(280, [](Stack& stack, const TestResponse& answer) {
    CHECK(answer.status == 200);
    CHECK(answer.body.find("\"error\"") == std::string::npos);
    CHECK(stack.metrics.expose().find(
              "troupe_by_tenant_tokens_total{model_name=\"bytes\",tenant=\"alice\"} 280") !=
          std::string::npos);
  });
}

TEST_CASE("http and engine: of several answers to one prompt the prompt is computed once") {
  Stack stack(std::chrono::microseconds(200));
  TestClient client(stack.server.port());
  const std::string body = R"({"prompt":")" + std::string(100, 'x') + R"(","max_tokens":8,"n":4})";
  client.send(post_request("/v1/completions", body));
  const std::string answer = client.read_response().body;
  CHECK(answer.find(R"("index":3,"text":")") != std::string::npos);
  CHECK(answer.find(R"("prompt_tokens":100,"completion_tokens":32,)") != std::string::npos);
  const std::string all = stack.metrics.expose();
  constexpr std::string_view kComputed = "troupe_computed_prompt_tokens_total{model_name=\"bytes\"} ";
  const std::size_t at = all.find(kComputed);
  REQUIRE(at != std::string::npos);
  // The others compute what is behind the last full page of 16 tokens; or, where one comes when the
  // first has ended and left the page it filled in part, the last token alone.
  const int computed = std::stoi(all.substr(at + kComputed.size()));
  CHECK(computed >= 100 + 3);
  CHECK(computed <= 100 + 3 * (100 % 16));
  CHECK(stack.is_quiet());
}

TEST_CASE("http and engine: a client that leaves takes all answers to its prompts with it") {
  Stack stack(std::chrono::microseconds(300));
  std::mt19937 random(12);
  for (int round = 0; round < 60; ++round) {
    TestClient client(stack.server.port());
    client.send(post_request("/v1/completions",
                             std::string(R"({"prompt":["hello","world"],"n":3,"max_tokens":300,"stream":)") +
                                 (random() % 2 == 0 ? "true}" : "false}")));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
    client.reset();
  }
  CHECK(stack.is_quiet());
}

TEST_CASE("http and engine: texts become tokens and tokens texts, longer than the context too") {
  Stack stack;
  TestClient client(stack.server.port());
  client.send(post_request("/tokenize", R"({"prompt":"hi","return_token_strs":true})"));
  CHECK(client.read_response().body ==
        R"({"count":2,"max_model_len":512,"tokens":[104,105],"token_strs":["h","i"]})");
  for (const std::size_t length : {std::size_t{600}, std::size_t{20000}}) {  // the latter on its own thread
    client.send(post_request("/tokenize", R"({"prompt":")" + std::string(length, 'x') + "\"}"));
    CHECK(client.read_response().body.starts_with("{\"count\":" + std::to_string(length) + ","));
  }
  client.send(post_request("/detokenize", R"({"tokens":[104,105,256]})"));
  CHECK(client.read_response().body == R"({"prompt":"hi<eos>"})");
  client.send(post_request("/detokenize", R"({"tokens":[104,257]})"));
  const TestResponse refused = client.read_response();
  CHECK(refused.status == 400);
  CHECK(refused.body.find("got 257 at position 1") != std::string::npos);
  client.send(post_request("/tokenize", R"({"messages":[{"role":"user","content":"x"}]})"));
  CHECK(client.read_response().status == 400);  // this model has no template
  CHECK(stack.is_quiet());
}
