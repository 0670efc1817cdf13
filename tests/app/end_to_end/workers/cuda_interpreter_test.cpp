// SPDX-License-Identifier: Apache-2.0
// The real server with the whole CUDA worker in a child process: its sources over
// twins of CUDA's runtime and cuBLASLt, its kernels in the interpreter. What a
// GPU would do, slowly; every thread of every kernel is there.
#include <doctest/doctest.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/eventually.hpp"
#include "tests/support/gpu/encoder_fixture.hpp"
#include "tests/support/http/chat.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/observability/server_metrics.hpp"
#include "tests/support/process/processes.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/served_cells.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/text/tokenizer/bert_file.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

std::vector<std::string> flags_with(std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--model", TROUPE_SOURCE_DIR "/models/demo", "--device", "cuda", "--cuda-library",
                           TROUPE_CUDA_SIMT, "--max-batch-sequences", "4"});
  return more;
}

void kill_worker(const ServerProcess& server) {
  const auto workers = children_of(server.pid());
  REQUIRE(workers.size() == 1);
  REQUIRE(::kill(workers.front(), SIGKILL) == 0);
  CHECK(is_gone_soon(workers.front()));
}

// The interpreter's number of GPUs, for servers started meanwhile.
class Machine {
 public:
  explicit Machine(const char* num_gpus) { ::setenv("SIMT_GPUS", num_gpus, 1); }
  ~Machine() { ::unsetenv("SIMT_GPUS"); }
};

std::vector<std::string> flags_of_all(std::vector<std::string> more = {}) {
  more = flags_with(std::move(more));
  *(std::find(more.begin(), more.end(), "--device") + 1) = "cuda:all";
  return more;
}

double iterations_of(const ServerProcess& server, int worker) {
  return ServerMetrics(server.port())
      .sum("troupe_by_worker_iterations_total", "worker=\"" + std::to_string(worker) + '"');
}

bool are_up(const ServerProcess& server, int num_workers) {
  return eventually(
      [&] {
        return json::parse(http_get(server.port(), "/ready").body).value("workers_up", 0) == num_workers;
      },
      std::chrono::seconds(60));
}

}  // namespace

TEST_CASE("cuda worker: questions are answered by meaning, together and in turns") {
  ServerProcess server(flags_with());
  CHECK(server.output().find("SIMT interpreter") != std::string::npos);
  CHECK(server.output().find("child process") != std::string::npos);
  auto first =
      std::async(std::launch::async, [&] { return chat(server.port(), user_asks("Count from 3 to 7.")); });
  const json named = chat(server.port(), user_asks("My name is Anna."));
  CHECK(content_of(first.get()) == "3, 4, 5, 6, 7");
  const json messages = {user_message("My name is Anna."), assistant_message(content_of(named)),
                         user_message("What is my name?")};
  CHECK(content_of(chat(server.port(), messages)).find("Anna") != std::string::npos);
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
}

TEST_CASE("cuda worker: killed in the midst of an answer, the next one goes on with it") {
  ServerProcess server(flags_with());
  auto answer =
      std::async(std::launch::async, [&] { return chat(server.port(), user_asks("Count from 5 to 20.")); });
  CHECK(eventually(  // else it was not killed in the midst of anything
      [&] { return ServerMetrics(server.port()).sum("troupe_generation_tokens_total") >= 12; },
      std::chrono::seconds(60)));
  kill_worker(server);
  CHECK(content_of(answer.get()) == "5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20");
  CHECK(ServerMetrics(server.port()).sum("troupe_worker_restarts_total") == 1);
  CHECK(server.output().find("was killed by signal 9 (SIGKILL)") != std::string::npos);
}

TEST_CASE("cuda worker: a conversation comes back from the host's pages when the worker has died") {
  ServerProcess server(flags_with({"--cache-copy-ahead-percent", "100"}));
  json messages = {user_message("My name is Clara."), assistant_message("Nice to meet you, Clara!"),
                   user_message("Count from 1 to 5.")};
  messages.push_back(assistant_message(content_of(chat(server.port(), messages))));
  // Of more than a page: when that is full, what could be given away is copied.
  const json other = user_asks(
      "One, two, three, four, five, six, seven, eight, nine, "
      "ten, eleven, twelve, thirteen, fourteen, fifteen.");
  chat(server.port(), other, 2);
  chat(server.port(), other, 1);  // in order: the copies are done
  REQUIRE(ServerMetrics(server.port()).sum("troupe_kv_pages_stored_total") > 0);
  kill_worker(server);
  chat(server.port(), other, 1);  // a batch for the server to find out with
  messages.push_back(user_message("What is my name?"));
  const json again = chat(server.port(), messages);
  CHECK(content_of(again).find("Clara") != std::string::npos);
  CHECK(again["timings"].value("tokens_from_host", 0) > 0);
}

TEST_CASE("cuda worker: the served model's state behind a prompt reaches what learns of lengths") {
  const ServerProcess server(flags_with({"--reservation", "predicted"}));
  CHECK(content_of(chat(server.port(), user_asks("Count from 5 to 6."))) == "5, 6");
  CHECK(eventually([&] { return ServerMetrics(server.port()).sum("troupe_length_forecast_states") == 1; }));
}

