// SPDX-License-Identifier: Apache-2.0
// The real server with several models: the demo model, and a small BERT of random
// weights with a tokenizer of its own, asked over HTTP.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <future>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/app/end_to_end/streamed_answer.hpp"
#include "tests/support/http/chat.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/observability/server_metrics.hpp"
#include "tests/support/process/processes.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/small_embedder.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/text/tokenizer/bert_file.hpp"

using namespace troupe;
using namespace troupe::test;
using nlohmann::json;

namespace {

using Flags = std::vector<std::string>;

const std::string kDemo = TROUPE_SOURCE_DIR "/models/demo";

// A model directory named "embedder".
class Embedder {
 public:
  Embedder() { write_small_embedder(path()); }
  std::filesystem::path path() const { return directory_.path() / "embedder"; }

 private:
  TemporaryDirectory directory_;
};

Flags flags_with(const Flags& models, const Flags& more = {}) {
  Flags flags = {"--log-level", "warning", "--device", "cpu", "--memory", "256MiB"};
  for (const auto& model : models) flags.insert(flags.end(), {"--model", model});
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

json embed(std::uint16_t port, const json& input, const json& more = json::object()) {
  json body = {{"model", "embedder"}, {"input", input}};
  body.update(more);
  const auto answer = http_post(port, "/v1/embeddings", body.dump());
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  return json::parse(answer.body);
}

std::vector<float> vector_of(const json& answer, std::size_t index) {
  return answer.at("data").at(index).at("embedding").get<std::vector<float>>();
}

std::vector<std::string> some_texts(std::size_t count) {
  const std::vector<std::string> words = {"the", "unaffable", "token", "running", "cafe", "12", "naive", "?"};
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < count; ++i) {
    std::string text = words[i % words.size()];
    for (std::size_t n = 0; n < i % 11; ++n) text += " " + words[(i * 5 + n * 3) % words.size()];
    texts.push_back(text);
  }
  return texts;
}

std::string message_of(const HttpAnswer& answer) {
  return json::parse(answer.body).at("error").at("message");
}

}  // namespace

TEST_CASE("several models: each is listed with what it can do, and asked for nothing else") {
  const Embedder embedder;
  const ServerProcess server(flags_with({kDemo, embedder.path().string()}));
  const auto port = server.port();
  const json models = json::parse(http_get(port, "/v1/models").body).at("data");
  REQUIRE(models.size() == 2);
  CHECK(models[0].at("id") == "demo");
  CHECK(models[0].at("capabilities") == json::array({"completion"}));
  CHECK(models[1].at("id") == "embedder");
  CHECK(models[1].at("capabilities") == json::array({"embedding", "score", "rerank"}));
  CHECK(models[1].at("embedding_size") == kEmbedderWidth);
  CHECK(models[1].at("max_model_len") == kEmbedderContext);
  const auto chat_answer = http_post(port, "/v1/chat/completions",
                                     json{{"model", "embedder"}, {"messages", user_asks("Hello")}}.dump());
  CHECK(chat_answer.status == 400);
  CHECK(message_of(chat_answer).find("demo") != std::string::npos);
  const auto embedding = http_post(port, "/v1/embeddings", json{{"model", "demo"}, {"input", "the"}}.dump());
  CHECK(embedding.status == 400);
  CHECK(message_of(embedding).find("embedder") != std::string::npos);
  CHECK(http_post(port, "/v1/embeddings", json{{"model", "nobody"}, {"input", "the"}}.dump()).status == 404);
}

