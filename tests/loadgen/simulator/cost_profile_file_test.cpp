// SPDX-License-Identifier: Apache-2.0
#include "loadgen/simulator/cost_profile_file.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <stdexcept>
#include <string>

#include "app/costs/profile_json.hpp"
#include "tests/loadgen/simulator/simulated_traffic.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;
using namespace troupe::loadgen;

namespace {

CostProfile full_profile() {
  CostProfile profile = plain_profile();
  profile.model = "demo";
  profile.device = "host, \"bf16\"";
  profile.hardware = "a processor, 2 CPUs";
  profile.measured = "2026-01-02T03:04:05Z";
  profile.iteration.knots = {1, 2, 4};
  profile.iteration.slopes = {10.5, 20, 0};
  profile.iteration.per_decode_key = 0.25;
  profile.overheads = {.request = 1,
                       .per_prompt_token = 2,
                       .turnaround = 3,
                       .iteration = 4,
                       .iteration_per_sequence = 5,
                       .end = 6};
  profile.residuals = {0.75, 1, 1.25};
  profile.serving.load_from_host = {.fixed = 7, .per_page = 8.5};
  profile.serving.num_host_pages = 10;
  profile.serving.num_disk_pages = 20;
  profile.serving.disk = {.fixed = 9, .per_page = 10.5};
  profile.flags = {{.name = "--device", .value = "cpu", .is_default = true},
                   {.name = "--memory", .value = "5"}};
  return profile;
}

class ProfileFile {
 public:
  explicit ProfileFile(const std::string& text) { directory_.write("profile.json", text); }
  std::filesystem::path path() const { return directory_.path() / "profile.json"; }

