// SPDX-License-Identifier: Apache-2.0
#include "app/costs/profile.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "app/costs/device_probe.hpp"
#include "loadgen/simulator/cost_profile_file.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;

namespace {

Options noop_options(std::uint64_t iteration_us) {
  Options options;
  options.models.front().dir = TROUPE_SOURCE_DIR "/models/demo";
  options.device = "noop";
  options.noop_iteration_us = iteration_us;
  options.serving.max_batch_sequences = 8;
  options.serving.max_batch_tokens = 64;
  return options;
}

}  // namespace

TEST_CASE("profile: every batch of the grid is one that the device takes, and differs from the others") {
  DeviceProbe probe(load_model(noop_options(200)));
  const auto samples = probe.measure(1);
  CHECK(samples.size() > 20);
  bool has_prompts = false, has_decodes = false, has_both = false;
  double total = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const IterationShape& shape = samples[i].shape;
    CHECK(shape.num_tokens <= 64);
    CHECK(shape.num_sequences <= 8);
    CHECK(samples[i].nanoseconds > 0);
    total += samples[i].nanoseconds;
    for (std::size_t j = 0; j < i; ++j) CHECK_FALSE(samples[j].shape == shape);
    has_prompts |= shape.decode_keys == 0;
    has_decodes |= shape.prefill_pairs == 0;
    has_both |= shape.decode_keys > 0 && shape.prefill_pairs > 0;
  }
  // One that was seen to end late leaves less to the next.
  CHECK(total >= 100'000.0 * static_cast<double>(samples.size()));
  CHECK(has_prompts);
  CHECK(has_decodes);
  CHECK(has_both);
}

TEST_CASE("profile: what is written can be simulated with, and holds the server's options") {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "profile.json";
  REQUIRE(run_profile({.options = noop_options(300), .out = file.string(), .num_rounds = 1}) == 0);
  const CostProfile profile = loadgen::read_cost_profile(file);
  CHECK(profile.model == "demo");
  CHECK(profile.serving.settings.max_batch_sequences == 8);
  CHECK(profile.serving.settings.max_batch_tokens == 64);
  CHECK(profile.serving.page_size == 32);
  CHECK(profile.iteration({.num_tokens = 1, .num_sequences = 1, .num_output_rows = 1}).count() > 100'000);
}

TEST_CASE("profile: a file that can't be written is named") {
  CHECK_THROWS_WITH_AS(
      run_profile({.options = noop_options(100), .out = "/nowhere/profile.json", .num_rounds = 1}),
      "/nowhere/profile.json: cannot be written", std::runtime_error);
}