TEST_CASE("several models: an input has the same bits alone, among others and beside a stream") {
  const Embedder embedder;
  const ServerProcess server(flags_with({kDemo, embedder.path().string()}));
  const auto port = server.port();
  const auto texts = some_texts(96);
  const json together = embed(port, texts);
  REQUIRE(together.at("data").size() == texts.size());
  for (std::size_t i = 0; i < texts.size(); i += 7)
    CHECK(vector_of(embed(port, texts[i]), 0) == vector_of(together, i));
  auto stream = std::async(std::launch::async, stream_of, port, "Count from 1 to 80.");
  const json beside = embed(port, texts);
  for (std::size_t i = 0; i < texts.size(); ++i) CHECK(vector_of(beside, i) == vector_of(together, i));
  CHECK(stream.get().text.find("78, 79, 80") != std::string::npos);
  double norm = 0;
  for (const float number : vector_of(together, 3)) norm += double{number} * number;
  CHECK(norm == doctest::Approx(1).epsilon(1e-5));
}

TEST_CASE("several models: token ids, base64 and fewer dimensions say the same as text and floats") {
  const Embedder embedder;
  const ServerProcess server(flags_with({kDemo, embedder.path().string()}));
  const auto port = server.port();
  const json of_text = embed(port, "the token");
  const auto floats = vector_of(of_text, 0);
  const auto words = small_bert_words();
  const auto id = [&](const char* word) {
    return std::find(words.begin(), words.end(), word) - words.begin();
  };
  const json ids = json::array({id("[CLS]"), id("the"), id("token"), id("[SEP]")});
  CHECK(vector_of(embed(port, ids), 0) == floats);
  CHECK(of_text.at("usage").at("prompt_tokens") == 4);
  const json coded = embed(port, "the token", {{"encoding_format", "base64"}});
  CHECK(coded.at("data").at(0).at("embedding").get<std::string>().size() == (kEmbedderWidth * 4 + 2) / 3 * 4);
  const auto fewer = vector_of(embed(port, "the token", {{"dimensions", 8}}), 0);
  REQUIRE(fewer.size() == 8);
  CHECK(fewer[1] / fewer[0] == doctest::Approx(floats[1] / floats[0]).epsilon(1e-4));
}

TEST_CASE("several models: what is wrong with an input is said, and changes nothing") {
  const Embedder embedder;
  const ServerProcess server(flags_with({kDemo, embedder.path().string()}));
  const auto port = server.port();
  std::string text = "the";
  for (int i = 0; i < 100; ++i) text += " the";
  const auto too_long =
      http_post(port, "/v1/embeddings", json{{"model", "embedder"}, {"input", text}}.dump());
  CHECK(too_long.status == 400);
  CHECK(message_of(too_long).find("64 tokens") != std::string::npos);
  CHECK(embed(port, text, {{"truncate_prompt_tokens", -1}}).at("usage").at("prompt_tokens") ==
        kEmbedderContext);
  const auto foreign = http_post(port, "/v1/embeddings", R"({"model": "embedder", "input": [1, 100000]})");
  CHECK(foreign.status == 400);
  CHECK(message_of(foreign).find("Token ids must be in") != std::string::npos);
  CHECK(embed(port, "the").at("data").size() == 1);
}

TEST_CASE("several models: two that generate answer side by side, each from its own pages") {
  const ServerProcess server(flags_with({kDemo, kDemo}, {"--model-name", "first", "--model-name", "second"}));
  const auto ask = [&](const std::string& model) {
    const json body = {{"model", model}, {"messages", user_asks("Count from 3 to 40.")}, {"temperature", 0}};
    return json::parse(http_post(server.port(), "/v1/chat/completions", body.dump()).body);
  };
  auto first = std::async(std::launch::async, ask, "first");
  auto second = std::async(std::launch::async, ask, "second");
  const json answer = first.get();
  CHECK(content_of(answer).find("38, 39, 40") != std::string::npos);
  CHECK(content_of(second.get()) == content_of(answer));
  CHECK(answer.at("model") == "first");
  // What was computed for one is found by it again, and by no other.
  CHECK(ask("first").at("usage").at("prompt_tokens_details").at("cached_tokens") > 0);
}

