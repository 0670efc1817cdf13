// SPDX-License-Identifier: Apache-2.0
#include "app/command_line.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace troupe;

namespace {

Command parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "troupe");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("command line: serve takes every option of the table as a flag") {
  const auto command = parse({"serve", "--port", "9000", "--deterministic=false", "--memory", "1GiB"});
  REQUIRE(std::holds_alternative<ServeCommand>(command));
  const auto& options = std::get<ServeCommand>(command).options;
  CHECK(options.port == 9000);
  CHECK_FALSE(options.deterministic);
  CHECK(options.memory_bytes == 1ULL << 30);
}

TEST_CASE("command line: the help of serve names every option and its environment variable") {
  const auto command = parse({"serve", "--help"});
  REQUIRE(std::holds_alternative<Message>(command));
  const auto& message = std::get<Message>(command);
  CHECK(message.exit_status == 0);
  for (const auto& entry : option_table()) {
    CHECK_MESSAGE(contains(message.text, std::string(entry.flag)), entry.flag);
    CHECK_MESSAGE(contains(message.text, entry.environment_name()), entry.flag);
  }
}

TEST_CASE("command line: a mistyped flag is refused with the nearest known one") {
  const auto command = parse({"serve", "--prot", "9000"});
  REQUIRE(std::holds_alternative<Message>(command));
  CHECK(std::get<Message>(command).exit_status != 0);
  CHECK(contains(std::get<Message>(command).text, "'--port'"));
}

TEST_CASE("command line: profile takes the server's options, a file and a number of rounds") {
  const auto command = parse({"profile", "--device", "noop", "--out", "costs.json", "--rounds", "3"});
  REQUIRE(std::holds_alternative<ProfileCommand>(command));
  const auto& profile = std::get<ProfileCommand>(command);
  CHECK(profile.options.device == "noop");
  CHECK(profile.out == "costs.json");
  CHECK(profile.num_rounds == 3);
  CHECK(std::get<Message>(parse({"profile", "--rounds", "0"})).exit_status != 0);
}

TEST_CASE("command line: generate needs a prompt, inspect a directory") {
  for (const char* name : {"generate", "inspect"}) {
    const auto command = parse({name});
    REQUIRE(std::holds_alternative<Message>(command));
    CHECK(std::get<Message>(command).exit_status != 0);
  }
  const auto command = parse({"generate", "-p", "Hello", "-n", "5", "--system", "Be brief."});
  REQUIRE(std::holds_alternative<GenerateCommand>(command));
  const auto& generate = std::get<GenerateCommand>(command);
  CHECK(generate.prompt == "Hello");
  CHECK(generate.max_tokens == 5);
  CHECK(generate.system == "Be brief.");
}

TEST_CASE("command line: the version names the program") {
  const auto command = parse({"--version"});
  REQUIRE(std::holds_alternative<Message>(command));
  CHECK(contains(std::get<Message>(command).text, "troupe 0."));
}
