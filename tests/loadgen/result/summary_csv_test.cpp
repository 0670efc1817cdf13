// SPDX-License-Identifier: Apache-2.0
#include "loadgen/result/summary_csv.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace troupe::loadgen {
namespace {

TEST_CASE("summary_csv: a line has as many fields as the header") {
  RunResult result;
  result.settings = {{"server", "cache on"}, {"seed", "7"}};
  const auto header = summary_csv_header();
  const auto line = summary_csv_line(result, summarize(result));
  CHECK(std::count(header.begin(), header.end(), ',') == std::count(line.begin(), line.end(), ','));
  CHECK(header.starts_with("name,server,users,seed,"));
  CHECK(line.starts_with(",cache on,,7,"));
  CHECK(header.ends_with("max_client_delay_ms\n"));
  CHECK(std::count(line.begin(), line.end(), '\n') == 1);
}

TEST_CASE("summary_csv: commas, quotes and line breaks of names are quoted") {
  RunResult result;
  result.name = "a,\"b\"\nc";
  CHECK(summary_csv_line(result, summarize(result)).starts_with("\"a,\"\"b\"\"\nc\","));
}

}  // namespace
}  // namespace troupe::loadgen
