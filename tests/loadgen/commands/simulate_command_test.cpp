// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "app/costs/profile_json.hpp"
#include "loadgen/commands/command_table.hpp"
#include "loadgen/commands/commands.hpp"
#include "tests/loadgen/simulator/simulated_traffic.hpp"
#include "tests/support/file_text.hpp"
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

TEST_CASE("simulate command: what is said of the server is of the hardware that is simulated") {
  const test::TemporaryDirectory folder;
  auto profile = plain_profile();
  profile.serving.settings.cache_policy = EvictionPolicy::kValue;
  profile.serving.num_pages = 24;
  profile.serving.num_host_pages = 100;
  profile.serving.limits.page_capacity = 24 * 16;
  profile.serving.recompute_cost.constant = 1e9;  // nanoseconds: any load is cheaper
  const auto workload = folder.write("traffic.toml",
                                     "[workload]\nmax_conversations = 6\n"
                                     "[arrivals]\nkind = \"constant\"\nrate = 5\n"
                                     "[[class]]\nprompt_tokens = 150\noutput_tokens = 4\n"
                                     "turns = 2\nthink_time_s = 3\n");
  profile.device = "NVIDIA H100";
  // An a100's link to its host is half as fast as an h100's.
  const auto requests = [&](const std::string& name, double profiled_us, std::vector<std::string> more) {
    profile.serving.load_from_host = {.fixed = 0, .per_page = profiled_us * 1000};
    const auto out = folder.path() / name;
    more.insert(more.end(),
                {"--profile", folder.write(name + ".json", profile_json(profile, {})), "--workload", workload,
                 "--measured-on", "h100", "--what-if", "a100", "--out", out});
    REQUIRE(simulate_command(more) == kSuccess);
    return test::file_text(out / "requests.jsonl");
  };
  const auto asked = requests("asked", 9000, {"--page-copy-us", "20000"});
  CHECK(asked == requests("as_slow", 10'000, {}));
  CHECK(asked != requests("slower", 20'000, {}));
}

TEST_CASE("simulate command: several kinds of workers, losses and a disk") {
  const test::TemporaryDirectory folder;
  CostProfile of_h100 = plain_profile();
  of_h100.device = "NVIDIA H100";
  const auto profile = folder.write("profile.json", profile_json(of_h100, {}));
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
  CHECK_THROWS_WITH_AS(simulate_with({"--measured-on", "a100", "--what-if", "h200"}),
                       "--measured-on: the profile is of the device 'NVIDIA H100', which is no a100",
                       std::runtime_error);
  CHECK_THROWS_WITH_AS(simulate_with({"--what-if", "h200"}), "--measured-on and --what-if need each other",
                       std::runtime_error);
}

TEST_CASE(
    "simulate command: devices hand out states of the strength that is asked for, and the result says so") {
  const test::TemporaryDirectory folder;
  const auto profile = folder.write("profile.json", profile_json(plain_profile(), {}));
  const auto out = folder.path() / "out";
  CHECK(simulate_command({"--profile", profile, "--prompt-tokens", "8", "--output-tokens", "40", "--rate",
                          "100", "--conversations", "20", "--reservation", "predicted", "--state-strength",
                          "0.9", "--out", out}) == kSuccess);
  CHECK(test::file_text(out / "results.json").find("strength of states") != std::string::npos);
}

}  // namespace
}  // namespace troupe::loadgen
