// SPDX-License-Identifier: Apache-2.0
// Which device is taken, and what becomes of a server whose GPU goes wrong: with
// a library in the CUDA backend's place that does on command what GPUs do.
#include "tests/support/process/server_process.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/eventually.hpp"
#include "tests/support/http/chat.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/observability/server_metrics.hpp"
#include "tests/support/process/processes.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

const std::string kDemoModel = TROUPE_SOURCE_DIR "/models/demo";

// What goes wrong with the GPU, for servers started meanwhile.
class Trouble {
 public:
  explicit Trouble(const std::string& what) { ::setenv("FAKE_CUDA", what.c_str(), 1); }
  ~Trouble() { ::unsetenv("FAKE_CUDA"); }
};

// The executable without a library beside it.
class LonelyProgram {
 public:
  LonelyProgram()
      : directory_(std::filesystem::path(TROUPE_BINARY).parent_path() /
                   ("lonely-" + std::to_string(::getpid()))) {
    std::filesystem::create_directory(directory_);
    std::filesystem::create_hard_link(TROUPE_BINARY, path());
  }
  ~LonelyProgram() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  LonelyProgram(const LonelyProgram&) = delete;
  LonelyProgram& operator=(const LonelyProgram&) = delete;
  std::string path() const { return (directory_ / "troupe").string(); }

 private:
  std::filesystem::path directory_;
};

std::vector<std::string> serve_flags(const std::string& device, const std::string& library) {
  return {"--model", kDemoModel, "--memory", "128MiB", "--device", device, "--cuda-library", library};
}

CommandResult failed_start(const std::string& device, const std::string& library) {
  std::vector<std::string> arguments = {TROUPE_BINARY, "serve", "--port", "0"};
  const auto flags = serve_flags(device, library);
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return run_command(arguments);
}

json body_of(const std::string& text) { return {{"messages", user_asks(text)}, {"max_tokens", 50}}; }

HttpAnswer answer_of(const ServerProcess& server, const std::string& text) {
  return http_post(server.port(), "/v1/chat/completions", body_of(text).dump());
}

bool answers_by_meaning(const ServerProcess& server) {
  return answer_of(server, "Count from 3 to 7.").body.find("3, 4, 5, 6, 7") != std::string::npos;
}

std::size_t num_lines_with(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// No other text has it in a token.
const std::string kRareText = "~";
std::string rare_token() {
  std::ifstream file(kDemoModel + "/tokenizer.json");
  return std::to_string(json::parse(file).at("model").at("vocab").at(kRareText).get<int>());
}

}  // namespace

TEST_CASE("cuda library: without one, auto serves from the CPU, in one process, and says so once") {
  const LonelyProgram program;
  const TemporaryFile log;
  const troupe::loadgen::ServerProcess server(
      {.arguments = {program.path(), "serve", "--port", "0", "--model", kDemoModel, "--memory", "128MiB",
                     "--store-directory", "none", "--device", "auto"},
       .log_file = log.path()});
  const auto answer =
      http_post(server.address().port, "/v1/chat/completions", body_of("Count from 3 to 7.").dump());
  CHECK(answer.body.find("3, 4, 5, 6, 7") != std::string::npos);
  CHECK(children_of(server.pid()).empty());
  const std::string output = file_text(log.path());
  CHECK(num_lines_with(output, "no GPU is used") == 1);
  CHECK(output.find("libtroupe_cuda.so is missing") != std::string::npos);
}

TEST_CASE("cuda library: one that was named and is missing ends the start, unless no GPU is looked for") {
  for (const char* device : {"auto", "cuda", "cuda:1"}) {
    const auto missing = failed_start(device, "/nonexistent/libtroupe_cuda.so");
    CHECK(missing.exit_status == 78);
    CHECK(missing.output.find("/nonexistent/libtroupe_cuda.so is missing") != std::string::npos);
  }
  const ServerProcess host(serve_flags("cpu", "/nonexistent/libtroupe_cuda.so"));
  CHECK(answers_by_meaning(host));
}

TEST_CASE("cuda library: auto serves from the CPU where there is no GPU, or it is of no use") {
  for (const auto& [trouble, reason] : {std::pair{"no_device", "no CUDA device (fake)"},
                                        {"no_memory", "the model does not fit: "},
                                        {"crash", "was killed by signal 6 (SIGABRT)"}}) {
    CAPTURE(trouble);
    const Trouble here(trouble);
    const ServerProcess server(serve_flags("auto", TROUPE_FAKE_CUDA));
    CHECK(answers_by_meaning(server));
    CHECK(children_of(server.pid()).empty());
    CHECK(num_lines_with(server.output(), "no GPU is used") == 1);
    CHECK(server.output().find(reason) != std::string::npos);
  }
}

