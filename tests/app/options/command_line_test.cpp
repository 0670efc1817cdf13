// SPDX-License-Identifier: Apache-2.0
#include "app/options/command_line.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "app/generate.hpp"
#include "app/options/usage_error.hpp"

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

TEST_CASE("command line: the model that is shipped has the name that the documents call it by") {
  const auto name = [](std::vector<const char*> arguments) {
    return served_name(std::get<ServeCommand>(parse(std::move(arguments))).options.models.front());
  };
  CHECK(name({"serve"}) == "troupe-demo");
  CHECK(name({"serve", "--model-name", "mine"}) == "mine");
  CHECK(name({"serve", "--model", "/elsewhere/demo"}) == "demo");
}

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

TEST_CASE("command line: inspect and perplexity need a model, trace a file") {
  for (const char* name : {"inspect", "perplexity", "trace"}) {
    const auto command = parse({name});
    REQUIRE(std::holds_alternative<Message>(command));
    CHECK(std::get<Message>(command).exit_status == 64);
  }
}

TEST_CASE("command line: convert takes a model, a file and q8 or q4") {
  const auto command = parse({"convert", "models/demo", "demo.gguf", "--quantize", "q4", "--threads", "3"});
  REQUIRE(std::holds_alternative<ConvertCommand>(command));
  const auto& convert = std::get<ConvertCommand>(command);
  CHECK(convert.model == "models/demo");
  CHECK(convert.out == "demo.gguf");
  CHECK(convert.quantize == "q4");
  CHECK_FALSE(convert.replaces);
  CHECK(convert.options.threads == 3);
  CHECK(std::get<ConvertCommand>(parse({"convert", "a", "b", "--force"})).replaces);
  CHECK(std::get<ConvertCommand>(parse({"convert", "a", "b"})).quantize == "q8");
  CHECK(std::get<Message>(parse({"convert", "models/demo"})).exit_status == 64);
  CHECK(std::get<Message>(parse({"convert", "a", "b", "--quantize", "keep"})).exit_status == 78);
  for (const auto& described : troupe_manual().commands)
    for (const auto& option : described.options)
      if (described.name == "convert" && option.names.front() == "--quantize")
        CHECK(option.choices == std::vector<std::string>{"q8", "q4"});
}

TEST_CASE("command line: a bad option is bad configuration, whoever finds it") {
  for (const auto& arguments : std::vector<std::vector<const char*>>{{"serve", "--port"},
                                                                     {"serve", "--port", "nine"},
                                                                     {"serve", "--prot", "9"},
                                                                     {"serve", "--deterministic=maybe"},
                                                                     {"generate", "-t", "7", "Hello"},
                                                                     {"profile", "--rounds", "0"}}) {
    const auto command = parse(arguments);
    REQUIRE(std::holds_alternative<Message>(command));
    CHECK(std::get<Message>(command).exit_status == 78);
  }
}

TEST_CASE("command line: an unknown command is named, with the nearest known one") {
  const auto typo = std::get<Message>(parse({"srve", "--port", "9000"}));
  CHECK(typo.exit_status == 64);
  CHECK(typo.text == "troupe: unknown command 'srve'; did you mean 'serve'?\n");
  const auto far = std::get<Message>(parse({"bogus"}));
  CHECK(far.exit_status == 64);
  CHECK(contains(far.text, "unknown command 'bogus'"));
  CHECK(contains(far.text, "serve generate inspect perplexity convert doctor profile trace completion man"));
  CHECK_FALSE(contains(far.text, "worker"));
}

TEST_CASE("command line: a switch takes its value as a word of its own too, and no other word") {
  const auto options_of = [](std::vector<const char*> arguments) {
    return std::get<ServeCommand>(parse(std::move(arguments))).options;
  };
  CHECK_FALSE(options_of({"serve", "--deterministic", "false", "--port", "9000"}).deterministic);
  CHECK(options_of({"serve", "--deterministic", "false", "--port", "9000"}).port == 9000);
  CHECK(options_of({"serve", "--allow-open-network", "--port", "9000"}).allow_open_network);
  CHECK(options_of({"serve", "--allow-open-network"}).allow_open_network);
  CHECK_FALSE(options_of({"serve", "--pin-threads", "off"}).pin_threads);
  const auto generate = std::get<GenerateCommand>(parse({"generate", "--deterministic", "Hello"}));
  CHECK(generate.options.deterministic);
  CHECK(generate.prompt == "Hello");
}

