// SPDX-License-Identifier: Apache-2.0
#include "policy/costs/cost_profile.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "policy/costs/nonnegative_fit.hpp"
#include "policy/costs/rounded_time.hpp"

namespace troupe {
namespace {

constexpr int kReweightings = 10;
constexpr double kLeastError = 0.005;  // no sample with less stands out

// A batch of one token reads all weights, a key that it attends to is one row: the batch takes at least as
// long as this many keys. Without the bound, one stall in a batch with many keys makes keys pay for all.
constexpr double kKeysOfBatch = 64;

// The tokens between knot i and the next that num_tokens covers.
double covered(const std::vector<std::uint32_t>& knots, std::size_t i, std::uint32_t num_tokens) {
  if (num_tokens <= knots[i]) return 0;
  const bool is_last = i + 1 == knots.size();
  return (is_last ? num_tokens : std::min(num_tokens, knots[i + 1])) - knots[i];
}

std::vector<std::uint32_t> powers_of_two(std::uint32_t limit) {
  std::vector<std::uint32_t> knots{1};
  while (knots.back() <= limit / 4) knots.push_back(knots.back() * 2);
  return knots;
}

// The model that is fitted, beside the samples and their weights.
struct FitTerms {
  std::vector<std::uint32_t> knots = {};
  double keys_of_batch = 0, pairs_of_batch = 0;  // kKeysOfBatch; 0 where no sample has any
  double least_alone = 0;                        // nanoseconds of a batch of one token
};

// In the order of the columns of the fit. The columns of keys and pairs hold what they add to the fixed part.
std::vector<double> features(const IterationShape& shape, const FitTerms& terms) {
  std::vector<double> row{1.0};
  for (std::size_t i = 0; i < terms.knots.size(); ++i)
    row.push_back(covered(terms.knots, i, shape.num_tokens));
  row.push_back(static_cast<double>(shape.decode_keys) + terms.keys_of_batch);
  row.push_back(static_cast<double>(shape.prefill_pairs) + terms.pairs_of_batch);
  row.push_back(shape.num_output_rows);
  row.push_back(shape.num_sequences);
  return row;
}

std::vector<double> relative_errors(const IterationCost& cost, std::span<const CostSample> samples) {
  std::vector<double> errors;
  for (const auto& sample : samples)
    errors.push_back(std::abs(static_cast<double>(cost(sample.shape).count()) - sample.nanoseconds) /
                     sample.nanoseconds);
  return errors;
}

IterationCost fit_weighted(std::span<const CostSample> samples, const std::vector<double>& weights,
                           const FitTerms& terms, double least_fixed = 0) {
  std::vector<double> a, b;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double scale = weights[i] / samples[i].nanoseconds;  // errors count in proportion
    for (const double feature : features(samples[i].shape, terms)) a.push_back(scale * feature);
    b.push_back(weights[i] - scale * least_fixed);
  }
  const auto x = fit_nonnegative(a, b, a.size() / samples.size());

