// SPDX-License-Identifier: Apache-2.0
// The operators of a mixture of experts, one by one and in a row, against f64.
#include "gpu/cpu/kernels/experts/expert_routing.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gpu/cpu/kernels/matmul/expert_matmul.hpp"
#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

namespace {

struct Routes {
  std::vector<float> shares;
  std::vector<std::int32_t> places, bounds;
};

Routes route(const std::vector<float>& logits, std::size_t num_experts, std::size_t num_chosen,
             bool normalizes, Isa isa = best_isa()) {
  const std::size_t num_tokens = logits.size() / num_experts;
  Routes routes{.shares = std::vector<float>(num_tokens * num_chosen),
                .places = std::vector<std::int32_t>(num_tokens * num_chosen),
                .bounds = std::vector<std::int32_t>(num_experts + 1)};
  const RouteExpertsArguments arguments{.logits = logits.data(),
                                        .num_tokens = num_tokens,
                                        .num_experts = num_experts,
                                        .num_chosen = num_chosen,
                                        .normalizes = normalizes,
                                        .shares = routes.shares.data(),
                                        .places = routes.places.data(),
                                        .bounds = routes.bounds.data(),
                                        .isa = isa};
  for (std::size_t task = route_experts_num_tasks(arguments); task-- > 0;)
    route_experts_run_task(arguments, task);
  place_choices(arguments);
  return routes;
}

std::size_t expert_at(const Routes& routes, std::size_t choice) {
  const auto end = std::upper_bound(routes.bounds.begin(), routes.bounds.end(), routes.places[choice]);
  return static_cast<std::size_t>(end - routes.bounds.begin()) - 1;
}

constexpr std::size_t kExperts = 5, kChosen = 2, kInputs = 37, kOutputs = 32;

// The sums of two of five experts' products.
std::vector<float> mix(const std::vector<float>& logits, const std::vector<float>& x,
                       const PackedMatrix& weight, const std::vector<float>& bias, Isa isa) {
  const std::size_t num_tokens = logits.size() / kExperts, num_choices = num_tokens * kChosen;
  const Routes routes = route(logits, kExperts, kChosen, true, isa);
  std::vector<float> grouped(num_choices * kInputs), products(num_choices * kOutputs);
  std::vector<float> sums(num_tokens * kOutputs);
  const GroupRowsArguments group{.x = reinterpret_cast<const std::byte*>(x.data()),
                                 .row_bytes = kInputs * sizeof(float),
                                 .places = routes.places.data(),
                                 .num_tokens = num_tokens,
                                 .num_chosen = kChosen,
                                 .grouped = reinterpret_cast<std::byte*>(grouped.data())};
  for (std::size_t task = group_rows_num_tasks(group); task-- > 0;) group_rows_run_task(group, task);
  const ExpertProducts plan = plan_expert_matmul({.weight = &weight,
                                                  .num_experts = kExperts,
                                                  .bounds = routes.bounds.data(),
                                                  .a = grouped.data(),
                                                  .a_stride = kInputs,
                                                  .bias = bias.data(),
                                                  .c = products.data(),
                                                  .c_stride = kOutputs,
                                                  .num_threads = 3,
                                                  .isa = isa});
  for (std::size_t task = expert_matmul_num_tasks(plan); task-- > 0;) expert_matmul_run_task(plan, task);
  const CombineExpertsArguments combine{.grouped = products.data(),
                                        .places = routes.places.data(),
                                        .shares = routes.shares.data(),
                                        .num_tokens = num_tokens,
                                        .num_chosen = kChosen,
                                        .width = kOutputs,
                                        .sums = sums.data()};
  for (std::size_t task = combine_experts_num_tasks(combine); task-- > 0;)
    combine_experts_run_task(combine, task);
  return sums;
}

// The same of one token in f64.
std::vector<double> expected_mix(const float* logits, const float* x, const std::vector<float>& weight,
                                 const std::vector<float>& bias) {
  std::vector<std::size_t> order(kExperts);
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  double total = 0;
  for (std::size_t i = 0; i < kChosen; ++i) total += std::exp(double{logits[order[i]]});
  std::vector<double> sums(kOutputs);
  for (std::size_t i = 0; i < kChosen; ++i) {
    for (std::size_t n = 0; n < kOutputs; ++n) {
      const std::size_t row = order[i] * kOutputs + n;
      double product = bias[row];
      for (std::size_t k = 0; k < kInputs; ++k) product += double{weight[row * kInputs + k]} * x[k];
      sums[n] += std::exp(double{logits[order[i]]}) / total * product;
    }
  }
  return sums;
}

}  // namespace

