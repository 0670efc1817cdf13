// SPDX-License-Identifier: Apache-2.0
// The real server with models of five kinds on one worker: one that chats, one that embeds, a
// language model of LSTMs, one from letters to phonemes, and one of trees.
#include <doctest/doctest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/eventually.hpp"
#include "tests/support/http/chat.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/observability/server_metrics.hpp"
#include "tests/support/process/processes.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/small_embedder.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/test_data.hpp"

using namespace troupe;
using namespace troupe::test;
using nlohmann::json;

namespace {

const std::string kSource = TROUPE_SOURCE_DIR;

// A request, and what its answer comes down to.
struct Question {
  std::string model, path;
  json body;
};

json answer_to(std::uint16_t port, Question question) {
  question.body["model"] = question.model;
  const auto given = http_post(port, question.path, question.body.dump());
  REQUIRE_MESSAGE(given.status == 200, question.model, ": ", given.body);
  const json answer = json::parse(given.body);
  return answer.contains("data") ? answer.at("data") : answer.at("choices");
}

std::string converted(const char* network, const std::filesystem::path& source,
                      const std::filesystem::path& place) {
  const std::string output = (place / network).string();
  const auto result = run_command(
      {"/usr/bin/env", "python3", kSource + "/scripts/cells/convert", network, source.string(), output});
  REQUIRE_MESSAGE(result.exit_status == 0, result.output);
  return output;
}

// The directories of models of all five kinds by name; nullopt: data that is shared is absent.
std::optional<std::vector<std::string>> five_models(const std::filesystem::path& place) {
  const auto charrnn = find_test_data("weights/charrnn/shakespeare");
  const auto g2p = find_test_data("weights/g2p/g2p_gru.safetensors");
  if (!charrnn || !g2p) return std::nullopt;
  write_small_embedder(place / "embedder");
  return std::vector<std::string>{kSource + "/models/demo", (place / "embedder").string(),
                                  converted("charrnn", *charrnn, place), converted("g2p", *g2p, place),
                                  kSource + "/models/sentiment"};
}

std::vector<Question> questions() {
  std::vector<Question> all = {
      {"demo", "/v1/chat/completions", {{"messages", user_asks("Count from 1 to 60.")}}},
      {"demo", "/v1/chat/completions", {{"messages", user_asks("Count from 5 to 30.")}}},
      {"embedder", "/v1/embeddings", {{"input", {"the token", "running", "unaffable cafe", "naive 12 ?"}}}},
      {"charrnn", "/v1/completions", {{"prompt", "JULIET:"}, {"max_tokens", 400}}},
      {"charrnn", "/v1/completions", {{"prompt", "First Citizen"}, {"max_tokens", 250}}},
      {"charrnn",
       "/v1/completions",
       {{"prompt", "the"}, {"temperature", 0.8}, {"seed", 3}, {"max_tokens", 200}}},
      {"sentiment", "/v1/classify", {{"input", "(0 (0 (0 the) (0 film)) (0 (0 was) (0 (0 not) (0 bad))))"}}}};
  for (const char* word : {"scheduler", "pronounce", "zyzzyva", "recurrent", "attention"})
    all.push_back({"g2p", "/v1/completions", {{"prompt", word}, {"max_tokens", 20}}});
  json trees = json::array();
  std::ifstream file(kSource + "/models/sentiment/held_out_trees.txt");
  for (std::string line; trees.size() < 60 && std::getline(file, line);) trees.push_back(line);
  all.push_back({"sentiment", "/v1/classify", {{"input", trees}}});
  for (Question& question : all)
    if (question.path.ends_with("completions") && !question.body.contains("temperature"))
      question.body["temperature"] = 0;
  return all;
}

std::vector<std::string> flags_of(const std::vector<std::string>& models,
                                  std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--log-level", "warning", "--device", "cpu", "--memory", "384MiB"});
  for (const std::string& model : models) more.insert(more.end(), {"--model", model});
  return more;
}

}  // namespace

