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

TEST_CASE("simulate command: several kinds of workers, losses and a disk") {
  const test::TemporaryDirectory folder;
  const auto profile = folder.write("profile.json", profile_json(plain_profile(), {}));
  const auto simulate_with = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--profile", profile, "--prompt-tokens", "8", "--output-tokens", "2", "--rate",
                             "100", "--conversations", "20"});
    return simulate_command(more);
  };
  CHECK(simulate_with({"--profile", profile, "--workers", "2", "--workers", "1", "--dispatch", "affinity",
                       "--mean-time-to-loss", "0.05", "--restart-time", "0.01", "--num-host-pages", "10",
                       "--num-disk-pages", "20", "--disk-page-us", "100"}) == kSuccess);
  CHECK_THROWS_WITH_AS(simulate_with({"--workers", "2", "--workers", "1"}),
                       "--workers: expected a number for each of 1 profiles, got 2", std::runtime_error);
  CHECK_THROWS_WITH_AS(simulate_with({"--num-disk-pages", "20"}),
                       "--num-disk-pages: expected a host tier, through which pages go, got none",
                       std::runtime_error);
  CHECK_THROWS_AS(simulate_with({"--dispatch", "affine"}), std::runtime_error);
  CHECK(simulate_with({"--measured-on", "h100", "--what-if", "h200", "--devices", "2"}) == kSuccess);
  CHECK_THROWS_WITH_AS(simulate_with({"--what-if", "h200"}), "--measured-on and --what-if need each other",
                       std::runtime_error);
}

}  // namespace
}  // namespace troupe::loadgen
