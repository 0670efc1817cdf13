// SPDX-License-Identifier: Apache-2.0
// The real server with the whole CUDA worker in a child process: its sources over
// twins of CUDA's runtime and cuBLASLt, its kernels in the interpreter. What a
// GPU would do, slowly; every thread of every kernel is there.
#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <future>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/eventually.hpp"
#include "tests/support/http_client.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/server_metrics.hpp"
#include "tests/support/server_process.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

std::vector<std::string> flags_with(std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--model", TROUPE_SOURCE_DIR "/models/demo", "--device", "cuda",
                           "--cuda-library", TROUPE_CUDA_SIMT, "--max-batch-sequences", "4"});
  return more;
}

json user_says(const std::string& text) { return {{"role", "user"}, {"content", text}}; }
json answered(const std::string& text) { return {{"role", "assistant"}, {"content", text}}; }

json answer_of(const ServerProcess& server, const json& messages, int max_tokens = 200) {
  const json body = {{"messages", messages}, {"temperature", 0}, {"max_tokens", max_tokens}};
  const auto answer = http_post(server.port(), "/v1/chat/completions", body.dump());
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  return json::parse(answer.body);
}

std::string text_of(const json& answer) { return answer["choices"][0]["message"]["content"]; }

void kill_worker(const ServerProcess& server) {
  const auto workers = children_of(server.pid());
  REQUIRE(workers.size() == 1);
  REQUIRE(::kill(workers.front(), SIGKILL) == 0);
  CHECK(is_gone_soon(workers.front()));
}

}  // namespace

TEST_CASE("cuda worker: questions are answered by meaning, together and in turns") {
  ServerProcess server(flags_with());
  CHECK(server.output().find("SIMT interpreter") != std::string::npos);
  CHECK(server.output().find("child process") != std::string::npos);
  auto first = std::async(std::launch::async, [&] {
    return answer_of(server, json::array({user_says("Count from 3 to 7.")}));
  });
  const json named = answer_of(server, json::array({user_says("My name is Anna.")}));
  CHECK(text_of(first.get()) == "3, 4, 5, 6, 7");
  const json messages = {user_says("My name is Anna."), answered(text_of(named)),
                         user_says("What is my name?")};
  CHECK(text_of(answer_of(server, messages)).find("Anna") != std::string::npos);
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
}

TEST_CASE("cuda worker: killed in the midst of an answer, the next one goes on with it") {
  ServerProcess server(flags_with());
  auto answer = std::async(std::launch::async, [&] {
    return answer_of(server, json::array({user_says("Count from 5 to 20.")}));
  });
  CHECK(eventually(  // else it was not killed in the midst of anything
      [&] { return ServerMetrics(server.port()).sum("troupe_generation_tokens_total") >= 12; },
      std::chrono::seconds(60)));
  kill_worker(server);
  CHECK(text_of(answer.get()) == "5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20");
  CHECK(ServerMetrics(server.port()).sum("troupe_worker_restarts_total") == 1);
  CHECK(server.output().find("was killed by signal 9 (SIGKILL)") != std::string::npos);
}

TEST_CASE("cuda worker: a conversation comes back from the host's pages when the worker has died") {
  ServerProcess server(flags_with({"--cache-copy-ahead-percent", "100"}));
  json messages = {user_says("My name is Clara."), answered("Nice to meet you, Clara!"),
                   user_says("Count from 1 to 5.")};
  messages.push_back(answered(text_of(answer_of(server, messages))));
  // Of more than a page: when that is full, what could be given away is copied.
  const json other = json::array({user_says("One, two, three, four, five, six, seven, eight, nine, "
                                            "ten, eleven, twelve, thirteen, fourteen, fifteen.")});
  answer_of(server, other, 2);
  answer_of(server, other, 1);  // in order: the copies are done
  REQUIRE(ServerMetrics(server.port()).sum("troupe_kv_pages_stored_total") > 0);
  kill_worker(server);
  answer_of(server, other, 1);  // a batch for the server to find out with
  messages.push_back(user_says("What is my name?"));
  const json again = answer_of(server, messages);
  CHECK(text_of(again).find("Clara") != std::string::npos);
  CHECK(again["timings"].value("tokens_from_host", 0) > 0);
}
