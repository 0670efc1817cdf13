// SPDX-License-Identifier: Apache-2.0
// What is wrong with the configuration is found before anything is loaded,
// measured or made, and said with the option's name and status 78.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/process/server_process.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe::test;

namespace {

const std::string kDemoModel = TROUPE_SOURCE_DIR "/models/demo";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Starts a server that would load the demo model, measure costs and keep things.
CommandResult start(std::vector<std::string> flags, const std::filesystem::path& state) {
  std::vector<std::string> arguments = {"env",
                                        "TROUPE_MODEL_DIR=" + kDemoModel,
                                        "TROUPE_DEVICE_KIND=cpu",
                                        "TROUPE_CACHE_MEASURE=true",
                                        "TROUPE_STORE_DIRECTORY=" + state.string(),
                                        TROUPE_BINARY,
                                        "serve"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return run_command(arguments);
}

}  // namespace

TEST_CASE("start faults: each is named by its option, with status 78, before anything is loaded or made") {
  const TemporaryDirectory place;
  const auto state = place.path() / "state";
  place.write("file", "not a directory\n");
  place.write("no-key", "# nothing\n");
  place.write("bad-key", "tenant\n");
  std::filesystem::create_directory(place.path() / "empty");
  struct Row {
    std::vector<std::string> flags;
    std::string option, reason;
  };
  const std::vector<Row> rows = {
      {{"--port", "65536"}, "--port", "0 to 65535"},
      {{"--port", "0", "--host", "example.com"},
       "--host",
       "expected an IP address of this machine or localhost"},
      {{"--port", "0", "--host", "0.0.0.0"}, "--allow-open-network", "refusing to listen"},
      {{"--port", "0", "--api-key", " "}, "--api-key", "without blanks"},
      {{"--port", "0", "--model-name", std::string(129, 'm')}, "--model-name", "1 to 128"},
      {{"--port", "0", "--model-name", "my model"}, "--model-name", "1 to 128"},
      {{"--port", "0", "--api-keys-file", "/nonexistent/keys"},
       "--api-keys-file",
       "/nonexistent/keys: No such"},
      {{"--port", "0", "--api-keys-file", (place.path() / "no-key").string()},
       "--api-keys-file",
       "at least one key"},
      {{"--port", "0", "--api-keys-file", (place.path() / "bad-key").string()},
       "--api-keys-file",
       "bad-key:1: "},
      {{"--port", "0", "--model", "/nonexistent/model"},
       "--model",
       "/nonexistent/model: no such model directory or GGUF file"},
      {{"--port", "0", "--model", (place.path() / "empty").string()}, "--model", "config.json: is missing"},
      {{"--port", "0", "--length-encoder", "nobody"}, "--length-encoder", "(there is none), got 'nobody'"},
      {{"--port", "0", "--length-encoder", "demo"}, "--length-encoder", "got 'demo'"},
      {{"--port", "0", "--trace-endpoint", "localhost"}, "--trace-endpoint", "got 'localhost'"},
      {{"--port", "0", "--trace-file", "/nonexistent/spans"}, "--trace-file", "/nonexistent/spans: No such"},
      {{"--port", "0", "--config", place.path().string()}, "--config", "got a directory"},
      {{"--port", "0", "--device", "cuda", "--cuda-library", "/nonexistent.so"},
       "--cuda-library",
       "is missing"},
      {{"--port", "0", "--device", "auto", "--cuda-library", "/nonexistent.so"},
       "--cuda-library",
       "/nonexistent.so is missing"},
      {{"--port", "0", "--store-directory", (place.path() / "file").string()}, "--store-directory", "file: "},
  };
  for (const auto& row : rows) {
    const auto result = start(row.flags, state);
    CAPTURE(result.output);
    CHECK(result.exit_status == 78);
    CHECK(has(result.output, row.option));
    CHECK(has(result.output, row.reason));
    CHECK_FALSE(has(result.output, "memory plan"));
    CHECK_FALSE(std::filesystem::exists(state));
  }
}

TEST_CASE("start faults: a port in use or an address that may come later is worth another start: status 1") {
  const TemporaryDirectory place;
  const ServerProcess other({"--model", kDemoModel, "--device", "noop"});
  const std::string port = std::to_string(other.port());
  struct Row {
    std::vector<std::string> flags;
    std::string option, reason;
  };
  const std::vector<Row> rows = {
      {{"--port", port}, "--port", "in use"},
      {{"--port", "0", "--metrics-port", port}, "--metrics-port", "in use"},
      {{"--port", "0", "--host", "192.0.2.1", "--api-key", "sk-1"}, "--host", "192.0.2.1"},
  };
  for (const auto& row : rows) {
    const auto result = start(row.flags, place.path() / "state");
    CAPTURE(result.output);
    CHECK(result.exit_status == 1);
    CHECK(has(result.output, row.option));
    CHECK(has(result.output, row.reason));
  }
}

TEST_CASE("start faults: an unknown variable keeps the server from starting") {
  const auto result = run_command({"env", "TROUPE_SERVER_PRT=1", TROUPE_BINARY, "serve", "--port", "0"});
  CHECK(result.exit_status == 78);
  CHECK(has(result.output, "'TROUPE_SERVER_PRT'; did you mean 'TROUPE_SERVER_PORT'?"));
}

TEST_CASE("start faults: generate without a prompt is wrong usage, before anything is loaded") {
  const auto result = run_command(
      {"sh", "-c", "'" TROUPE_BINARY "' generate --model '" TROUPE_SOURCE_DIR "/models/demo' < /dev/null"});
  CHECK(result.exit_status == 64);
  CHECK(has(result.output, "--prompt: standard input says nothing"));
  CHECK_FALSE(has(result.output, "memory plan"));
}

TEST_CASE("start faults: a prompt may come through a pipe") {
  const auto result =
      run_command({"sh", "-c",
                   "echo 'Spell the word cat.' | '" TROUPE_BINARY
                   "' generate --log-level error --model '" TROUPE_SOURCE_DIR "/models/demo'"});
  CHECK(result.exit_status == 0);
  CHECK(has(result.output, "c-a-t"));
}

TEST_CASE("start faults: the demo model is found from any directory") {
  const auto result = run_command(
      {"sh", "-c", "cd / && '" TROUPE_BINARY "' generate --log-level error 'Spell the word cat.'"});
  CHECK(result.exit_status == 0);
  CHECK(has(result.output, "c-a-t"));
}