TEST_CASE("experts: shares equal softmax in f64, over all experts or those chosen") {
  const std::size_t num_experts = 37, num_chosen = 6;
  const auto logits = random_values(40 * num_experts, 3, 4.0F);
  for (const Isa isa : supported_isas()) {
    for (const bool normalizes : {false, true}) {
      const Routes routes = route(logits, num_experts, num_chosen, normalizes, isa);
      for (std::size_t token = 0; token < 40; ++token) {
        const float* row = logits.data() + token * num_experts;
        std::vector<std::size_t> chosen;
        double total = 0;
        for (std::size_t i = 0; i < num_chosen; ++i) {
          chosen.push_back(expert_at(routes, token * num_chosen + i));
          if (normalizes) total += std::exp(double{row[chosen.back()]});
        }
        if (!normalizes)
          for (std::size_t expert = 0; expert < num_experts; ++expert) total += std::exp(double{row[expert]});
        for (std::size_t i = 0; i < num_chosen; ++i) {
          const double expected = std::exp(double{row[chosen[i]]}) / total;
          REQUIRE(std::abs(routes.shares[token * num_chosen + i] - expected) <= 1e-6 * expected);
        }
        // No expert that was left out has a higher logit, and those chosen ascend.
        REQUIRE(std::is_sorted(chosen.begin(), chosen.end()));
        const auto least =
            std::min_element(chosen.begin(), chosen.end(), [&](auto a, auto b) { return row[a] < row[b]; });
        const auto higher = std::count_if(row, row + num_experts, [&](float x) { return x > row[*least]; });
        REQUIRE(static_cast<std::size_t>(higher) == num_chosen - 1);
      }
    }
  }
}

TEST_CASE("experts: ties go to the lower index, and places are by expert, then by token") {
  const Routes routes = route({1, 2, 2, 2, 0, 0, 0, 0, 5, 4, 3, 4}, 4, 2, true);
  CHECK(routes.bounds == std::vector<std::int32_t>{0, 2, 5, 6, 6});
  CHECK(routes.places == std::vector<std::int32_t>{2, 5, 0, 3, 1, 4});
  CHECK(routes.shares[0] == 0.5F);
}

TEST_CASE("experts: logits that are no numbers choose as many experts as others") {
  const float nan = std::nanf("");
  const Routes routes = route({nan, nan, nan, 1, nan, 2}, 3, 2, true);
  CHECK(routes.bounds.back() == 4);
  auto places = routes.places;
  std::sort(places.begin(), places.end());
  CHECK(places == std::vector<std::int32_t>{0, 1, 2, 3});
}

TEST_CASE("experts: no tokens are no tasks, and no product") {
  const Routes routes = route({}, 3, 2, true);
  CHECK(routes.bounds == std::vector<std::int32_t>{0, 0, 0, 0});
  const PackedMatrix weight({}, 8, BlockFormat::kF32);
  CHECK(expert_matmul_num_tasks(
            plan_expert_matmul({.weight = &weight, .num_experts = 3, .bounds = routes.bounds.data()})) == 0);
}

TEST_CASE("experts: a mixture equals f64, and each token's bits are those that it has alone") {
  const std::size_t num_tokens = 53;
  const auto logits = random_values(num_tokens * kExperts, 1, 2.0F);
  const auto x = random_values(num_tokens * kInputs, 2), bias = random_values(kExperts * kOutputs, 3);
  const auto values = random_values(kExperts * kOutputs * kInputs, 4, 0.2F);
  for (const DataType type : {DataType::kF32, DataType::kBF16}) {
    const auto exact = type == DataType::kF32 ? values : to_f32(to_bf16(values));
    PackedMatrix weight({{values.data(), DataType::kF32, kExperts * kOutputs}}, kInputs, format_of(type));
    weight.pack();
    for (const Isa isa : supported_isas()) {
      const auto sums = mix(logits, x, weight, bias, isa);
      for (std::size_t token = 0; token < num_tokens; ++token) {
        const float* row = logits.data() + token * kExperts;
        const float* input = x.data() + token * kInputs;
        const auto expected = expected_mix(row, input, exact, bias);
        for (std::size_t n = 0; n < kOutputs; ++n)
          REQUIRE(std::abs(sums[token * kOutputs + n] - expected[n]) < 1e-5);
        const auto alone = mix({row, row + kExperts}, {input, input + kInputs}, weight, bias, isa);
        REQUIRE(same_bits(alone.data(), sums.data() + token * kOutputs, kOutputs));
      }
    }
  }
}
