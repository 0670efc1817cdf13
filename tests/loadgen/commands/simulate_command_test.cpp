// SPDX-License-Identifier: Apache-2.0
#include "loadgen/commands/simulate_command.hpp"

#include <doctest/doctest.h>

#include "app/costs/profile_json.hpp"
#include "loadgen/commands/command_table.hpp"
#include "tests/loadgen/simulator/simulated_traffic.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe::loadgen {
namespace {

TEST_CASE("simulate command: another link needs a profile that weighs copies against computation") {
  const test::TemporaryDirectory folder;
  const auto simulate_on = [&](const CostProfile& profile) {
    return simulate_command({"--profile", folder.write("profile.json", profile_json(profile, {})),
                             "--prompt-tokens", "8", "--output-tokens", "2", "--rate", "100",
                             "--conversations", "2", "--page-copy-us", "50"});
  };
  auto profile = plain_profile();
  CHECK_THROWS_WITH_AS(simulate_on(profile), doctest::Contains("--page-copy-us: expected a profile with"),
                       std::runtime_error);
  profile.serving.load_from_host = {.fixed = 7, .per_page = 8};
  CHECK(simulate_on(profile) == kSuccess);
}

}  // namespace
}  // namespace troupe::loadgen
