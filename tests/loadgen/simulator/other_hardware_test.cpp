// SPDX-License-Identifier: Apache-2.0
#include "loadgen/simulator/other_hardware.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

#include "tests/loadgen/simulator/simulated_traffic.hpp"

using namespace troupe;
using namespace troupe::loadgen;

TEST_CASE("other hardware: each part of the time follows what binds it") {
  auto measured = plain_profile();
  measured.device = "cuda:0, NVIDIA H100 80GB HBM3, bf16";
  measured.iteration = {
      .fixed = 480, .knots = {1}, .slopes = {10}, .per_decode_key = 48, .per_prefill_pair = 7};
  measured.serving.load_from_host = {.fixed = 5, .per_page = 100};
  const auto& h100 = hardware_from_name("h100");
  const auto other = on_other_hardware(measured, h100, hardware_from_name("h200"), 1);
  CHECK(other.profile.iteration.fixed == doctest::Approx(335));
  CHECK(other.profile.iteration.per_decode_key == doctest::Approx(33.5));
  CHECK(other.profile.iteration.slopes[0] == doctest::Approx(10));  // computes no faster
  CHECK(other.profile.serving.load_from_host.per_page == doctest::Approx(100));
  CHECK(other.profile.device == "h200 (assumed from cuda:0, NVIDIA H100 80GB HBM3, bf16)");
  CHECK(other.assumptions.front() == "h200 for h100, by their data sheets; nothing of it was measured");
  CHECK(profile_problem(other.profile).empty());

  const auto two = on_other_hardware(measured, h100, h100, 2);
  CHECK(two.profile.iteration.fixed == doctest::Approx(240));
  CHECK(two.profile.iteration.per_prefill_pair == doctest::Approx(3.5));
  CHECK(two.profile.device == "2 x h100 (assumed from cuda:0, NVIDIA H100 80GB HBM3, bf16)");
}

TEST_CASE("other hardware: a profile of cells is moved cell by cell") {
  auto measured = plain_profile();
  measured.device = "NVIDIA H100";
  measured.cells = {.graphs = GraphKind::kEncodeDecode,
                    .num_rows = 64,
                    .types = {{.name = "encode", .cost = fixed_cost(480)},
                              {.name = "decode", .cost = {.fixed = 240, .knots = {1}, .slopes = {10}}}}};
  const auto other = on_other_hardware(measured, hardware_from_name("h100"), hardware_from_name("a100"), 1);
  REQUIRE(other.profile.cells);
  const auto& types = other.profile.cells->types;
  CHECK(types[0].cost.fixed == doctest::Approx(480 * 3.35 / 2.039));
  CHECK(types[1].cost.fixed == doctest::Approx(240 * 3.35 / 2.039));
  CHECK(types[1].cost.slopes[0] == doctest::Approx(10 * 989.0 / 312));
}

TEST_CASE("other hardware: a profile of another device than is said is refused") {
  auto measured = plain_profile();
  measured.device = "cpu, bf16, 2 threads";
  const auto& h100 = hardware_from_name("h100");
  CHECK_THROWS_WITH_AS(on_other_hardware(measured, h100, hardware_from_name("h200"), 1),
                       "--measured-on: the profile is of the device 'cpu, bf16, 2 threads', which is no h100",
                       std::runtime_error);
  measured.device = "cuda:0, NVIDIA H200, bf16";
  CHECK_THROWS_AS(on_other_hardware(measured, h100, h100, 2), std::runtime_error);
}

TEST_CASE("other hardware: an unknown device is refused by name") {
  CHECK_THROWS_WITH_AS(hardware_from_name("h300"), "expected a device (a100, h100, h200, l40s), got 'h300'",
                       std::runtime_error);
}
