// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/quantile_grid.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "loadgen/workload/distribution.hpp"
#include "tests/loadgen/workload/planned_input.hpp"
#include "tests/support/test_data.hpp"

using namespace troupe::loadgen;
using namespace troupe::loadgen::test;

namespace quantile_grid_test {
namespace {

std::string refusal(const std::string& json, const std::string& key) {
  const TemporaryFile file(json);
  return refusal_of([&] { read_quantile_grid(file.path(), key); });
}

}  // namespace

TEST_CASE("quantile grid: a list is read as it is, by its key in nested objects") {
  const TemporaryFile file(R"({"conv": {"input": [1, 2, 2.5, 9]}})");
  CHECK(read_quantile_grid(file.path(), "conv.input") == std::vector<double>{1, 2, 2.5, 9});
}

TEST_CASE("quantile grid: an object of percentiles is interpolated to equal distances") {
  const TemporaryFile file(R"({"all": {"n": 7, "mean": 3, "p0": 0, "p50": 10, "p99.9": 60, "max": 160}})");
  const auto grid = read_quantile_grid(file.path(), "all");
  CHECK(value_at(grid, 0) == doctest::Approx(0));
  CHECK(value_at(grid, 0.25) == doctest::Approx(5));
  CHECK(value_at(grid, 0.5) == doctest::Approx(10));
  CHECK(value_at(grid, 0.999) == doctest::Approx(60));
  CHECK(value_at(grid, 1) == doctest::Approx(160));
}

TEST_CASE("quantile grid: what makes no sense is refused with file, key and reason") {
  CHECK(contains(refusal("{", ""), "expected JSON"));
  CHECK(contains(refusal(R"({"a": 1, "b": 2})", "c"), "key 'c': expected 'c' among a, b"));
  CHECK(contains(refusal(R"({"a": [1, 2]})", "a.b"), "expected 'b' among the members of an object"));
  CHECK(contains(refusal(R"({"a": [1]})", "a"), "expected a list of at least two quantiles"));
  CHECK(contains(refusal(R"({"a": {"p5": 1, "x": 2}})", "a"), "p0 to p100; it has p5, x"));
  CHECK(contains(refusal(R"({"a": [1, "2"]})", "a"), "got \"2\""));
  CHECK(contains(refusal(R"({"a": [-1, 2]})", "a"), "got -1"));
  CHECK(contains(refusal(R"({"a": [2, 1]})", "a"), "never decrease"));
  CHECK(contains(refusal_of([] { read_quantile_grid("/nonexistent/q.json", ""); }),
                 "/nonexistent/q.json: cannot be opened"));
}

TEST_CASE("quantile grid: drawn from the grids of real traces, lengths have their medians and tails") {
  const auto stats = troupe::find_test_data("stats/quantile_grids.json");
  const auto lmsys = troupe::find_test_data("lengths/lmsys_output_length_quantiles.json");
  if (!stats || !lmsys) return;
  struct Case {
    std::string file, key;
    double median, p90;
  };
  for (const auto& c :
       {Case{stats->string(), "azure_conv.input", 1020, 2734},
        Case{stats->string(), "azure_conv.output", 129, 424}, Case{lmsys->string(), "all", 140, 397}}) {
    DistributionSettings settings;
    settings.kind = DistributionSettings::Kind::kQuantiles;
    settings.file = c.file;
    settings.key = c.key;
    const Distribution distribution(settings);
    RandomSource random(3);
    std::vector<double> samples;
    for (int i = 0; i < 50001; ++i) samples.push_back(distribution.sample_count(random));
    std::sort(samples.begin(), samples.end());
    CHECK(samples[25000] == doctest::Approx(c.median).epsilon(0.02));
    CHECK(samples[45000] == doctest::Approx(c.p90).epsilon(0.02));
  }
}

}  // namespace quantile_grid_test