 private:
  TemporaryDirectory directory_;
};

// The error of reading the profile with one part of its text replaced.
std::string error_with(const std::string& from, const std::string& to) {
  std::string text = profile_json(full_profile(), {});
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  const ProfileFile file(text.replace(at, from.size(), to));
  try {
    read_cost_profile(file.path());
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return {};
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("cost profile file: what troupe profile writes is read as it was") {
  CostProfile written = full_profile();
  written.serving.settings.separates_prefill = true;
  const ProfileFile file(profile_json(written, {}));
  const CostProfile read = read_cost_profile(file.path());
  CHECK(read.model == written.model);
  CHECK(read.device == written.device);
  CHECK(read.measured == written.measured);
  CHECK(read.iteration.knots == written.iteration.knots);
  CHECK(read.iteration.slopes == written.iteration.slopes);
  CHECK(read.iteration.per_decode_key == written.iteration.per_decode_key);
  CHECK(read.overheads.iteration_per_sequence == written.overheads.iteration_per_sequence);
  CHECK(read.serving.settings.prefill_chunk == written.serving.settings.prefill_chunk);
  CHECK(read.serving.num_disk_pages == 20);
  CHECK(read.serving.disk == written.serving.disk);
  REQUIRE(read.flags.size() == 2);
  CHECK(read.flags[0].name == "--memory");
  CHECK(read.flags[0].value == "5");
  CHECK_FALSE(read.flags[0].is_default);
  CHECK(read.flags[1].name == "--device");
  CHECK(read.flags[1].is_default);
  CHECK(read.serving.limits.page_capacity == 256 * 16);
  CHECK(read.serving.settings.max_queue_time == written.serving.settings.max_queue_time);
  CHECK(profile_json(read, {}) == profile_json(written, {}));
}

TEST_CASE("cost profile file: one that doesn't say whether prompts are kept apart mixes them") {
  auto json = nlohmann::ordered_json::parse(profile_json(full_profile(), {}));
  CHECK(json.at("serving").erase("separate_prefill") == 1);
  const ProfileFile file(json.dump());
  CHECK_FALSE(read_cost_profile(file.path()).serving.settings.separates_prefill);
}

TEST_CASE("cost profile file: every setting of the server is in it") {
  const auto json = nlohmann::ordered_json::parse(profile_json(full_profile(), {}));
  for (const auto& setting : serving_table())
    CHECK_MESSAGE(json.at("serving").contains(profile_name(setting.flag)), setting.flag);
}

TEST_CASE("cost profile file: the names of before are still read") {
  auto json = nlohmann::ordered_json::parse(profile_json(full_profile(), {}));
  auto& serving = json.at("serving");
  for (const char* name : {"max_queue_seconds", "cache_keep_free_percent", "cache_copy_ahead_percent",
                           "cache_keep_days", "itl_factor"})
    CHECK(serving.erase(name) == 1);
  serving["cache_policy"] = "value";
  serving["prefix_cache"] = false;
  serving["max_queue_ms"] = 1500;
  serving["kept_free_pages"] = 25;
  serving["copy_ahead_below"] = 0.5;
  const ProfileFile file(json.dump());
  const ProfiledServer server = read_cost_profile(file.path()).serving;
  CHECK_FALSE(server.settings.keeps_prefixes());
  CHECK(server.settings.max_queue_time == std::chrono::milliseconds(1500));
  CHECK(static_cast<std::uint32_t>(server.settings.keep_free * server.num_pages) == 25);
  CHECK(server.settings.copy_ahead_below == 0.5);
  CHECK(server.settings.keep_for.count() == 0);
  CHECK(server.settings.itl_factor == 0);
}

TEST_CASE("cost profile file: the cells of a recurrent network are read as they were") {
  CostProfile written = full_profile();
  written.serving.page_size = written.serving.num_pages = 0;
  written.cells =
      ProfiledCells{.graphs = GraphKind::kEncodeDecode,
                    .num_rows = 4096,
                    .types = {{.name = "encoder", .priority = 0, .max_batch = 512, .cost = fixed_cost(185)},
                              {.name = "decoder", .priority = 1, .max_batch = 256, .cost = fixed_cost(322)}}};
  std::string text = profile_json(written, {});
  const CostProfile read = read_cost_profile(ProfileFile(text).path());
  CHECK(profile_json(read, {}) == text);
  CHECK(read.cells->types[1].max_batch == 256);
  CHECK(read.serving.limits.longest_sequence() == written.serving.limits.context_length);
  const auto error_with_graphs = [&](const std::string& graphs) -> std::string {
    std::string changed = text;
    changed.replace(changed.find("encode_decode"), 13, graphs);
    try {
      read_cost_profile(ProfileFile(changed).path());
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return {};
  };
  CHECK(
      says(error_with_graphs("ring"), "cells: 'graphs': expected chain, encode_decode or tree, got 'ring'"));
  CHECK(says(error_with_graphs("chain"), "cells.types: expected 1 for such graphs, got 2"));
}

TEST_CASE("cost profile file: other overheads leave everything else as it is") {
  const ProfileFile file(profile_json(full_profile(), {}));
  CostProfile changed = full_profile();
  changed.overheads = {.request = 7.5};
  write_with_overheads(file.path(), file.path(), changed.overheads);
  CHECK(profile_json(read_cost_profile(file.path()), {}) == profile_json(changed, {}));
}

TEST_CASE("cost profile file: whatever is wrong is named with key, expectation and what came") {
  CHECK(says(error_with("\"fixed_ns\"", "\"fixed\""), "iteration: 'fixed_ns' is missing"));
  CHECK(says(error_with("\"per_decode_key_ns\": 0.25", "\"per_decode_key_ns\": -1"),
             "'per_decode_key_ns': expected a number from 0, got -1"));
  CHECK(says(error_with("\"per_decode_key_ns\": 0.25", "\"per_decode_key_ns\": \"fast\""), "got \"fast\""));
  CHECK(says(error_with("\"per_decode_key_ns\": 0.25", "\"per_decode_key_ns\": NaN"), "expected JSON, but"));
  CHECK(says(error_with("\"page_size\": 16", "\"page_size\": 0"),
             "serving.page_size: expected a number above 0, got 0"));
  CHECK(says(error_with("\"page_size\": 16", "\"page_size\": 1.5"), "'page_size': expected a whole number"));
  CHECK(says(error_with("20.0", "-20.0"), "iteration.slopes: expected a number of nanoseconds from 0"));
  CHECK(says(error_with("20.0", "\"x\""), "'slopes_ns': expected numbers, got \"x\""));
  // Some thousand such batches take longer than a clock of nanoseconds counts.
  CHECK(says(error_with("20.0", "1e15"),
             "iteration.slopes: expected a number of nanoseconds from 0 to 1e12, got 1000000000000000"));
  CHECK(says(error_with("0.75", "1.75"), "residuals: expected numbers from 0 on that never decrease"));
  CHECK(says(error_with("0.75", "-0.75"), "residuals: expected numbers from 0 on"));
  CHECK(says(error_with("\"load_from_host_ns\": [", "\"load_from_host_ns\": [1, "),
             "'load_from_host_ns': expected two numbers, fixed and a page, got 3"));
  CHECK(says(error_with("\"disk_ns\": [", "\"disk_ns\": [1, "),
             "'disk_ns': expected two numbers, fixed and a page, got 3"));
  CHECK(says(error_with("profile 1", "profile 9"), "'format': expected 'troupe cost profile 1'"));
  CHECK(says(error_with("\"overheads\"", "\"overhead\""), "'overheads' is missing"));
  CHECK(says(error_with("\"separate_prefill\": false", "\"separate_prefill\": 0"),
             "'separate_prefill': expected true or false, got 0"));
  CHECK(says(error_with("\"cache_policy\": \"none\"", "\"cache_policy\": \"some\""),
             "'cache_policy': expected one of value, lru, none, got 'some'"));
  CHECK(says(error_with("\"max_waiting\": 1024", "\"max_waiting\": -1"),
             "'max_waiting': expected a whole number, got '-1'"));
}

TEST_CASE("cost profile file: files that are not there or no JSON are named") {
  CHECK_THROWS_WITH_AS(read_cost_profile("/nowhere/profile.json"), "/nowhere/profile.json: cannot be read",
                       std::runtime_error);
  for (const char* text : {"", "{", "[]", "7", "{}"}) {
    const ProfileFile file(text);
    CHECK_THROWS_AS(read_cost_profile(file.path()), std::runtime_error);
  }
}
