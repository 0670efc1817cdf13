// SPDX-License-Identifier: Apache-2.0
#include "telemetry/json_depth.hpp"

#include <string>

#include <doctest/doctest.h>

using namespace troupe;

TEST_CASE("json depth: lists and objects count, those in strings do not") {
  CHECK_FALSE(is_nested_deeper(R"({"a":[1,{"b":[]}]})", 4));
  CHECK(is_nested_deeper(R"({"a":[1,{"b":[]}]})", 3));
  CHECK_FALSE(is_nested_deeper(R"(["[[[[\"[[[["])", 1));
  CHECK_FALSE(is_nested_deeper("[][][]", 1));
  CHECK_FALSE(is_nested_deeper("", 0));
}

TEST_CASE("json depth: what is no JSON has a depth, too") {
  CHECK_FALSE(is_nested_deeper("]]]]", 0));
  CHECK(is_nested_deeper("]]]]{{", 1));
  CHECK_FALSE(is_nested_deeper("\"[[[[\\", 0));
  CHECK(is_nested_deeper(std::string(1'000'000, '[')));
}
