// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload_toml.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

using namespace troupe::loadgen;

namespace {

WorkloadSettings read(const std::string& text) {
  return read_workload(toml::parse(text, std::string("x.toml")), "/base");
}

std::string refusal(const std::string& text) {
  try {
    read(text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("workload TOML: an empty file is a thousand Poisson requests of 128 in, 128 out") {
  const auto settings = read("");
  CHECK(settings.max_conversations == 1000);
  CHECK(settings.arrivals.kind == ArrivalSettings::Kind::kPoisson);
  REQUIRE(settings.classes.size() == 1);
  CHECK(settings.classes[0].prompt_tokens.mean == 128);
}

TEST_CASE("workload TOML: an unknown key is refused with file, line and the nearest known key") {
  CHECK(refusal("[arrivals]\nkind = \"poisson\"\nrat = 4\n") ==
        "x.toml:3: unknown key 'arrivals.rat'; did you mean 'rate'?");
}

TEST_CASE("workload TOML: a value out of range is refused with its key, what was expected and what came") {
  CHECK(refusal("[arrivals]\nrate = -3\n") == "x.toml: arrivals.rate: expected a number above 0, got -3");
}