TEST_CASE("command line: a prompt is said as a word, as a flag, or on standard input") {
  const auto said = [](std::vector<const char*> arguments, const std::string& input, bool is_terminal) {
    std::istringstream stream(input);
    return prompt_of(std::get<GenerateCommand>(parse(std::move(arguments))), stream, is_terminal);
  };
  CHECK(said({"generate", "Spell cat."}, "unread", true) == "Spell cat.");
  CHECK(said({"generate", "--prompt", "Spell cat."}, "unread", false) == "Spell cat.");
  CHECK(said({"generate", "-"}, "one\ntwo\n", true) == "one\ntwo");
  CHECK(said({"generate", "--raw"}, "one", false) == "one");
  CHECK_THROWS_WITH_AS(said({"generate"}, "", true),
                       "--prompt: expected something to say: troupe generate \"Count from 3 to 7.\"",
                       UsageError);
  CHECK_THROWS_AS(said({"generate", "-"}, "\n", false), UsageError);
}

TEST_CASE("command line: a subcommand shows and takes those options that it uses") {
  const auto help_of = [](const char* name) { return std::get<Message>(parse({name, "--help"})).text; };
  for (const char* name : {"generate", "inspect", "perplexity", "profile"}) {
    CHECK(contains(help_of(name), "--device "));
    for (const char* other : {"--port", "--api-key", "--drain-seconds", "--store-keep-days", "--vllm-names",
                              "--trace-file", "--max-body-bytes"})
      CHECK_MESSAGE(!contains(help_of(name), other), name, " ", other);
  }
  CHECK_FALSE(contains(help_of("inspect"), "--model "));
  CHECK(contains(help_of("profile"), "--max-waiting "));
  const auto refused = std::get<Message>(parse({"generate", "--port", "9000", "Hello"}));
  CHECK(refused.exit_status == 78);
  CHECK(contains(refused.text, "'--port'"));
}

TEST_CASE("command line: generate takes what it is to say and how") {
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

TEST_CASE("command line: serve takes several models, each --model one word") {
  const auto command =
      parse({"serve", "--model", "/m/a", "--model", "/m/b", "--model-name", "x", "--model-name=y"});
  REQUIRE(std::holds_alternative<ServeCommand>(command));
  const auto& models = std::get<ServeCommand>(command).options.models;
  REQUIRE(models.size() == 2);
  CHECK(models[0].dir == "/m/a");
  CHECK(models[0].name == "x");
  CHECK(models[1].dir == "/m/b");
  CHECK(models[1].name == "y");
  const auto generate = parse({"generate", "--model", "/m/a", "Hello"});
  REQUIRE(std::holds_alternative<GenerateCommand>(generate));
  CHECK(std::get<GenerateCommand>(generate).prompt == "Hello");
  CHECK(std::get<Message>(parse({"serve", "--model", "/m/a", "--model", "/n/a"})).exit_status == 78);
  CHECK(std::get<Message>(parse({"serve", "--port", "1", "--port", "2"})).exit_status == 78);
}

TEST_CASE("command line: generate and profile refuse a second model by name") {
  for (const char* name : {"generate", "profile"}) {
    const auto refused = std::get<Message>(parse({name, "--model", "/m/a", "--model", "/m/b"}));
    CHECK(refused.exit_status == 78);
    CHECK(refused.text == "troupe: --model: " + std::string(name) + " takes one model, got a, b\n");
  }
  CHECK(std::get<Message>(parse({"inspect", "--model", "/m/a", "/m/b"})).exit_status == 78);
  CHECK(std::get<Message>(parse({"inspect", "/m/a", "/m/b"})).exit_status == 78);
}
