// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/sample.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/batch_builder.hpp"
#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

namespace {

const float kInf = std::numeric_limits<float>::infinity();

std::int32_t sample_one(const std::vector<float>& logits, const SampleRow& row, Isa isa = best_isa()) {
  std::int32_t id = -2;
  const SampleArguments arguments{.logits = logits.data(),
                                  .logits_stride = logits.size(),
                                  .vocabulary = logits.size(),
                                  .rows = {&row, 1},
                                  .token_ids = &id,
                                  .isa = isa};
  sample_run_task(arguments, 0);
  return id;
}

// The distribution as defined, in f64, by full sorting.
std::vector<double> exact_distribution(const std::vector<float>& logits, const SampleRow& row) {
  const auto& p = row.parameters;
  std::vector<double> probability(logits.size());
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = 0; i < logits.size(); ++i)
    probability[i] = std::exp(double{logits[i]} / p.temperature);
  for (const auto id : row.suppressed) probability[static_cast<std::size_t>(id)] = 0.0;
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return probability[a] > probability[b]; });
  if (p.top_k > 0) {
    for (std::size_t i = static_cast<std::size_t>(p.top_k); i < order.size(); ++i)
      probability[order[i]] = 0.0;
  }
  const double total = std::accumulate(probability.begin(), probability.end(), 0.0);
  double before = 0.0;
  for (const auto i : order) {
    const double share = probability[i] / total;
    if (before >= p.top_p) probability[i] = 0.0;
    before += share;
  }
  for (auto& value : probability) {
    if (value < p.min_p * probability[order[0]]) value = 0.0;
  }
  const double kept = std::accumulate(probability.begin(), probability.end(), 0.0);
  for (auto& value : probability) value /= kept;
  return probability;
}

struct ChiSquare {
  double value = 0.0, limit = 0.0;
};

// Over ids expected at least 5 times, against a 1e-6 quantile (Wilson-Hilferty); ids of probability 0 must
// never be drawn.
ChiSquare chi_square(const std::vector<double>& exact, const std::vector<int>& counts) {
  const double num_draws = std::accumulate(counts.begin(), counts.end(), 0);
  double value = 0.0, rest_expected = 0.0, rest_seen = 0.0;
  int bins = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double expected = exact[i] * num_draws;
    if (exact[i] == 0.0) CHECK(counts[i] == 0);
    if (expected < 5.0) {
      rest_expected += expected;
      rest_seen += counts[i];
      continue;
    }
    value += (counts[i] - expected) * (counts[i] - expected) / expected;
    ++bins;
  }
  if (rest_expected >= 5.0) {
    value += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected;
    ++bins;
  }
  const double freedom = std::max(1, bins - 1);
  const double term = 2.0 / (9.0 * freedom);
  return {.value = value, .limit = freedom * std::pow(1.0 - term + 4.75 * std::sqrt(term), 3)};
}

constexpr int kNumDraws = 20000;

void check_distribution(const std::vector<float>& logits, SampleRow row) {
  std::vector<int> counts(logits.size());
  for (int i = 0; i < kNumDraws; ++i) {
    row.position = static_cast<std::uint64_t>(i);
    const auto id = sample_one(logits, row);
    REQUIRE(id >= 0);
    ++counts[static_cast<std::size_t>(id)];
  }
  const ChiSquare found = chi_square(exact_distribution(logits, row), counts);
  CHECK(found.value < found.limit);
}

// As the core has free tokens drawn: of all, and again of those in the mask if the first is not in it.
std::vector<int> counts_of_free_draws(const std::vector<float>& logits, SampleRow row, const TokenMask& mask,
                                      std::uint64_t change_of_seed) {
  std::vector<int> counts(logits.size());
  for (int i = 0; i < kNumDraws; ++i) {
    row.position = static_cast<std::uint64_t>(i);
    auto id = sample_one(logits, row);
    if (!has_token(mask, static_cast<std::size_t>(id))) {
      SampleRow again = row;
      again.allowed = mask;
      again.parameters.seed ^= change_of_seed;
      id = sample_one(logits, again);
    }
    REQUIRE(id >= 0);
    ++counts[static_cast<std::size_t>(id)];
  }
  return counts;
}

