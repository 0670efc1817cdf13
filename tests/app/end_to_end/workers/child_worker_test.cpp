// SPDX-License-Identifier: Apache-2.0
// The real server with its device in a child process, which is killed, again and
// again, while it answers.
#include <doctest/doctest.h>
#include <signal.h>

#include <future>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/app/end_to_end/streamed_answer.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/http/chat.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/observability/server_metrics.hpp"
#include "tests/support/process/processes.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

std::vector<std::string> flags_with(std::vector<std::string> more = {},
                                    const std::string& memory = "128MiB") {
  more.insert(more.end(), {"--model", TROUPE_SOURCE_DIR "/models/demo", "--memory", memory, "--device", "cpu",
                           "--worker-placement", "child"});
  return more;
}

// The one worker; waits while there is none, or a new one is being started.
pid_t worker_of(const ServerProcess& server, pid_t other_than = 0) {
  pid_t worker = 0;
  REQUIRE(eventually([&] {
    for (const pid_t child : children_of(server.pid()))
      if (child != other_than && !is_zombie(child)) worker = child;
    return worker != 0;
  }));
  return worker;
}

double num_restarts(const ServerProcess& server) {
  return ServerMetrics(server.port()).sum("troupe_worker_restarts_total");
}

void end(ServerProcess& server) {
  const pid_t worker = worker_of(server);
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
  CHECK(is_gone_soon(worker));
}

}  // namespace

TEST_CASE("child worker: questions are answered by meaning, and one process more is there for it") {
  ServerProcess server(flags_with());
  CHECK(content_of(chat(server.port(), user_asks("Count from 3 to 7."))) == "3, 4, 5, 6, 7");
  CHECK(children_of(server.pid()).size() == 1);
  CHECK(server.output().find("child process") != std::string::npos);
  end(server);
}

TEST_CASE("child worker: killed three times in the midst of streams, and nobody notices") {
  const std::vector<std::string> questions = {"Count from 5 to 90.", "Count from 1 to 80.",
                                              "Count from 20 to 99.", "Count from 7 to 95."};
  std::vector<Streamed> undisturbed;
  {
    ServerProcess server(flags_with());
    for (const auto& question : questions) undisturbed.push_back(long_stream_of(server.port(), question));
    CHECK(undisturbed[0].text.find("88, 89, 90") != std::string::npos);
    end(server);
  }
  ServerProcess server(flags_with());
  std::vector<std::future<Streamed>> streams;
  for (const auto& question : questions) streams.push_back(begin_long_stream(server.port(), question));
  pid_t worker = 0;
  for (const int num_tokens : {40, 200, 400}) {
    wait_for_tokens(server, num_tokens);
    worker = worker_of(server, worker);
    REQUIRE(::kill(worker, SIGKILL) == 0);
    CHECK(is_gone_soon(worker));
    CHECK(std::any_of(streams.begin(), streams.end(), [](const auto& stream) {
      return stream.wait_for(std::chrono::seconds(0)) == std::future_status::timeout;
    }));
  }
  for (std::size_t i = 0; i < questions.size(); ++i) CHECK(streams[i].get() == undisturbed[i]);
  CHECK(num_restarts(server) == 3);
  CHECK(server.output().find("was killed by signal 9 (SIGKILL)") != std::string::npos);
  CHECK(children_of(server.pid()).size() == 1);
  end(server);
}

TEST_CASE(
    "child worker: one that stands still is replaced, streams go on, and /health says 200 all the time") {
  ServerProcess server(flags_with());
  const auto undisturbed = long_stream_of(server.port(), "Count from 5 to 90.");
  auto stream = begin_long_stream(server.port(), "Count from 5 to 90.");
  wait_for_tokens(server, undisturbed.num_tokens + 40);
  const pid_t worker = worker_of(server);
  REQUIRE(::kill(worker, SIGSTOP) == 0);
  // It owes this one something even if the stream had ended before.
  auto late = std::async(std::launch::async, stream_of, server.port(), "Count from 3 to 7.");
  int num_unhealthy = 0;
  REQUIRE(eventually(
      [&] {
        num_unhealthy += http_get(server.port(), "/health").status == 200 ? 0 : 1;
        return num_restarts(server) == 1;
      },
      std::chrono::minutes(1)));
  CHECK(stream.get() == undisturbed);
  CHECK(late.get().text == "3, 4, 5, 6, 7");
  CHECK(num_unhealthy == 0);
  CHECK(is_gone_soon(worker));
  CHECK(eventually([&] { return http_get(server.port(), "/ready").status == 200; }));
  CHECK(server.output().find("the device does not finish its batch") != std::string::npos);
  end(server);
}