TEST_CASE("cuda library: a GPU that was asked for by name and is not there is an error") {
  const auto without = failed_start("cuda", "/nonexistent/libtroupe_cuda.so");
  CHECK(without.exit_status == 78);
  CHECK(without.output.find("libtroupe_cuda.so is missing") != std::string::npos);
  const auto no_library = failed_start("cuda", kDemoModel + "/config.json");
  CHECK(no_library.exit_status == 1);
  CHECK(no_library.output.find("config.json: ") != std::string::npos);
  const Trouble here("no_device");
  const auto no_device = failed_start("cuda:1", TROUPE_FAKE_CUDA);
  CHECK(no_device.exit_status == 1);
  CHECK(no_device.output.find("no CUDA device (fake)") != std::string::npos);
  CHECK(no_device.output.find("no GPU is used") == std::string::npos);
}

TEST_CASE("cuda library: the GPU that is asked for is taken, in a process of its own") {
  for (const auto& [device, name] :
       {std::pair{"auto", "fake GPU 0"}, {"cuda", "fake GPU 0"}, {"cuda:3", "fake GPU 3"}}) {
    CAPTURE(device);
    ServerProcess server(serve_flags(device, TROUPE_FAKE_CUDA));
    CHECK(answer_of(server, "Hello.").status == 200);
    CHECK(children_of(server.pid()).size() == 1);
    CHECK(server.output().find(name) != std::string::npos);
    server.signal(SIGTERM);
    CHECK(server.wait() == 0);
  }
}

TEST_CASE("cuda library: inline, it is opened in the server") {
  auto flags = serve_flags("cuda", TROUPE_FAKE_CUDA);
  flags.insert(flags.end(), {"--worker-placement", "inline"});
  const ServerProcess server(flags);
  CHECK(answer_of(server, "Hello.").status == 200);
  CHECK(children_of(server.pid()).empty());
}

TEST_CASE("cuda library: a request that kills two workers is failed and set apart") {
  for (const std::string trouble : {"abort_at ", "error_at "}) {
    CAPTURE(trouble);
    const Trouble here(trouble + rare_token());
    const ServerProcess server(serve_flags("cuda", TROUPE_FAKE_CUDA));
    std::vector<std::future<HttpAnswer>> others;
    for (int i = 0; i < 3; ++i)
      others.push_back(std::async(std::launch::async, [&] { return answer_of(server, "Hello."); }));
    const auto poisoned = answer_of(server, kRareText);
    CHECK(poisoned.status == 500);
    CHECK(poisoned.body.find("failed repeatedly on this request") != std::string::npos);
    for (auto& other : others) {
      const auto answer = other.get();
      CHECK_MESSAGE(answer.status == 200, answer.body);
      CHECK(json::parse(answer.body)["usage"]["completion_tokens"] == 50);
    }
    CHECK(answer_of(server, "Hello.").status == 200);
    const ServerMetrics metrics(server.port());
    CHECK(metrics.sum("troupe_worker_restarts_total") == 2);
    CHECK(children_of(server.pid()).size() == 1);
  }
}

TEST_CASE(
    "cuda library: several requests that kill workers at once are failed, others answered to the byte") {
  const std::vector<std::string> questions = {"Count from 5 to 90.", "Count from 1 to 80.",
                                              "Count from 20 to 99."};
  const auto ask = [](const ServerProcess& server, const std::string& text) {
    json body = body_of(text);
    body["temperature"] = 0;
    body["max_tokens"] = 500;
    return http_post(server.port(), "/v1/chat/completions", body.dump());
  };
  const auto text_of = [](const HttpAnswer& answer) {
    REQUIRE_MESSAGE(answer.status == 200, answer.body);
    const json message = json::parse(answer.body);
    return message["choices"][0]["message"]["content"].get<std::string>() +
           message["usage"]["completion_tokens"].dump();
  };
  std::vector<std::string> undisturbed;
  {
    const Trouble none("host");
    const ServerProcess server(serve_flags("cuda", TROUPE_FAKE_CUDA));
    for (const auto& question : questions) undisturbed.push_back(text_of(ask(server, question)));
    REQUIRE(undisturbed[0].find("88, 89, 90") != std::string::npos);
  }
  for (const std::string trouble : {"host abort_at ", "host kill_at "}) {
    CAPTURE(trouble);
    const Trouble here(trouble + rare_token());
    const ServerProcess server(serve_flags("cuda", TROUPE_FAKE_CUDA));
    const auto ask_beside = [&](const std::string& text) {
      return std::async(std::launch::async, [&, text] { return ask(server, text); });
    };
    std::vector<std::future<HttpAnswer>> healthy, poisoned;
    for (const auto& question : questions) healthy.push_back(ask_beside(question));
    CHECK(eventually([&] {  // they are being answered
      return ServerMetrics(server.port()).sum("troupe_generation_tokens_total") > 30;
    }));
    for (int i = 0; i < 4; ++i) poisoned.push_back(ask_beside(kRareText));
    for (auto& answer : poisoned) CHECK(answer.get().status == 500);
    for (std::size_t i = 0; i < questions.size(); ++i) CHECK(text_of(healthy[i].get()) == undisturbed[i]);
    CHECK(ServerMetrics(server.port()).sum("troupe_worker_restarts_total") <= 8);
    CHECK(text_of(ask(server, questions[1])) == undisturbed[1]);
  }
}
