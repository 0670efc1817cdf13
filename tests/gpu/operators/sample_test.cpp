// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/sample.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "gpu/cpu/kernels/sample.hpp"
#include "gpu/cuda/kernels/sampling/sample.hpp"
#include "tests/gpu/operators/backends.hpp"

using namespace troupe;

namespace {

struct Row {
  std::vector<float> logits;
  SamplingParameters parameters = {};
  std::uint64_t position = 0;
};

struct Draw {
  std::int32_t token = -2;
  float logprob = 0.0F;
  std::vector<RankedToken> top;
};

std::vector<float> stacked(const std::vector<Row>& rows) {
  std::vector<float> logits;
  for (const Row& row : rows) logits.insert(logits.end(), row.logits.begin(), row.logits.end());
  return logits;
}

std::vector<Draw> on_cpu(const OperatorBackend& backend, const std::vector<Row>& rows) {
  std::vector<SampleRow> asked;
  for (const Row& row : rows) asked.push_back({.parameters = row.parameters, .position = row.position});
  const auto logits = stacked(rows);
  std::vector<std::int32_t> ids(rows.size(), -2);
  std::vector<TokenLogprobs> logprobs(rows.size());
  const SampleArguments arguments{.logits = logits.data(),
                                  .logits_stride = rows.front().logits.size(),
                                  .vocabulary = rows.front().logits.size(),
                                  .rows = asked,
                                  .token_ids = ids.data(),
                                  .logprobs = logprobs.data(),
                                  .isa = backend.isa};
  run_tasks(arguments, sample_num_tasks(arguments), sample_run_task);
  std::vector<Draw> draws;
  for (std::size_t i = 0; i < rows.size(); ++i)
    draws.push_back({.token = ids[i], .logprob = logprobs[i].logprob, .top = logprobs[i].top});
  return draws;
}

std::vector<Draw> on_gpu(const std::vector<Row>& rows) {
  const auto count = static_cast<std::uint32_t>(rows.size());
  std::vector<cuda::SampleRow> asked;
  for (std::uint32_t i = 0; i < count; ++i)
    asked.push_back(
        {.parameters = rows[i].parameters, .position = rows[i].position, .slot = i, .logprobs_row = i});
  DeviceArray<float> logits(stacked(rows));
  DeviceArray<cuda::SampleRow> device_rows(asked);
  DeviceArray<std::int32_t> ids(std::vector<std::int32_t>(count, -2)),
      of_slots(std::vector<std::int32_t>(count, -2));
  DeviceArray<cuda::RowLogprobs> logprobs{std::vector<cuda::RowLogprobs>(count)};
  const auto vocabulary = static_cast<std::uint32_t>(rows.front().logits.size());
  cuda::launch_sample({.logits = logits.data(),
                       .logits_stride = vocabulary,
                       .vocabulary = vocabulary,
                       .rows = device_rows.data(),
                       .token_ids = ids.data(),
                       .tokens_of_slots = of_slots.data(),
                       .logprobs = logprobs.data(),
                       .num_rows = count},
                      nullptr);
  const auto drawn = ids.values();
  CHECK(of_slots.values() == drawn);
  const auto likely = logprobs.values();
  std::vector<Draw> draws;
  for (std::uint32_t i = 0; i < count; ++i)
    draws.push_back({.token = drawn[i],
                     .logprob = likely[i].logprob,
                     .top = {likely[i].top, likely[i].top + likely[i].num_top}});
  return draws;
}

std::vector<Draw> run(const OperatorBackend& backend, const std::vector<Row>& rows) {
  return backend.is_gpu ? on_gpu(rows) : on_cpu(backend, rows);
}

// By full sorting, in f64: what is left of each id's weight after the cuts.
std::vector<double> kept_weights(const Row& row) {
  const SamplingParameters& p = row.parameters;
  const double highest = *std::max_element(row.logits.begin(), row.logits.end());
  std::vector<double> weights;
  for (const float logit : row.logits) weights.push_back(std::exp((double{logit} - highest) / p.temperature));
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return weights[a] > weights[b]; });
  for (std::size_t i = static_cast<std::size_t>(p.top_k); p.top_k > 0 && i < order.size(); ++i)
    weights[order[i]] = 0.0;
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double before = 0.0;
  for (const std::size_t id : order) {
    const double weight = weights[id];
    if (before >= p.top_p * total || weight < p.min_p) weights[id] = 0.0;
    before += weight;
  }
  return weights;
}

