// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "loadgen/commands/command_table.hpp"
#include "loadgen/commands/commands.hpp"
#include "tests/loadgen/workload/planned_input.hpp"
#include "tests/support/file_text.hpp"

using namespace troupe::loadgen;
using namespace troupe::loadgen::test;
using troupe::test::file_text;

TEST_CASE("plan command: a saved plan, replayed from its file, saves as the same plan") {
  const TemporaryFile workload("[workload]\npreset = \"sharegpt-like\"\nmax_conversations = 40\n");
  const TemporaryFile first, second;
  CHECK(plan_command({"--workload", workload.path(), "--seed", "7", "--out", first.path()}) == kSuccess);
  const TemporaryFile replay(
      "[arrivals]\nkind = \"replay\"\n[[class]]\ntrace = { format = \"plan\", file = \"" +
      first.path().string() + "\" }\n");
  CHECK(plan_command({"--workload", replay.path(), "--out", second.path()}) == kSuccess);
  CHECK(file_text(first.path()).size() > 4000);
  CHECK(file_text(first.path()) == file_text(second.path()));
}

TEST_CASE("plan command: it must be said which plan, by a file or a preset that exists") {
  const auto refusal = [](std::vector<std::string> arguments) {
    return refusal_of([&] { plan_command(arguments); });
  };
  CHECK(contains(refusal({}), "Give --workload FILE, --preset NAME"));
  CHECK(contains(refusal({"--preset", "chta"}), "expected one of chat"));
  CHECK(contains(refusal({"--workload", "/nonexistent/w.toml"}), "/nonexistent/w.toml"));
  CHECK(contains(refusal({"--workload", "a", "--preset", "chat"}), "exclude each other"));
  CHECK(contains(refusal({"--preset", "chat", "--users", "4", "--duration", "5"}),
                 "only with --conversations N"));
}