TEST_CASE("five kinds of models: each answers on one worker as in a server of its own") {
  const TemporaryDirectory place;
  const auto models = five_models(place.path());
  if (!models) return;
  const auto all = questions();
  std::vector<json> expected(all.size());
  for (const std::string& model : *models) {
    const ServerProcess alone(flags_of({model}));
    for (std::size_t i = 0; i < all.size(); ++i)
      if (model.ends_with("/" + all[i].model)) expected[i] = answer_to(alone.port(), all[i]);
  }
  const ServerProcess server(flags_of(*models, {"--workers", "1"}));
  CHECK(json::parse(http_get(server.port(), "/v1/models").body).at("data").size() == 5);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::future<json>> answers;
    for (const Question& question : all)
      answers.push_back(std::async(std::launch::async, answer_to, server.port(), question));
    for (std::size_t i = 0; i < all.size(); ++i) {
      CAPTURE(all[i].body.dump());
      CHECK(answers[i].get() == expected[i]);
    }
  }
}

namespace {

// Two models of cells, of which every checkout has the files.
std::vector<std::string> cell_models(const std::filesystem::path& place) {
  std::filesystem::copy(kSource + "/tests/fixtures/cells/lstm", place / "lstm");
  json vocabulary;
  for (int i = 0; i < 37; ++i) vocabulary[std::string(1, static_cast<char>('A' + i))] = i;
  std::ofstream(place / "lstm" / "tokenizer.json") << json{
      {"version", "1.0"},
      {"added_tokens", json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", nullptr},
      {"post_processor", nullptr},
      {"decoder", {{"type", "Fuse"}}},
      {"model", {{"type", "BPE"}, {"unk_token", nullptr}, {"vocab", vocabulary}, {"merges", json::array()}}}};
  return {(place / "lstm").string(), kSource + "/models/sentiment"};
}

// A tree of num_words leaves in which each inner node has another as its first child.
std::string deep_tree(std::size_t num_words, std::size_t kind) {
  const char* const words[] = {"good", "bad", "the", "film", "not", "very"};
  std::string text(3 * (num_words - 1), ' ');
  for (std::size_t i = 0; i + 1 < num_words; ++i) text.replace(3 * i, 3, "(0 ");
  text += "(0 film)";
  for (std::size_t i = 1; i < num_words; ++i) text += std::string(" (0 ") + words[(i * 7 + kind) % 6] + "))";
  return text;
}

}  // namespace

TEST_CASE("cells: a worker that is killed while they run changes no answer") {
  const TemporaryDirectory place;
  ServerProcess server(
      flags_of(cell_models(place.path()), {"--worker-placement", "child", "--workers", "2"}));
  const auto port = server.port();
  REQUIRE(eventually([&] { return json::parse(http_get(port, "/ready").body).value("workers_up", 0) == 2; }));
  constexpr int kTokens = 6000;
  std::vector<Question> all;
  for (const char* prompt : {"A", "BCD", "ZYXW", "QQQQQQQ"})
    all.push_back({"lstm",
                   "/v1/completions",
                   {{"prompt", prompt}, {"temperature", 1}, {"seed", 9}, {"max_tokens", kTokens}}});
  json trees = json::array();
  for (std::size_t i = 0; i < 24; ++i) trees.push_back(deep_tree(400 + i, i));
  all.push_back({"sentiment", "/v1/classify", {{"input", trees}}});
  std::vector<json> undisturbed;
  for (const Question& question : all) undisturbed.push_back(answer_to(port, question));

  const auto num_steps = [&] { return ServerMetrics(port).sum("troupe_generation_tokens_total"); };
  const double begin = num_steps();
  std::vector<std::future<json>> answers;
  for (const Question& question : all)
    answers.push_back(std::async(std::launch::async, answer_to, port, question));
  REQUIRE(eventually([&] { return num_steps() > begin + 200; }));
  const auto workers = children_of(server.pid());
  REQUIRE(workers.size() == 4);  // two of each model
  REQUIRE(::kill(workers.front(), SIGKILL) == 0);
  const double at_kill = num_steps();
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(answers[i].get() == undisturbed[i]);
  CHECK(at_kill < begin + 4 * kTokens);  // it was in their midst
  CHECK(eventually([&] { return ServerMetrics(port).sum("troupe_worker_restarts_total") == 1; }));
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
}
