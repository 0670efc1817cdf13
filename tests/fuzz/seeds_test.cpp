// SPDX-License-Identifier: Apache-2.0
// All seeds of all fuzz targets, cases that were found and mended among them, and random
// changes of them, in every build; under AddressSanitizer that is a short fuzzing.
#include "tests/fuzz/fuzz_targets.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/fuzz/mutation.hpp"
#include "tests/fuzz/property.hpp"
#include "tests/support/file_text.hpp"

namespace troupe::fuzz {
namespace {

std::filesystem::path seed_folder() {
  return std::filesystem::path(TROUPE_SOURCE_DIR) / "tests" / "fuzz" / "seeds";
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

bool cuts_at_every_split(std::string_view target) {
  return target == "http_request" || target == "load_answer" || target.starts_with("sse") ||
         target.starts_with("wire");
}

// Empty: all is well.
std::string problem_of(const FuzzTarget& target, const std::string& bytes) {
  try {
    target.run(bytes);
  } catch (const PropertyBroken& broken) {
    return "a property is broken: " + broken.sentence;
  } catch (const std::exception& error) {
    return std::string("it threw: ") + error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("fuzz targets: none fails on its seeds, nor on their halves") {
  for (const FuzzTarget& target : kFuzzTargets) {
    const auto files = files_in(seed_folder() / target.name);
    CHECK_MESSAGE(!files.empty(), target.name, " has no seeds");
    for (const auto& file : files) {
      const std::string bytes = test::file_text(file);
      INFO(file.string());
      CHECK(problem_of(target, bytes) == "");
      CHECK(problem_of(target, bytes.substr(0, bytes.size() / 2)) == "");
    }
  }
}

// Inputs of the one that fails are printed: as a file they become a seed.
TEST_CASE("fuzz targets: none fails on random changes of its seeds") {
  constexpr std::size_t kRounds = 300;
  for (const FuzzTarget& target : kFuzzTargets) {
    std::vector<std::string> seeds;
    for (const auto& file : files_in(seed_folder() / target.name)) seeds.push_back(test::file_text(file));
    REQUIRE_FALSE(seeds.empty());
    for (std::size_t round = 0; round < kRounds; ++round) {
      MutationRandom random(round);
      const std::string& seed = seeds[random.below(seeds.size())];
      const std::string bytes = mutated(seed, seeds[random.below(seeds.size())], random);
      const std::string problem = problem_of(target, bytes);
      CHECK_MESSAGE(problem.empty(), target.name, ", round ", round, ": ", problem, "; the input:\n", bytes);
    }
  }
}

TEST_CASE("fuzz targets: a change of a seed differs from it and is the same again") {
  const std::string seed = "{\"number\": 12, \"text\": \"abc\"}";
  std::size_t num_changed = 0;
  for (std::size_t round = 0; round < 100; ++round) {
    MutationRandom random(round), again(round);
    const std::string bytes = mutated(seed, "[other]", random);
    CHECK(bytes == mutated(seed, "[other]", again));
    if (bytes != seed) ++num_changed;
  }
  CHECK(num_changed > 90);
  MutationRandom random(1);
  CHECK(mutated(std::string(2 * kMaxMutatedBytes, 'x'), "", random).size() == kMaxMutatedBytes);
}

TEST_CASE("fuzz targets: none fails on what is nested without end") {
  constexpr int kDepth = 20'000;
  for (const std::string head :
       {"", "{\"error\":", "{\"timestamp\":", "[{\"conversations\":", "x = ", "{{ "}) {
    for (const std::string step : {"[", "{\"a\":", "{\"error\":", "("}) {
      std::string bytes = head;
      for (int i = 0; i < kDepth; ++i) bytes += step;
      CAPTURE(head);
      CAPTURE(step);
      for (const FuzzTarget& target : kFuzzTargets) {
        if (cuts_at_every_split(target.name)) continue;  // takes long
        CHECK_MESSAGE(problem_of(target, bytes) == "", target.name);
      }
    }
  }
}

TEST_CASE("fuzz targets: each folder of seeds is a target's, and all together are small") {
  constexpr std::uintmax_t kMaxBytes = 200'000;
  std::uintmax_t num_bytes = 0;
  for (const auto& folder : files_in(seed_folder())) {
    const auto is_its = [&](const FuzzTarget& target) { return target.name == folder.filename().string(); };
    CHECK_MESSAGE(std::any_of(kFuzzTargets.begin(), kFuzzTargets.end(), is_its), folder.string());
    for (const auto& file : files_in(folder)) num_bytes += std::filesystem::file_size(file);
  }
  CHECK(num_bytes <= kMaxBytes);
}

TEST_CASE("fuzz targets: a broken property is reported") {
  constexpr FuzzTarget kBroken{"broken",
                               [](std::string_view bytes) { require(bytes.empty(), "bytes came"); }};
  CHECK(problem_of(kBroken, "x") == "a property is broken: bytes came");
  CHECK(problem_of(kBroken, "") == "");
}

}  // namespace troupe::fuzz
