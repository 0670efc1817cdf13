// SPDX-License-Identifier: Apache-2.0
#include "loadgen/report/stored_run.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "loadgen/result/result_file.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe::loadgen {
namespace {

StoredRun run_of(const char* server, double rate, const char* seed, const char* origin = "") {
  StoredRun run;
  run.result.name = std::string(server) + seed;
  run.result.settings = {{"server", server}, {"seed", seed}};
  run.result.offered_rate = rate;
  run.origin = origin;
  return run;
}

TEST_CASE("stored_run: runs are sorted into servers, loads and seeds") {
  const std::vector<StoredRun> runs = {run_of("b", 4, "1"), run_of("a", 2, "1"), run_of("b", 2, "1"),
                                       run_of("b", 2, "2")};
  const auto groups = group_runs(runs);
  REQUIRE(groups.lines.size() == 2);
  CHECK(groups.lines[0].name == "b");
  REQUIRE(groups.lines[0].points.size() == 2);
  CHECK(groups.lines[0].points[0].load == 2);
  CHECK(groups.lines[0].points[0].runs.size() == 2);
  CHECK(groups.lines[1].points.size() == 1);
  CHECK(groups.is_sweep());
  CHECK_FALSE(groups.is_by_users);
}

TEST_CASE("stored_run: a closed loop is sorted by its users") {
  std::vector<StoredRun> runs = {run_of("a", 0, "1"), run_of("a", 0, "1")};
  runs[0].result.settings.emplace_back("users", "16");
  runs[1].result.settings.emplace_back("users", "4");
  const auto groups = group_runs(runs);
  CHECK(groups.is_by_users);
  REQUIRE(groups.lines[0].points.size() == 2);
  CHECK(groups.lines[0].points[0].load == 4);
}

TEST_CASE("stored_run: simulated runs and other directories are lines of their own") {
  std::vector<StoredRun> runs = {run_of("a", 1, "1", "old"), run_of("a", 1, "1", "new"),
                                 run_of("a", 1, "1", "new")};
  runs[2].result.is_simulated = true;
  const auto groups = group_runs(runs);
  REQUIRE(groups.lines.size() == 3);
  CHECK(groups.lines[0].name == "old: a");
  CHECK(groups.lines[1].name == "new: a");
  CHECK(groups.lines[2].name == "new: a (simulated)");
}

TEST_CASE("stored_run: a spread leaves out what was not measured") {
  const auto spread = spread_of(std::vector<double>{2, NAN, 4});
  CHECK(spread.mean == 3);
  CHECK(spread.low == 2);
  CHECK(spread.high == 4);
  CHECK(spread.count == 2);
  CHECK(std::isnan(spread_of(std::vector<double>{}).mean));
}

TEST_CASE("stored_run: a directory holds one run or many below it") {
  const TemporaryDirectory directory;
  const RunResult run;
  write_result(directory.path() / "b", run, summarize(run));
  write_result(directory.path() / "deep" / "a", run, summarize(run));
  CHECK(read_runs(directory.path(), "").size() == 2);
  CHECK(read_runs(directory.path() / "b", "x").front().origin == "x");
}

TEST_CASE("stored_run: a directory without results is named") {
  const TemporaryDirectory directory;
  CHECK_THROWS_WITH(read_runs(directory.path(), ""),
                    doctest::Contains("expected results.json here or in a directory below"));
  CHECK_THROWS_WITH(read_runs(directory.path() / "absent", ""),
                    doctest::Contains("absent: expected a directory"));
}

}  // namespace
}  // namespace troupe::loadgen
