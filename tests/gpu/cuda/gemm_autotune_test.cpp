// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/gemm/gemm_autotune.hpp"

#include <doctest/doctest.h>

#include <map>

using namespace troupe;
using namespace troupe::cuda;
using namespace std::chrono_literals;

namespace {

GemmShape shape_of(std::uint32_t num_tokens) {
  return {.num_tokens = num_tokens, .num_outputs = 64, .depth = 64};
}

// Candidates tell by what they run which time is theirs; a measurement takes a second.
class Laboratory {
 public:
  // A negative time: it cannot run.
  GemmCandidate candidate(GemmKernel kernel, double microseconds) {
    return {.choice = {.kernel = kernel},
            .run = [this, microseconds](std::size_t) { microseconds_ = microseconds; }};
  }

  GemmClock clock() {
    return [this](const GemmRun& run) -> std::optional<double> {
      run(0);
      now_ += 1s;
      if (microseconds_ < 0) return std::nullopt;
      return microseconds_;
    };
  }

  // Two ways for every shape; the second is faster.
  GemmAutotune tuning(std::chrono::seconds budget) {
    return {.candidates =
                [this](const GemmShape& shape) {
                  measured.push_back(shape.num_tokens);
                  return std::vector{candidate(GemmKernel::kCublasLt, 2.0 * shape.num_tokens),
                                     candidate(GemmKernel::kFewTokens, shape.num_tokens)};
                },
            .clock = clock(),
            .now = [this] { return now_; },
            .budget = budget};
  }

  std::vector<std::uint32_t> measured;

 private:
  double microseconds_ = 0.0;
  std::chrono::steady_clock::time_point now_{};
};

}  // namespace

TEST_CASE("product tuning: the fastest candidate is chosen, with its time") {
  Laboratory laboratory;
  const std::vector candidates{laboratory.candidate(GemmKernel::kCublasLt, 9.0),
                               laboratory.candidate(GemmKernel::kFewTokens, 7.5),
                               laboratory.candidate(GemmKernel::kCublasLt, 8.0)};
  const auto choice = choose_gemm(candidates, laboratory.clock());
  REQUIRE(choice);
  CHECK(choice->kernel == GemmKernel::kFewTokens);
  CHECK(choice->microseconds == 7.5);
}

TEST_CASE("product tuning: among equals the first is chosen, and what cannot run never") {
  Laboratory laboratory;
  std::vector candidates{laboratory.candidate(GemmKernel::kCublasLt, -1.0),
                         laboratory.candidate(GemmKernel::kFewTokens, 3.0),
                         laboratory.candidate(GemmKernel::kCublasLt, 3.0)};
  CHECK(choose_gemm(candidates, laboratory.clock())->kernel == GemmKernel::kFewTokens);
  candidates.resize(1);
  CHECK_FALSE(choose_gemm(candidates, laboratory.clock()));
  CHECK_FALSE(choose_gemm({}, laboratory.clock()));
}

TEST_CASE("product tuning: important shapes come first, and time ends it") {
  Laboratory laboratory;
  GemmChoices choices;
  const std::vector<GemmTask> tasks{
      {shape_of(1), 1.0}, {shape_of(64), 3.0}, {shape_of(8), 2.0}, {shape_of(2), 0.5}};
  const auto first = autotune_gemms(tasks, laboratory.tuning(3s), choices);
  CHECK(laboratory.measured == std::vector<std::uint32_t>{64, 8});
  CHECK(first.num_measured == 2);
  CHECK(first.num_left == 2);
  CHECK(choices.size() == 2);

  const auto second = autotune_gemms(tasks, laboratory.tuning(30s), choices);
  CHECK(laboratory.measured == std::vector<std::uint32_t>{64, 8, 1, 2});
  CHECK(second.num_known == 2);
  CHECK(second.num_measured == 2);
  CHECK(second.num_left == 0);
  CHECK(choices.at(shape_of(64)).kernel == GemmKernel::kFewTokens);
  CHECK(choices.at(shape_of(64)).microseconds == 64.0);
}

TEST_CASE("product tuning: a shape is measured with the tokens of its bin, once") {
  Laboratory laboratory;
  GemmChoices choices;
  const auto report =
      autotune_gemms({{shape_of(65), 1.0}, {shape_of(90), 1.0}}, laboratory.tuning(30s), choices);
  CHECK(laboratory.measured == std::vector<std::uint32_t>{96});
  CHECK(report.num_measured == 1);
  CHECK(report.num_known == 1);
  CHECK(choices.contains(shape_of(96)));
}

TEST_CASE("product tuning: what nothing can compute is left") {
  Laboratory laboratory;
  auto tuning = laboratory.tuning(30s);
  tuning.candidates = [](const GemmShape&) { return std::vector<GemmCandidate>{}; };
  GemmChoices choices;
  CHECK(autotune_gemms({{shape_of(1), 1.0}}, tuning, choices).num_left == 1);
  CHECK(choices.empty());
}