TEST_CASE("cuda worker: two GPUs answer, in processes and in one") {
  const Machine machine("2");
  for (const std::string placement : {"child", "inline"}) {
    CAPTURE(placement);
    ServerProcess server(
        flags_of_all({"--worker-placement", placement, "--cache-copy-ahead-percent", "100"}));
    REQUIRE(are_up(server, 2));
    std::vector<std::future<json>> answers;
    for (int i = 0; i < 2; ++i)
      answers.push_back(std::async(std::launch::async,
                                   [&] { return chat(server.port(), user_asks("Count from 3 to 7.")); }));
    for (auto& answer : answers) CHECK(content_of(answer.get()) == "3, 4, 5, 6, 7");
    CHECK(iterations_of(server, 0) > 0);
    CHECK(iterations_of(server, 1) > 0);
    CHECK(children_of(server.pid()).size() == (placement == "child" ? 2 : 0));
    for (const char* name : {"cuda:0, SIMT interpreter", "cuda:1, SIMT interpreter"})
      CHECK(server.output().find(name) != std::string::npos);
    CHECK(ServerMetrics(server.port()).sum("troupe_worker_restarts_total") == 0);
    server.signal(SIGTERM);
    CHECK(server.wait() == 0);
  }
}

TEST_CASE("cuda worker: one of two GPUs dies in the midst of answers, and both are given") {
  const Machine machine("2");
  const ServerProcess server(flags_of_all());
  REQUIRE(are_up(server, 2));
  std::vector<std::future<json>> answers;
  for (int i = 0; i < 2; ++i)
    answers.push_back(std::async(std::launch::async,
                                 [&] { return chat(server.port(), user_asks("Count from 5 to 20.")); }));
  CHECK(eventually([&] { return iterations_of(server, 0) >= 6 && iterations_of(server, 1) >= 6; },
                   std::chrono::seconds(60)));
  const auto workers = children_of(server.pid());
  REQUIRE(workers.size() == 2);
  REQUIRE(::kill(workers.back(), SIGKILL) == 0);
  for (auto& answer : answers)
    CHECK(content_of(answer.get()) == "5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20");
  CHECK(are_up(server, 2));
  CHECK(ServerMetrics(server.port()).sum("troupe_worker_restarts_total") == 1);
}

TEST_CASE("cuda worker: an encoder beside it gives transformers' vectors, through a process of its own") {
  const auto fixtures = read_encoder_fixtures();
  const auto fixture = std::find_if(fixtures.begin(), fixtures.end(), [](const EncoderFixture& of) {
    return of.architecture() == "BertModel" && of.pooling.empty();
  });
  REQUIRE(fixture != fixtures.end());
  const TemporaryDirectory directory;
  fixture->write(directory.path());
  std::vector<std::string> vocabulary = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  while (vocabulary.size() < 50) vocabulary.push_back("w" + std::to_string(vocabulary.size()));
  directory.write("tokenizer.json", troupe::bert_file(vocabulary).dump());
  const ServerProcess server(flags_with(
      {"--model", directory.path(), "--model-name", "vectors", "--model-name", "chat", "--memory", "1GiB"}));
  CHECK(children_of(server.pid()).size() == 2);
  const json body = {{"model", "vectors"},
                     {"input", {fixture->results.at(0).tokens, fixture->results.at(1).tokens}}};
  const auto answer = http_post(server.port(), "/v1/embeddings", body.dump());
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  for (const std::size_t i : {0U, 1U}) {
    const auto vector = json::parse(answer.body).at("data").at(i).at("embedding").get<std::vector<double>>();
    double cosine = 0;  // both have length 1
    for (std::size_t j = 0; j < vector.size(); ++j) cosine += vector[j] * fixture->results.at(i).vector.at(j);
    CHECK(cosine > 0.9999);
  }
}

TEST_CASE("cuda worker: recurrent cells give PyTorch's tokens and numbers, through a process each") {
  const TemporaryDirectory directory;
  std::vector<std::string> flags = {"--device",           "cuda", "--cuda-library",        TROUPE_CUDA_SIMT,
                                    "--memory",           "1GiB", "--max-batch-sequences", "4",
                                    "--max-batch-tokens", "32"};
  const std::string names[] = {"lstm", "lstm_attention_seq2seq", "child_sum_tree"};
  for (const std::string& name : names)
    flags.insert(flags.end(), {"--model", write_cell_model(directory.path(), name)});
  const ServerProcess server(flags);
  CHECK(children_of(server.pid()).size() == 3);
  std::vector<std::future<HttpAnswer>> answers;
  for (const std::string& name : {names[0], names[1]})
    for (const json& example : cell_reference(name))
      answers.push_back(std::async(std::launch::async, [&server, name, prompt = example.at("prompt")] {
        const json body = {{"model", name}, {"prompt", prompt}, {"temperature", 0}, {"max_tokens", 24}};
        return http_post(server.port(), "/v1/completions", body.dump());
      }));
  std::size_t next = 0;
  for (const std::string& name : {names[0], names[1]})
    for (const json& example : cell_reference(name)) {
      CAPTURE(name);
      const HttpAnswer answer = answers[next++].get();
      REQUIRE_MESSAGE(answer.status == 200, answer.body);
      CHECK(json::parse(answer.body).at("choices")[0].at("text") == letters(example.at("greedy")));
    }
  const json example = cell_reference(names[2])[2];
  const json body = {{"model", names[2]}, {"input", numbered_tree(example.at("nodes"))}, {"softmax", false}};
  const auto answer = http_post(server.port(), "/v1/classify", body.dump());
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  const json nodes = json::parse(answer.body).at("data")[0].at("nodes");
  REQUIRE(nodes.size() == example.at("logits").size());
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (std::size_t label = 0; label < nodes[i].at("probs").size(); ++label)
      CHECK(std::abs(nodes[i].at("probs")[label].get<double>() -
                     example.at("logits")[i][label].get<double>()) < 1e-5);
}