  const auto first_slope = x.begin() + 1;
  const auto rest = first_slope + static_cast<std::ptrdiff_t>(terms.knots.size());
  return {.fixed = least_fixed + x[0] + rest[0] * terms.keys_of_batch + rest[1] * terms.pairs_of_batch,
          .knots = terms.knots,
          .slopes = {first_slope, rest},
          .per_sequence = rest[3],
          .per_output_row = rest[2],
          .per_decode_key = rest[0],
          .per_prefill_pair = rest[1]};
}

IterationCost fit_bounded(std::span<const CostSample> samples, const std::vector<double>& weights,
                          const FitTerms& terms) {
  const IterationCost cost = fit_weighted(samples, weights, terms);
  const double alone = cost.fixed + cost.per_sequence + cost.per_output_row;
  return alone >= terms.least_alone ? cost : fit_weighted(samples, weights, terms, terms.least_alone);
}

// Huber's: full up to one and a half times the median error, less beyond.
std::vector<double> outlier_weights(const IterationCost& cost, std::span<const CostSample> samples) {
  const auto errors = relative_errors(cost, samples);
  auto ordered = errors;
  std::sort(ordered.begin(), ordered.end());
  const double usual = std::max(kLeastError, 1.5 * ordered[ordered.size() / 2]);
  std::vector<double> weights;
  for (const double error : errors) weights.push_back(std::sqrt(std::min(1.0, usual / error)));
  return weights;
}

// Batches of one token that take at least as long as one of this shape.
double batches_of_one(const IterationShape& shape) {
  return shape.num_tokens + static_cast<double>(shape.decode_keys + shape.prefill_pairs) / kKeysOfBatch;
}

// What a batch of one token takes at least: no batch has less than the least time measured, and the smallest
// is worth so many of one token. Half of it, as there is noise, which the fit is to average.
double least_alone(std::span<const CostSample> samples) {
  double least = samples.front().nanoseconds, fewest = batches_of_one(samples.front().shape);
  for (const CostSample& sample : samples) {
    least = std::min(least, sample.nanoseconds);
    fewest = std::min(fewest, batches_of_one(sample.shape));
  }
  return std::max(1.0, least / fewest / 2);
}

FitTerms terms_of(std::span<const CostSample> samples) {
  FitTerms terms{.least_alone = least_alone(samples)};
  std::uint32_t most_tokens = 1;
  for (const auto& sample : samples) {
    most_tokens = std::max(most_tokens, sample.shape.num_tokens);
    if (sample.shape.decode_keys > 0) terms.keys_of_batch = kKeysOfBatch;
    if (sample.shape.prefill_pairs > 0) terms.pairs_of_batch = kKeysOfBatch;
  }
  terms.knots = powers_of_two(most_tokens);
  return terms;
}

// The largest part of a cost, in nanoseconds: 17 minutes. Batches take at most thousands of times as long,
// and clocks count 285 years.
constexpr double kLargestCost = 1e12;

struct NamedNumber {
  const char* name;
  double value;
};

std::string number_problem(std::initializer_list<NamedNumber> numbers) {
  for (const auto& [name, value] : numbers)
    if (!(value >= 0 && value <= kLargestCost))
      return std::string(name) + ": expected a number of nanoseconds from 0 to 1e12, got " +
             std::to_string(value);
  return {};
}

std::string iteration_problem(const IterationCost& cost) {
  if (cost.knots.size() != cost.slopes.size())
    return "iteration: expected as many slopes as knots, got " + std::to_string(cost.slopes.size()) +
           " and " + std::to_string(cost.knots.size());
  if (!std::is_sorted(cost.knots.begin(), cost.knots.end(), std::less_equal<>()))
    return "iteration.knots: expected numbers that ascend";
  for (const double slope : cost.slopes) {
    auto problem = number_problem({{"iteration.slopes", slope}});
    if (!problem.empty()) return problem;
  }
  auto problem = number_problem({{"iteration.fixed", cost.fixed},
                                 {"iteration.per_sequence", cost.per_sequence},
                                 {"iteration.per_output_row", cost.per_output_row},
                                 {"iteration.per_decode_key", cost.per_decode_key},
                                 {"iteration.per_prefill_pair", cost.per_prefill_pair}});
  if (!problem.empty()) return problem;
  IterationShape smallest{.num_tokens = 1, .num_sequences = 1, .num_output_rows = 1};
  if (cost(smallest).count() < 1)
    return "iteration: expected a batch of one token to take a nanosecond at least, got 0";
  return {};
}

std::string cells_problem(const ProfiledCells& cells) {
  const std::size_t num_types = cells.graphs == GraphKind::kChain ? 1 : 2;
  if (cells.types.size() != num_types)
    return "cells.types: expected " + std::to_string(num_types) + " for such graphs, got " +
           std::to_string(cells.types.size());
  if (cells.num_rows == 0) return "cells.num_rows: expected a number above 0, got 0";
  for (const ProfiledCell& type : cells.types)
    if (const auto problem = iteration_problem(type.cost); !problem.empty())
      return "cells: " + type.name + ": " + problem;
  return {};
}

}  // namespace

std::chrono::nanoseconds IterationCost::operator()(const IterationShape& shape) const {
  double sum = fixed + per_sequence * shape.num_sequences + per_output_row * shape.num_output_rows +
               per_decode_key * static_cast<double>(shape.decode_keys) +
               per_prefill_pair * static_cast<double>(shape.prefill_pairs);
  for (std::size_t i = 0; i < knots.size() && knots[i] < shape.num_tokens; ++i)
    sum += slopes[i] * covered(knots, i, shape.num_tokens);
  return rounded_time(sum);
}