// The id at which the running sum passes the uniform number's share.
std::int32_t expected_token(const Row& row) {
  if (row.parameters.temperature == 0.0F)
    return static_cast<std::int32_t>(std::max_element(row.logits.begin(), row.logits.end()) -
                                     row.logits.begin());
  const auto weights = kept_weights(row);
  double left =
      uniform_draw(row.parameters.seed, row.position) * std::accumulate(weights.begin(), weights.end(), 0.0);
  std::size_t id = 0;
  while (left >= weights[id]) left -= weights[id++];
  return static_cast<std::int32_t>(id);
}

double expected_logprob(const Row& row, std::int32_t id) {
  double total = 0.0;
  for (const float logit : row.logits) total += std::exp(double{logit});
  return row.logits[static_cast<std::size_t>(id)] - std::log(total);
}

std::vector<Row> rows_of_every_kind(std::size_t vocabulary) {
  std::vector<Row> rows;
  const SamplingParameters kinds[] = {{.temperature = 0.0F},
                                      {.temperature = 1.0F},
                                      {.temperature = 0.7F, .top_k = 5},
                                      {.temperature = 1.3F, .top_p = 0.6F},
                                      {.temperature = 1.0F, .min_p = 0.2F},
                                      {.temperature = 2.0F, .top_p = 0.9F, .min_p = 0.05F, .top_k = 20}};
  for (std::uint32_t i = 0; i < 18; ++i) {
    Row& row = rows.emplace_back(
        Row{.logits = random_values(vocabulary, i, 3.0F), .parameters = kinds[i % 6], .position = 100 + i});
    row.parameters.seed = 7 * i;
  }
  return rows;
}

}  // namespace

TEST_CASE("sample: draws are those of f64 whatever the cuts, and of the same Philox numbers") {
  on_every_backend([](const OperatorBackend& backend) {
    if (backend.type != DataType::kF32) return;  // logits are always f32
    for (const std::size_t vocabulary : {1, 37, 300}) {
      CAPTURE(vocabulary);
      const auto rows = rows_of_every_kind(vocabulary);
      const auto draws = run(backend, rows);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        CAPTURE(i);
        CHECK(draws[i].token == expected_token(rows[i]));
      }
    }
  });
}

TEST_CASE("sample: log-probabilities are f64's, of the logits as they came") {
  on_every_backend([](const OperatorBackend& backend) {
    if (backend.type != DataType::kF32) return;
    auto rows = rows_of_every_kind(300);
    for (Row& row : rows) row.parameters.top_logprobs = 4;
    const auto draws = run(backend, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      CHECK(draws[i].logprob == doctest::Approx(expected_logprob(rows[i], draws[i].token)).epsilon(2e-6));
      std::vector<std::int32_t> by_logit(300);
      std::iota(by_logit.begin(), by_logit.end(), 0);
      std::stable_sort(by_logit.begin(), by_logit.end(), [&](auto a, auto b) {
        return rows[i].logits[static_cast<std::size_t>(a)] > rows[i].logits[static_cast<std::size_t>(b)];
      });
      REQUIRE(draws[i].top.size() == 4);
      for (std::size_t rank = 0; rank < 4; ++rank) {
        CHECK(draws[i].top[rank].id == by_logit[rank]);
        CHECK(draws[i].top[rank].logprob ==
              doctest::Approx(expected_logprob(rows[i], by_logit[rank])).epsilon(2e-6));
      }
    }
  });
}

TEST_CASE("sample: NaN and +Inf give no token, ties and -Inf the lowest id that may be drawn") {
  on_every_backend([](const OperatorBackend& backend) {
    if (backend.type != DataType::kF32) return;
    const float infinity = std::numeric_limits<float>::infinity();
    const SamplingParameters greedy{.temperature = 0.0F};
    const auto draws = run(backend, {{.logits = {1, NAN, 2, 3}, .parameters = greedy},
                                     {.logits = {1, infinity, 2, 3}, .parameters = greedy},
                                     {.logits = {-infinity, 5, 2, 5}, .parameters = greedy},
                                     {.logits = {-infinity, -infinity, -infinity, -infinity}}});
    CHECK(draws[0].token == kInvalidLogits);
    CHECK(draws[1].token == kInvalidLogits);
    CHECK(draws[2].token == 1);
    CHECK(draws[3].token == kInvalidLogits);
  });
}
