// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/embed_sinusoids.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "gpu/cpu/kernels/embed_sinusoids.hpp"
#include "tests/gpu/operators/backends.hpp"

using namespace troupe;

namespace {

constexpr std::size_t kVocabulary = 10, kWidth = 18;
constexpr float kScale = 2.5F;
const std::vector<std::int32_t> kTokenIds = {3, 0, 9, -1, 10, 3};
const std::vector<std::uint32_t> kPositions = {0, 1, 2, 0, 1, 400};

std::vector<float> run(const OperatorBackend& backend, const std::vector<float>& words,
                       bool ends_at_slowest) {
  CpuBuffer stored(backend.type, words);
  std::vector<float> x(kTokenIds.size() * kWidth, 7.0F);
  const EmbedSinusoidsArguments arguments{.words = {stored.data(), backend.type, kVocabulary},
                                          .token_ids = kTokenIds,
                                          .token_positions = kPositions,
                                          .scale = kScale,
                                          .first_position = 2,
                                          .ends_at_slowest = ends_at_slowest,
                                          .x = x.data(),
                                          .width = kWidth,
                                          .isa = backend.isa};
  run_tasks(arguments, embed_sinusoids_num_tasks(arguments), embed_sinusoids_run_task);
  return x;
}

double wave(std::size_t column, double position, bool ends_at_slowest) {
  const std::size_t half = kWidth / 2;
  const double steps = ends_at_slowest ? half - 1.0 : half;
  const double angle = position / std::pow(10000.0, static_cast<double>(column % half) / steps);
  return column < half ? std::sin(angle) : std::cos(angle);
}

}  // namespace

TEST_CASE("embed_sinusoids: a word's row, scaled, and sine and cosine of its position's waves") {
  on_every_backend([](const OperatorBackend& backend) {
    if (backend.is_gpu) return;
    const auto words = as_stored(backend.type, random_values(kVocabulary * kWidth, 1));
    for (const bool ends_at_slowest : {false, true}) {
      const auto x = run(backend, words, ends_at_slowest);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t token = i / kWidth;
        const auto id = static_cast<std::size_t>(kTokenIds[token]);
        if (kTokenIds[token] < 0 || id >= kVocabulary) {
          CHECK(x[i] == 0.0F);
          continue;
        }
        const double expected = double{kScale} * words[id * kWidth + i % kWidth] +
                                wave(i % kWidth, 2.0 + kPositions[token], ends_at_slowest);
        CHECK(std::abs(x[i] - expected) < 1e-6);
      }
    }
  });
}
