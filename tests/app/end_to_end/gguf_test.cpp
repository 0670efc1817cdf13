// SPDX-License-Identifier: Apache-2.0
// The real binary with the demo model as a GGUF file: it answers as its directory does.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/support/gpu/gguf_model.hpp"
#include "tests/support/http/chat.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/process/processes.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

const std::string kDemoModel = TROUPE_SOURCE_DIR "/models/demo";

// models/demo as "demo.gguf".
class DemoFile {
 public:
  DemoFile() { convert_to_gguf(kDemoModel, path()); }
  std::filesystem::path path() const { return directory_.path() / "demo.gguf"; }

 private:
  TemporaryDirectory directory_;
};

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string answer_of(std::uint16_t port, const json& messages) {
  const json body = {{"model", "demo"}, {"messages", messages}, {"max_tokens", 400}};
  const auto answer = http_post(port, "/v1/chat/completions", body.dump());
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  return json::parse(answer.body).at("choices").at(0).at("message").at("content");
}

}  // namespace

TEST_CASE("gguf: the file is served as its directory is, under its own name and with its sampling") {
  const DemoFile demo;
  const std::vector<std::string> flags = {"--log-level", "warning", "--memory", "512MiB", "--model"};
  auto of_file = flags, of_directory = flags;
  of_file.push_back(demo.path().string());
  of_directory.push_back(kDemoModel);
  const ServerProcess file(of_file), directory(of_directory);
  for (const char* question :
       {"Count from 3 to 7.", "Spell the word cat.", "What is 12 + 7?", "Count from 1 to 40."}) {
    const std::string answer = answer_of(file.port(), user_asks(question));
    CHECK(answer == answer_of(directory.port(), user_asks(question)));
    CHECK(!answer.empty());
  }
  CHECK(answer_of(file.port(), user_asks("Count from 3 to 7.")) == "3, 4, 5, 6, 7");
}

TEST_CASE("gguf: generate answers, inspect says what the file holds") {
  const DemoFile demo;
  const auto generated = run_command({TROUPE_BINARY, "generate", "--model", demo.path().string(),
                                      "--log-level", "warning", "--prompt", "Count from 3 to 7."});
  CHECK(generated.exit_status == 0);
  CHECK_MESSAGE(says(generated.output, "3, 4, 5, 6, 7"), generated.output);
  const auto inspected = run_command({TROUPE_BINARY, "inspect", demo.path().string()});
  CHECK(inspected.exit_status == 0);
  for (const char* part : {"demo.gguf", "architecture   llama", "BF16: 48 tensors", "1024 tokens",
                           "chat template  yes", "verdict        supported"})
    CHECK_MESSAGE(says(inspected.output, part), inspected.output);
}

TEST_CASE("gguf: convert writes what generate answers from, and inspect says that it can") {
  const TemporaryDirectory place;
  const std::string out = (place.path() / "demo.gguf").string();
  const auto convert = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> command = {TROUPE_BINARY, "convert", kDemoModel, out, "--log-level", "warning"};
    command.insert(command.end(), flags.begin(), flags.end());
    return run_command(command);
  };
  const auto converted = convert({"--quantize", "q4"});
  CHECK(converted.exit_status == 0);
  CHECK_MESSAGE(says(converted.output, "Q4_0: 35 tensors"), converted.output);
  const auto generated = run_command({TROUPE_BINARY, "generate", "--model", out, "--log-level", "warning",
                                      "--prompt", "Count from 3 to 7."});
  CHECK_MESSAGE(says(generated.output, "3, 4, 5, 6, 7"), generated.output);
  const auto again = convert({});
  CHECK(again.exit_status == 64);
  CHECK_MESSAGE(says(again.output, out + ": exists; --force replaces it"), again.output);
  CHECK(convert({"--force"}).exit_status == 0);
  const auto wrong = convert({"--quantize", "q5"});
  CHECK(wrong.exit_status != 0);
  CHECK_MESSAGE(says(wrong.output, "q5 not in {q8,q4}"), wrong.output);
  const auto inspected = run_command({TROUPE_BINARY, "inspect", out});
  CHECK_MESSAGE(says(inspected.output, "convert        to a GGUF file of"), inspected.output);
}

TEST_CASE("gguf: a file that is cut, or is none, is refused with its name and the reason") {
  const DemoFile demo;
  const auto refusal = [&] {
    return run_command({TROUPE_BINARY, "serve", "--port", "0", "--model", demo.path().string()});
  };
  std::filesystem::resize_file(demo.path(), std::filesystem::file_size(demo.path()) / 2);
  const auto cut = refusal();
  CHECK(cut.exit_status != 0);
  CHECK_MESSAGE(says(cut.output, demo.path().string() + ": is truncated: tensor"), cut.output);
  const auto inspected = run_command({TROUPE_BINARY, "inspect", demo.path().string()});
  CHECK(inspected.exit_status == 1);
  CHECK_MESSAGE(says(inspected.output, "not supported: " + demo.path().string() + ": is truncated"),
                inspected.output);
  std::filesystem::resize_file(demo.path(), 0);
  const auto none = refusal();
  CHECK(none.exit_status != 0);
  CHECK_MESSAGE(says(none.output, "is neither a model directory nor a GGUF file"), none.output);
}