TEST_CASE("child worker: a worker that dies too often ends the server, with its reason") {
  ServerProcess server(flags_with({"--max-restarts", "1"}));
  for (pid_t worker = 0, round = 0; round < 2; ++round) {
    worker = worker_of(server, worker);
    // Alive once it has answered.
    if (round == 0) chat(server.port(), user_asks("Count from 3 to 7."));
    REQUIRE(::kill(worker, SIGKILL) == 0);
    // Its death is found with the next batch at the latest.
    const json body = {{"messages", user_asks("Count from 1 to 99.")}, {"max_tokens", 800}};
    http_post(server.port(), "/v1/chat/completions", body.dump());
  }
  CHECK(server.wait() == 70);
  CHECK(server.output().find("died more than 1 times in 60 s") != std::string::npos);
}

TEST_CASE("child worker: what its predecessor left on the host, the next one uses") {
  ServerProcess server(flags_with({"--compute-type", "bf16"}, "18MiB"));  // some 80 pages on the device
  Conversation conversation(800);
  conversation.say(server.port(), "My name is Clara.");
  conversation.say(server.port(), "Count from 3 to 60.");
  const auto num_stored = [&] { return ServerMetrics(server.port()).sum("troupe_kv_pages_stored_total"); };
  for (int i = 10; i < 50 && num_stored() < 40; ++i)
    chat(server.port(), user_asks("Count from " + std::to_string(i) + " to 90."));
  REQUIRE(num_stored() >= 40);
  const pid_t worker = worker_of(server);
  REQUIRE(::kill(worker, SIGKILL) == 0);
  // A batch for the server to find out with.
  chat(server.port(), user_asks("Count from 3 to 7."));
  const json answer = conversation.say(server.port(), "What is my name?");
  CHECK(content_of(answer).find("Clara") != std::string::npos);
  CHECK(answer["timings"].value("tokens_from_host", 0) >= 64);
  CHECK(num_restarts(server) == 1);
  CHECK(ServerMetrics(server.port()).sum("troupe_kv_pages_not_intact_total") == 0);
  end(server);
}

TEST_CASE("child worker: a server that is killed takes its worker with it") {
  ServerProcess server(flags_with());
  const pid_t worker = worker_of(server);
  auto stream = std::async(std::launch::async, [&] {
    try {
      stream_of(server.port(), "Count from 1 to 99.");
    } catch (const std::exception&) {
    }
  });
  wait_for_tokens(server, 20);
  server.signal(SIGKILL);
  CHECK(server.wait() == 128 + SIGKILL);
  CHECK(is_gone_soon(worker));
  stream.get();
}

TEST_CASE("child worker: signals that end the server do not end the worker before its answers are given") {
  ServerProcess server(flags_with());
  const pid_t worker = worker_of(server);
  auto stream = std::async(std::launch::async, stream_of, server.port(), "Count from 1 to 99.");
  wait_for_tokens(server, 20);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) REQUIRE(::kill(worker, number) == 0);
  server.signal(SIGTERM);
  CHECK(stream.get().text.find("97, 98, 99") != std::string::npos);
  CHECK(server.wait() == 0);
  CHECK(is_gone_soon(worker));
  CHECK(server.output().find("worker lost") == std::string::npos);
}

TEST_CASE("child worker: what KV costs is measured through it, and the weights are loaded once") {
  const troupe::test::TemporaryDirectory place;
  ServerProcess server(flags_with({"--store-directory", place.path().string(), "--cache-measure=true"}));
  CHECK(content_of(chat(server.port(), user_asks("Count from 3 to 7."))) == "3, 4, 5, 6, 7");
  CHECK(server.output().find("first_page_us") != std::string::npos);
  CHECK(num_restarts(server) == 0);
  end(server);
}

TEST_CASE("child worker: a model that does not fit is refused at start, with the numbers") {
  const auto result =
      run_command({TROUPE_BINARY, "serve", "--port", "0", "--model", TROUPE_SOURCE_DIR "/models/demo",
                   "--memory", "3MiB", "--device", "cpu", "--worker-placement", "child"});
  CHECK(result.exit_status == 1);
  CHECK(result.output.find("the model does not fit: ") != std::string::npos);
  CHECK(result.output.find("3.0 MiB allowed") != std::string::npos);
}

TEST_CASE("child worker: by hand it can't be started") {
  const auto result = run_command({TROUPE_BINARY, "worker"});
  CHECK(result.exit_status == 64);
  CHECK(result.output.find("is started by a server") != std::string::npos);
}