TEST_CASE("several models: a model's own limits bind its requests, and no others") {
  const TemporaryFile file("[[model]]\ndir = \"" + kDemo + "\"\nname = \"free\"\n[[model]]\ndir = \"" +
                           kDemo + "\"\nname = \"bound\"\nmax_batch_sequences = 1\nmax_waiting = 1\n");
  const ServerProcess server(
      {"--config", file.path().string(), "--log-level", "warning", "--memory", "256MiB"});
  const auto ask = [&](const std::string& model, int max_tokens) {
    const json body = {{"model", model},
                       {"messages", user_asks("Count from 1 to 80.")},
                       {"ignore_eos", true},
                       {"max_tokens", max_tokens}};
    return http_post(server.port(), "/v1/chat/completions", body.dump()).status;
  };
  // Each is answered as soon as it has its turn; the others are told that there are too many.
  std::vector<std::future<unsigned>> statuses;
  for (int i = 0; i < 12; ++i) statuses.push_back(std::async(std::launch::async, ask, "bound", 800));
  for (int i = 0; i < 4; ++i) statuses.push_back(std::async(std::launch::async, ask, "free", 20));
  std::map<unsigned, int> of_bound;
  for (int i = 0; i < 12; ++i) ++of_bound[statuses[static_cast<std::size_t>(i)].get()];
  for (std::size_t i = 12; i < statuses.size(); ++i) CHECK(statuses[i].get() == 200);
  CHECK(of_bound[200] >= 1);
  CHECK(of_bound[429] >= 1);
  CHECK(of_bound[200] + of_bound[429] == 12);
}

TEST_CASE("several models: an encoder alone, or the first, is served too") {
  const Embedder embedder;
  for (const bool is_alone : {true, false}) {
    const ServerProcess server(
        flags_with(is_alone ? Flags{embedder.path().string()} : Flags{embedder.path().string(), kDemo}));
    CHECK(embed(server.port(), "the").at("data").size() == 1);
    if (!is_alone) CHECK(content_of(chat(server.port(), user_asks("Count from 3 to 7."))) == "3, 4, 5, 6, 7");
    const auto refused = http_post(server.port(), "/v1/chat/completions",
                                   json{{"model", "embedder"}, {"messages", user_asks("Hello")}}.dump());
    CHECK(refused.status == 400);
  }
}

TEST_CASE("several models: a killed worker takes all devices along, and both models go on") {
  const Embedder embedder;
  ServerProcess server(
      flags_with({kDemo, embedder.path().string()}, {"--worker-placement", "child", "--workers", "2"}));
  const auto port = server.port();
  REQUIRE(eventually([&] { return json::parse(http_get(port, "/ready").body).value("workers_up", 0) == 2; }));
  const auto texts = some_texts(400);
  const json undisturbed = embed(port, texts);
  const Streamed counted = long_stream_of(port, "Count from 1 to 80.");
  auto streams = std::vector<std::future<Streamed>>();
  for (int i = 0; i < 2; ++i) streams.push_back(begin_long_stream(port, "Count from 1 to 80."));
  auto vectors = std::async(std::launch::async, embed, port, json(texts), json::object());
  wait_for_tokens(server, counted.num_tokens + 30);
  const auto workers = children_of(server.pid());
  REQUIRE(workers.size() == 4);  // two of each model
  REQUIRE(::kill(workers.front(), SIGKILL) == 0);
  for (auto& stream : streams) CHECK(stream.get() == counted);
  const json answer = vectors.get();
  for (std::size_t i = 0; i < texts.size(); ++i) CHECK(vector_of(answer, i) == vector_of(undisturbed, i));
  CHECK(eventually([&] { return ServerMetrics(port).sum("troupe_worker_restarts_total") == 1; }));
  CHECK(eventually([&] { return json::parse(http_get(port, "/ready").body).value("workers_up", 0) == 2; }));
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
}

TEST_CASE("several models: memory that does not hold them is refused with the numbers") {
  const Embedder embedder;
  const auto result = run_command({TROUPE_BINARY, "serve", "--port", "0", "--device", "cpu", "--memory",
                                   "9MiB", "--model", kDemo, "--model", embedder.path().string()});
  CHECK(result.exit_status != 0);
  CHECK(result.output.find("MiB") != std::string::npos);
}
