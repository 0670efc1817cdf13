// SPDX-License-Identifier: Apache-2.0
#include "telemetry/shipped_path.hpp"

#include <fstream>

#include <doctest/doctest.h>

#include "tests/support/temporary_directory.hpp"

using namespace troupe;

namespace fs = std::filesystem;

TEST_CASE("shipped path: the nearest folder above that has it") {
  const test::TemporaryDirectory place;
  const fs::path deep = place.path() / "build" / "app";
  fs::create_directories(deep);
  fs::create_directories(place.path() / "models" / "demo");
  CHECK(find_above(deep, "models/demo") == place.path() / "models/demo");
  fs::create_directories(place.path() / "build" / "models" / "demo");
  CHECK(find_above(deep, "models/demo") == place.path() / "build/models/demo");
  CHECK(find_above(deep, "models/other-than-any") == "");
}

TEST_CASE("shipped path: the current directory's comes first, and what is nowhere stays as it was said") {
  const test::TemporaryDirectory place;
  std::ofstream(place.path() / "here").put('x');
  const fs::path before = fs::current_path();
  fs::current_path(place.path());
  const fs::path here = shipped_path("here"), nowhere = shipped_path("nowhere/at/all");
  const fs::path test_program = fs::read_symlink("/proc/self/exe").filename();
  const fs::path beside_program = shipped_path(test_program);
  fs::current_path(before);
  CHECK(here == "here");
  CHECK(nowhere == "nowhere/at/all");
  CHECK(beside_program == fs::read_symlink("/proc/self/exe"));
}