// Of all, cut as the parameters say, where that is in the mask; the rest as the masked logits are cut.
std::vector<double> distribution_of_free_draws(const std::vector<float>& logits, const SampleRow& row,
                                               const TokenMask& mask) {
  auto masked = logits;
  for (std::size_t id = 0; id < logits.size(); ++id)
    if (!has_token(mask, id)) masked[id] = -kInf;
  auto exact = exact_distribution(logits, row);
  const auto second = exact_distribution(masked, row);
  double refused = 0.0;
  for (std::size_t id = 0; id < exact.size(); ++id)
    if (!has_token(mask, id)) refused += std::exchange(exact[id], 0.0);
  for (std::size_t id = 0; id < exact.size(); ++id) exact[id] += refused * second[id];
  return exact;
}

}  // namespace

TEST_CASE("philox: the known answers of its authors") {
  using Words = std::array<std::uint32_t, 4>;
  CHECK(philox4x32_10({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const std::uint32_t f = 0xffffffff;
  CHECK(philox4x32_10({f, f, f, f}, {f, f}) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("sample: temperature 0 is the arg max, ties to the lowest id") {
  for (const Isa isa : supported_isas()) {
    SampleRow row{.parameters = {.temperature = 0.0F}};
    CHECK(sample_one({1, 5, 2, 5, 5}, row, isa) == 1);
    CHECK(sample_one({7}, row, isa) == 0);
    auto logits = random_values(1003, 3);
    logits[1002] = 50.0F;
    CHECK(sample_one(logits, row, isa) == 1002);
    const std::vector<std::int32_t> suppressed{1002, -5, 4000};
    row.suppressed = suppressed;
    const auto expected = std::max_element(logits.begin(), logits.end() - 1) - logits.begin();
    CHECK(sample_one(logits, row, isa) == expected);
  }
}

TEST_CASE("sample: top_k 1 and a tiny top_p are the arg max, ties included") {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    auto logits = random_values(777, seed);
    const auto best = std::max_element(logits.begin(), logits.end());
    if (best - logits.begin() < 700) logits[776] = *best;
    const auto expected = best - logits.begin();
    CHECK(sample_one(logits, {.parameters = {.top_k = 1, .seed = seed}}) == expected);
    CHECK(sample_one(logits, {.parameters = {.top_p = 1e-6F, .seed = seed}}) == expected);
    CHECK(sample_one(logits, {.parameters = {.top_p = 0.0F, .seed = seed}}) == expected);
    CHECK(sample_one(logits,
                     {.parameters = {.temperature = 1e-30F, .min_p = 1.0F, .top_k = 1, .seed = seed}}) ==
          expected);
  }
}

TEST_CASE("sample: draws follow the exact distribution") {
  const auto logits = random_values(60, 4, 2.0F);
  const std::vector<std::int32_t> suppressed{0, 7, 31};
  check_distribution(logits, {.parameters = {.seed = 1}});
  check_distribution(logits, {.parameters = {.temperature = 0.5F, .seed = 2}});
  check_distribution(logits, {.parameters = {.temperature = 2.0F, .top_k = 9, .seed = 3}});
  check_distribution(logits, {.parameters = {.top_p = 0.8F, .seed = 4}});
  check_distribution(logits, {.parameters = {.min_p = 0.05F, .seed = 5}});
  check_distribution(
      logits, {.parameters = {.temperature = 1.5F, .top_p = 0.9F, .min_p = 0.02F, .top_k = 30, .seed = 6}});
  check_distribution(logits, {.parameters = {.seed = 7}, .suppressed = suppressed});
  check_distribution(logits, {.parameters = {.top_p = 0.9F, .seed = 8}, .suppressed = suppressed});
  check_distribution(random_values(1000, 5, 1.0F), {.parameters = {.top_p = 0.95F, .seed = 9}});
  check_distribution(random_values(1000, 6, 1.0F), {.parameters = {.seed = 10}});
}

TEST_CASE("sample: a suppressed id is never drawn") {
  std::vector<float> logits(64, 0.0F);
  logits[5] = 30.0F;
  const std::vector<std::int32_t> suppressed{5};
  for (std::uint64_t position = 0; position < 500; ++position) {
    SampleRow row{.parameters = {.seed = 3}, .position = position, .suppressed = suppressed};
    CHECK(sample_one(logits, row) != 5);
    row.parameters.top_k = 2;
    CHECK(sample_one(logits, row) != 5);
  }
}

TEST_CASE("sample: only what the mask allows is drawn, by its own shares") {
  const auto logits = random_values(1003, 21, 2.0F);
  const auto is_scattered = [](std::size_t id) { return id % 7 == 3 || id >= 1000; };
  const auto is_in_stretches = [](std::size_t id) {
    return (id >= 320 && id < 700) || id == 990 || id > 1000;
  };
  for (const auto& is_allowed :
       std::vector<std::function<bool(std::size_t)>>{is_scattered, is_in_stretches}) {
    TokenMask mask(mask_words(logits.size()));
    auto masked = logits;
    for (std::size_t id = 0; id < logits.size(); ++id) {
      if (is_allowed(id)) {
        mask[id / 32] |= 1U << (id % 32);
      } else {
        masked[id] = -kInf;
      }
    }
    mask.back() |= ~std::uint32_t{0} << (logits.size() % 32);  // ids that there are none of
    for (std::uint64_t position = 0; position < 200; ++position) {
      const SamplingParameters parameters{.temperature = position % 3 == 0 ? 0.0F : 1.0F,
                                          .top_p = position % 2 == 0 ? 1.0F : 0.8F,
                                          .seed = 5};
      const auto drawn =
          sample_one(logits, {.parameters = parameters, .position = position, .allowed = mask});
      CHECK(has_token(mask, static_cast<std::size_t>(drawn)));
      CHECK(drawn == sample_one(masked, {.parameters = parameters, .position = position}));
    }
  }
  const TokenMask nothing(mask_words(logits.size()));
  CHECK(sample_one(logits, {.parameters = {}, .allowed = nothing}) == kInvalidLogits);
  const TokenMask too_short{1U << 9};  // what it doesn't name is not allowed
  CHECK(sample_one(logits, {.parameters = {}, .allowed = too_short}) == 9);
}

TEST_CASE("sample: free draws and second ones give what decision 0019 says") {
  const auto logits = random_values(60, 4, 2.0F);
  TokenMask mask(mask_words(logits.size()));
  auto masked = logits;
  for (std::size_t id = 0; id < logits.size(); ++id)
    if (id % 3 != 1)
      mask[id / 32] |= 1U << (id % 32);
    else
      masked[id] = -kInf;
  for (const SamplingParameters& parameters :
       {SamplingParameters{.seed = 1}, SamplingParameters{.top_p = 0.8F, .seed = 2},
        SamplingParameters{.top_k = 9, .seed = 3}, SamplingParameters{.min_p = 0.05F, .seed = 4}}) {
    CAPTURE(parameters.seed);
    const SampleRow row{.parameters = parameters};
    const auto counts = counts_of_free_draws(logits, row, mask, kSeedOfSecondDraws);
    const ChiSquare found = chi_square(distribution_of_free_draws(logits, row, mask), counts);
    CHECK(found.value < found.limit);
  }
  // What is drawn of all tokens is the masked distribution itself.
  const SampleRow row{.parameters = {.seed = 5}};
  const auto exact = exact_distribution(masked, row);
  const ChiSquare found = chi_square(exact, counts_of_free_draws(logits, row, mask, kSeedOfSecondDraws));
  CHECK(found.value < found.limit);
  // With the same number again it is not.
  const ChiSquare with_same = chi_square(exact, counts_of_free_draws(logits, row, mask, 0));
  CHECK(with_same.value > 10 * with_same.limit);
}

TEST_CASE("sample: a bias is added to the logit, and what is impossible stays so") {
  std::vector<float> logits = random_values(60, 22, 2.0F);
  logits[7] = -kInf;
  const std::vector<TokenBias> biased{{.id = 3, .bias = 2.5F},
                                      {.id = 7, .bias = 100.0F},
                                      {.id = 9, .bias = -1.0F},
                                      {.id = 60, .bias = 9.0F},
                                      {.id = -1, .bias = 9.0F}};
  auto expected = logits;
  expected[3] += 2.5F;
  expected[9] -= 1.0F;
  for (std::uint64_t position = 0; position < 200; ++position) {
    const SamplingParameters parameters{.top_p = 0.9F, .seed = 6};
    CHECK(sample_one(logits, {.parameters = parameters, .position = position, .biased = biased}) ==
          sample_one(expected, {.parameters = parameters, .position = position}));
  }
  const std::vector<TokenBias> highest{{.id = 11, .bias = std::numeric_limits<float>::max()}};
  logits[11] = 3e38F;
  CHECK(sample_one(logits, {.parameters = {}, .biased = highest}) == 11);  // and no infinity
}

TEST_CASE("sample: a draw depends on seed and position, not on the other rows") {
  const std::size_t vocabulary = 500;
  const auto logits = random_values(32 * vocabulary, 2);
  std::vector<SampleRow> rows(32);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = {.parameters = {.top_p = i % 2 ? 1.0F : 0.9F, .seed = i}, .position = 100 + i};
  }
  std::vector<std::int32_t> ids(32);
  const SampleArguments arguments{.logits = logits.data(),
                                  .logits_stride = vocabulary,
                                  .vocabulary = vocabulary,
                                  .rows = rows,
                                  .token_ids = ids.data()};
  REQUIRE(sample_num_tasks(arguments) == 32);
  for (std::size_t task = 32; task-- > 0;) sample_run_task(arguments, task);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::vector<float> alone(logits.begin() + i * vocabulary, logits.begin() + (i + 1) * vocabulary);
    CHECK(sample_one(alone, rows[i]) == ids[i]);
  }
  CHECK(uniform_draw(1, 2) == uniform_draw(1, 2));
  CHECK(uniform_draw(1, 2) != uniform_draw(2, 1));
}

TEST_CASE("sample: NaN, +Inf or nothing to draw is an error, -Inf a token that cannot be drawn") {
  const std::vector<std::int32_t> both{0, 1};
  for (const Isa isa : supported_isas()) {
    for (const float temperature : {0.0F, 1.0F}) {
      for (std::size_t bad = 0; bad < 40; ++bad) {
        SampleRow row{.parameters = {.temperature = temperature}};
        std::vector<float> logits(40, 1.0F);
        logits[bad] = std::nanf("");
        CHECK(sample_one(logits, row, isa) == kInvalidLogits);
        logits[bad] = kInf;
        CHECK(sample_one(logits, row, isa) == kInvalidLogits);
        logits[bad] = -kInf;
        const auto id = sample_one(logits, row, isa);
        CHECK(id >= 0);
        CHECK(id != static_cast<std::int32_t>(bad));
      }
      SampleRow row{.parameters = {.temperature = temperature}, .suppressed = both};
      CHECK(sample_one({1.0F, 2.0F}, row, isa) == kInvalidLogits);
      CHECK(sample_one({-kInf, -kInf}, {.parameters = {.temperature = temperature}}, isa) == kInvalidLogits);
    }
  }
}

namespace {

std::vector<float> penalized(const SamplingParameters& parameters, std::vector<float> logits,
                             const std::vector<std::uint32_t>& num_generated) {
  for (std::size_t i = 0; i < logits.size(); ++i)
    logits[i] = penalized_logit(parameters, logits[i], num_generated[i]);
  return logits;
}

TokenLogprobs logprobs_of(const std::vector<float>& logits, const SampleRow& row, Isa isa = best_isa()) {
  std::int32_t id = -2;
  TokenLogprobs logprobs;
  const SampleArguments arguments{.logits = logits.data(),
                                  .logits_stride = logits.size(),
                                  .vocabulary = logits.size(),
                                  .rows = {&row, 1},
                                  .token_ids = &id,
                                  .logprobs = &logprobs,
                                  .isa = isa};
  sample_run_task(arguments, 0);
  return logprobs;
}

}  // namespace

TEST_CASE("sample: frequency and presence penalties are OpenAI's formula") {
  // mu[j] - c[j] * alpha_frequency - float(c[j] > 0) * alpha_presence
  const SamplingParameters parameters{.frequency_penalty = 0.5F, .presence_penalty = 0.25F};
  CHECK(penalized(parameters, {1.0F, 1.0F, -1.0F, 2.0F}, {0, 1, 2, 4}) ==
        std::vector<float>{1.0F, 0.25F, -2.25F, -0.25F});
  const SamplingParameters bonus{.frequency_penalty = -2.0F, .presence_penalty = -1.0F};
  CHECK(penalized(bonus, {0.0F, 0.0F}, {0, 3}) == std::vector<float>{0.0F, 7.0F});
}

TEST_CASE("sample: the repetition penalty divides what is positive and multiplies the rest") {
  const SamplingParameters parameters{.repetition_penalty = 2.0F};
  CHECK(penalized(parameters, {3.0F, -3.0F, 0.0F}, {0, 0, 5}) == std::vector<float>{1.5F, -6.0F, 0.0F});
  const SamplingParameters all{
      .repetition_penalty = 2.0F, .frequency_penalty = 1.0F, .presence_penalty = 0.5F};
  CHECK(penalized(all, {3.0F}, {2}) == std::vector<float>{-1.0F});  // it comes first
}

TEST_CASE("sample: penalized logits stay numbers, and what is impossible stays so") {
  const SamplingParameters extreme{.repetition_penalty = 1e-38F, .frequency_penalty = -2.0F};
  const auto logits = penalized(extreme, {1e30F, -kInf, -1e30F}, {4000000000U, 1, 1});
  CHECK(std::isfinite(logits[0]));
  CHECK(logits[1] == -kInf);
  CHECK(std::isfinite(logits[2]));
}

TEST_CASE("sample: penalties apply at temperature 0, to listed and pending tokens alike") {
  const std::vector<float> logits{2.0F, 1.9F, 1.5F, 1.0F};
  SampleRow row{.parameters = {.temperature = 0.0F, .frequency_penalty = 0.3F}};
  CHECK(sample_one(logits, row) == 0);
  const std::vector<PenalizedToken> listed{{.id = 0, .num_generated = 1}};
  row.penalized = listed;
  CHECK(sample_one(logits, row) == 1);
  row.pending = {1, 0};
  row.num_pending = 1;  // 1.7, 1.6, 1.5, 1.0
  CHECK(sample_one(logits, row) == 0);
  row.num_pending = 2;  // 1.4, 1.6, 1.5, 1.0
  CHECK(sample_one(logits, row) == 1);
  row.pending = {1, 0, 1};
  row.num_pending = 3;  // 1.4, 1.3, 1.5, 1.0
  CHECK(sample_one(logits, row) == 2);
  const std::vector<PenalizedToken> elsewhere{{.id = -1, .num_generated = 9}, {.id = 4, .num_generated = 9}};
  row.penalized = elsewhere;
  row.num_pending = 0;
  CHECK(sample_one(logits, row) == 0);
}

TEST_CASE("sample: a draw with penalties is one from the logits they leave") {
  const auto logits = random_values(200, 21, 2.0F);
  std::vector<PenalizedToken> listed;
  std::vector<std::uint32_t> numbers(200);
  for (std::uint32_t id = 0; id < 200; id += 3) {
    numbers[id] = id % 5;
    listed.push_back({.id = static_cast<std::int32_t>(id), .num_generated = id % 5});
  }
  SampleRow row{.parameters = {.top_p = 0.9F, .frequency_penalty = 0.8F, .presence_penalty = 0.1F},
                .penalized = listed};
  SampleRow plain{.parameters = {.top_p = 0.9F}};
  const auto changed = penalized(row.parameters, logits, numbers);
  for (std::uint64_t position = 0; position < 50; ++position) {
    row.position = plain.position = position;
    CHECK(sample_one(logits, row) == sample_one(changed, plain));
  }
}

TEST_CASE("sample: log-probabilities are the log-softmax of the logits as they came") {
  for (const Isa isa : supported_isas()) {
    CAPTURE(name_of(isa));
    const auto logits = random_values(1000, 22, 4.0F);
    double sum = 0.0;
    for (const float logit : logits) sum += std::exp(double{logit});
    std::vector<std::size_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return logits[a] > logits[b]; });
    const std::vector<std::int32_t> suppressed{static_cast<std::int32_t>(order[0])};
    const std::vector<PenalizedToken> listed{{.id = static_cast<std::int32_t>(order[1]), .num_generated = 7}};
    const SampleRow row{.parameters = {.temperature = 0.0F, .frequency_penalty = 2.0F, .top_logprobs = 3},
                        .suppressed = suppressed,
                        .penalized = listed};
    const auto logprobs = logprobs_of(logits, row, isa);
    const auto exact = [&](std::size_t id) { return double{logits[id]} - std::log(sum); };
    CHECK(logprobs.logprob == doctest::Approx(exact(order[2])).epsilon(1e-6));
    REQUIRE(logprobs.top.size() == 3);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      CHECK(logprobs.top[rank].id == static_cast<std::int32_t>(order[rank]));
      CHECK(logprobs.top[rank].logprob == doctest::Approx(exact(order[rank])).epsilon(1e-6));
    }
  }
}

TEST_CASE("sample: a vocabulary may have fewer tokens than top ones were asked for") {
  const SampleRow row{.parameters = {.temperature = 0.0F, .top_logprobs = 5}};
  const auto logprobs = logprobs_of({0.0F, -kInf, 0.0F}, row);
  REQUIRE(logprobs.top.size() == 3);
  CHECK(logprobs.top[0].id == 0);
  CHECK(logprobs.top[1].id == 2);
  CHECK(logprobs.top[2].logprob == -kInf);
  CHECK(logprobs.logprob == doctest::Approx(-std::log(2.0)));
  CHECK(logprobs_of({1.0F, 1.0F}, {.parameters = {.top_logprobs = 0}}).top.empty());
}