std::string samples_problem(std::span<const CostSample> samples) {
  if (samples.empty()) return "expected batches that were measured, got none";
  for (const CostSample& sample : samples)
    if (!(sample.nanoseconds >= 1 && sample.nanoseconds <= kLargestCost))
      return "expected a batch of " + std::to_string(sample.shape.num_tokens) +
             " tokens to take from 1 to 1e12 nanoseconds, got " + std::to_string(sample.nanoseconds);
  return {};
}

IterationCost fit_iteration_cost(std::span<const CostSample> samples) {
  if (samples.empty()) return {};
  const FitTerms terms = terms_of(samples);
  std::vector<double> weights(samples.size(), 1.0);
  IterationCost cost = fit_bounded(samples, weights, terms);
  for (int round = 0; round < kReweightings; ++round) {
    weights = outlier_weights(cost, samples);
    cost = fit_bounded(samples, weights, terms);
  }
  return cost;
}

FitQuality assess_fit(const IterationCost& cost, std::span<const CostSample> samples) {
  auto errors = relative_errors(cost, samples);
  if (errors.empty()) return {};
  std::sort(errors.begin(), errors.end());
  FitQuality quality;
  for (const double error : errors) quality.mean_error += error / static_cast<double>(errors.size());
  quality.p90_error = errors[(errors.size() - 1) * 9 / 10];
  quality.worst_error = errors.back();
  return quality;
}

std::uint32_t knee_of(std::span<const CostSample> samples) {
  constexpr double kNearlyBest = 0.9;
  const auto rate = [](const CostSample& sample) { return sample.shape.num_tokens / sample.nanoseconds; };
  double best = 0;
  for (const CostSample& sample : samples) best = std::max(best, rate(sample));
  std::uint32_t knee = std::numeric_limits<std::uint32_t>::max();
  for (const CostSample& sample : samples)
    if (rate(sample) >= kNearlyBest * best) knee = std::min(knee, sample.shape.num_tokens);
  return knee;
}

std::chrono::nanoseconds ServingOverheads::before_queue(std::uint32_t prompt_tokens) const {
  return rounded_time(request + per_prompt_token * prompt_tokens);
}

std::chrono::nanoseconds ServingOverheads::of_iteration(std::uint32_t num_sequences) const {
  return rounded_time(iteration + iteration_per_sequence * num_sequences);
}

std::string profile_problem(const CostProfile& profile) {
  if (auto problem = iteration_problem(profile.iteration); !problem.empty()) return problem;
  if (profile.cells)
    if (auto problem = cells_problem(*profile.cells); !problem.empty()) return problem;
  const ServingOverheads& overheads = profile.overheads;
  if (auto problem = number_problem({{"overheads.request", overheads.request},
                                     {"overheads.per_prompt_token", overheads.per_prompt_token},
                                     {"overheads.turnaround", overheads.turnaround},
                                     {"overheads.iteration", overheads.iteration},
                                     {"overheads.iteration_per_sequence", overheads.iteration_per_sequence},
                                     {"overheads.end", overheads.end}});
      !problem.empty())
    return problem;
  const auto& residuals = profile.residuals;
  const bool is_sound = std::all_of(residuals.begin(), residuals.end(),
                                    [](double residual) { return std::isfinite(residual) && residual >= 0; });
  if (!is_sound || !std::is_sorted(residuals.begin(), residuals.end()))
    return "residuals: expected numbers from 0 on that never decrease";
  const ProfiledServer& serving = profile.serving;
  if (auto problem = number_problem({{"serving.load_from_host.fixed", serving.load_from_host.fixed},
                                     {"serving.load_from_host.per_page", serving.load_from_host.per_page},
                                     {"serving.disk.fixed", serving.disk.fixed},
                                     {"serving.disk.per_page", serving.disk.per_page}});
      !problem.empty())
    return problem;
  const ServingSettings& settings = serving.settings;
  const std::pair<const char*, std::uint32_t> counts[] = {
      {"context_length", serving.limits.context_length},
      {"page_size", profile.cells ? 1 : serving.page_size},
      {"num_pages", profile.cells ? 1 : serving.num_pages},
      {"max_batch_tokens", settings.max_batch_tokens},
      {"max_batch_sequences", settings.max_batch_sequences},
      {"prefill_chunk", settings.prefill_chunk},
      {"max_in_flight", settings.max_in_flight},
      {"max_waiting", settings.max_waiting}};
  for (const auto& [name, value] : counts)
    if (value == 0) return std::string("serving.") + name + ": expected a number above 0, got 0";
  return {};
}

}  // namespace troupe
