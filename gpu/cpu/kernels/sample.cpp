// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/sample.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

struct Candidate {
  float weight = 0.0F;  // exp((logit - highest) / temperature)
  std::int32_t id = 0;
};

bool comes_before(const Candidate& left, const Candidate& right) {
  return left.weight != right.weight ? left.weight > right.weight : left.id < right.id;
}

// Buffers of one thread, kept between rows.
struct Scratch {
  std::vector<float> logits;
  std::vector<float> weights;
  std::vector<Candidate> candidates;
  std::vector<Candidate> pool;
};

std::int32_t first_equal(const float* logits, std::size_t count, float highest) {
  return static_cast<std::int32_t>(std::find(logits, logits + count, highest) - logits);
}

double sum_of(std::span<const Candidate> candidates) {
  double sum = 0.0;
  for (const auto& candidate : candidates) sum += candidate.weight;
  return sum;
}

// The last of the `count` best. Reorders `pool`.
Candidate last_of_best(std::span<Candidate> pool, std::size_t count) {
  const auto last = pool.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(pool.begin(), last, pool.end(), comes_before);
  return *last;
}

// The last of the fewest best whose weights reach `wanted`: halves the range
// that holds it, then walks what is left in order. Reorders `pool`.
Candidate last_to_reach(std::span<Candidate> pool, double wanted) {
  constexpr std::size_t kFew = 64;
  double before = 0.0;
  while (pool.size() > kFew) {
    const std::size_t half = pool.size() / 2;
    last_of_best(pool, half);
    const double sum = sum_of(pool.first(half));
    if (before + sum >= wanted) {
      pool = pool.first(half);
    } else {
      before += sum;
      pool = pool.subspan(half);
    }
  }
  std::sort(pool.begin(), pool.end(), comes_before);
  for (const auto& candidate : pool) {
    before += candidate.weight;
    if (before >= wanted) return candidate;
  }
  return pool.back();
}

void drop_behind(const Candidate& last, std::vector<Candidate>& candidates) {
  std::erase_if(candidates, [&](const Candidate& candidate) { return comes_before(last, candidate); });
}

// Of the weights that may be drawn, in order of ids, those that top_k, top_p and
// min_p leave.
void keep_likely(const SamplingParameters& parameters, std::vector<Candidate>& candidates,
                 std::vector<Candidate>& pool) {
  const auto top_k = static_cast<std::size_t>(std::max(0, parameters.top_k));
  if (top_k > 0 && top_k < candidates.size()) {
    pool = candidates;
    drop_behind(last_of_best(pool, top_k), candidates);
  }
  if (parameters.top_p < 1.0F) {
    pool = candidates;
    drop_behind(last_to_reach(pool, std::max(0.0F, parameters.top_p) * sum_of(pool)), candidates);
  }
  if (parameters.min_p > 0.0F) {
    float highest = 0.0F;
    for (const auto& candidate : candidates) highest = std::max(highest, candidate.weight);
    const float lowest = std::min(1.0F, parameters.min_p) * highest;
    std::erase_if(candidates, [&](const Candidate& candidate) { return candidate.weight < lowest; });
  }
}

std::int32_t draw(std::span<const Candidate> candidates, double uniform) {
  double left = uniform * sum_of(candidates);
  for (const auto& candidate : candidates) {
    left -= candidate.weight;
    if (left < 0.0) return candidate.id;
  }
  return candidates.back().id;  // rounding kept the last one from being reached
}

// No cut: walk the vocabulary in order, block sums first.
std::int32_t draw_from_all(std::span<const float> weights, double uniform) {
  constexpr std::size_t kBlock = 256;
  std::vector<double> sums;
  double total = 0.0;
  for (std::size_t first = 0; first < weights.size(); first += kBlock) {
    // Four sums side by side: one alone would wait for each addition.
    double parts[4] = {};
    const std::size_t end = std::min(weights.size(), first + kBlock);
    for (std::size_t i = first; i < end; ++i) parts[i % 4] += weights[i];
    sums.push_back((parts[0] + parts[1]) + (parts[2] + parts[3]));
    total += sums.back();
  }
  double left = uniform * total;
  std::size_t block = 0;
  while (block + 1 < sums.size() && left >= sums[block]) left -= sums[block++];
  std::int32_t last = kInvalidLogits;
  for (std::size_t i = block * kBlock; i < weights.size(); ++i) {
    if (weights[i] <= 0.0F) continue;
    last = static_cast<std::int32_t>(i);
    left -= weights[i];
    if (left < 0.0) return last;
  }
  while (last < 0 && block > 0) {  // the end was reached by rounding: the last drawable one
    --block;
    for (std::size_t i = block * kBlock; i < (block + 1) * kBlock; ++i) {
      if (weights[i] > 0.0F) last = static_cast<std::int32_t>(i);
    }
  }
  return last;
}

void penalize(const SampleRow& row, std::span<float> logits) {
  const auto apply = [&](std::int32_t id, std::ptrdiff_t num_generated) {
    const auto index = static_cast<std::size_t>(id);
    if (id < 0 || index >= logits.size()) return;
    logits[index] = penalized_logit(row.parameters, logits[index], static_cast<std::uint32_t>(num_generated));
  };
  const std::span pending(row.pending.data(), row.num_pending);
  std::array<bool, kRecentTokens> is_counted{};
  for (const PenalizedToken& token : row.penalized) {
    for (std::size_t i = 0; i < pending.size(); ++i) is_counted[i] = is_counted[i] || pending[i] == token.id;
    apply(token.id, token.num_generated + std::count(pending.begin(), pending.end(), token.id));
  }
  for (std::size_t i = 0; i < pending.size(); ++i) {
    const auto earlier = pending.first(i);
    if (is_counted[i] || std::count(earlier.begin(), earlier.end(), pending[i]) > 0) continue;
    apply(pending[i], std::count(pending.begin(), pending.end(), pending[i]));
  }
}

// Finite logits stay finite.
void add_biases(const SampleRow& row, std::span<float> logits) {
  for (const TokenBias& token : row.biased) {
    const auto index = static_cast<std::size_t>(token.id);
    if (token.id >= 0 && index < logits.size()) logits[index] = biased_logit(logits[index], token.bias);
  }
}

void keep_allowed(std::span<const std::uint32_t> allowed, std::span<float> logits) {
  for (std::size_t first = 0; first < logits.size(); first += 32) {
    const std::uint32_t word = first / 32 < allowed.size() ? allowed[first / 32] : 0;
    if (word == ~std::uint32_t{0}) continue;
    const std::size_t end = std::min(logits.size(), first + 32);
    for (std::size_t id = first; id < end; ++id)
      if ((word >> (id - first) & 1U) == 0) logits[id] = kNever;
  }
}

std::uint32_t word_of(std::span<const std::uint32_t> allowed, std::size_t count, std::size_t index) {
  const std::uint32_t word = index < allowed.size() ? allowed[index] : 0;
  const std::size_t num_ids = std::min<std::size_t>(32, count - index * 32);
  return num_ids < 32 ? word & ((std::uint32_t{1} << num_ids) - 1) : word;
}

// use(first id, end) for each stretch of ids that lie in words of the mask of which `takes(word)`.
template <class Takes, class Use>
void for_each_stretch(std::span<const std::uint32_t> allowed, std::size_t count, Takes takes, Use use) {
  const std::size_t num_words = (count + 31) / 32;
  for (std::size_t index = 0; index < num_words; ++index) {
    if (!takes(word_of(allowed, count, index))) continue;
    const std::size_t first = index * 32;
    while (index < num_words && takes(word_of(allowed, count, index))) ++index;
    use(first, std::min(count, index * 32));
  }
}

bool is_full(std::uint32_t word) { return word == ~std::uint32_t{0}; }

// The highest of the logits that the mask allows.
float highest_allowed(const KernelTable& kernels, std::span<const float> logits,
                      std::span<const std::uint32_t> allowed) {
  float highest = kNever;
  for_each_stretch(allowed, logits.size(), is_full, [&](std::size_t first, std::size_t end) {
    highest = std::max(highest, kernels.summarize(logits.data() + first, end - first).highest);
  });
  for (std::size_t index = 0; index * 32 < logits.size(); ++index) {
    const std::uint32_t word = word_of(allowed, logits.size(), index);
    if (is_full(word)) continue;
    for (std::uint32_t bits = word; bits != 0; bits &= bits - 1)
      highest = std::max(highest, logits[index * 32 + static_cast<std::size_t>(std::countr_zero(bits))]);
  }
  return highest;
}

// Weights of tokens that the mask does not allow are 0; of 32 tokens of which it allows none, none is
// computed.
void weigh_allowed(const KernelTable& kernels, std::span<const float> logits,
                   std::span<const std::uint32_t> allowed, float highest, float inverse,
                   std::vector<float>& weights) {
  weights.assign(logits.size(), 0.0F);
  const auto has_some = [](std::uint32_t word) { return word != 0; };
  for_each_stretch(allowed, logits.size(), has_some, [&](std::size_t first, std::size_t end) {
    kernels.exponentiate(logits.data() + first, highest, inverse, weights.data() + first, end - first);
  });
  for (std::size_t index = 0; index * 32 < logits.size(); ++index) {
    const std::uint32_t word = word_of(allowed, logits.size(), index);
    if (is_full(word) || word == 0) continue;
    const std::size_t end = std::min(logits.size(), index * 32 + 32);
    for (std::size_t id = index * 32; id < end; ++id)
      if ((word >> (id % 32) & 1U) == 0) weights[id] = 0.0F;
  }
}

std::int32_t first_allowed_equal(std::span<const float> logits, std::span<const std::uint32_t> allowed,
                                 float highest) {
  for (std::size_t id = 0; id < logits.size(); ++id)
    if (logits[id] == highest && has_token(allowed, id)) return static_cast<std::int32_t>(id);
  return kInvalidLogits;
}

void suppress(const SampleRow& row, std::span<float> logits) {
  for (const auto id : row.suppressed) {
    const auto index = static_cast<std::size_t>(id);
    if (id >= 0 && index < logits.size()) logits[index] = kNever;
  }
}

// The ids of the `number` highest logits, best first, ties to the lowest id.
std::vector<std::int32_t> best_ids(std::span<const float> logits, std::size_t number) {
  std::vector<std::int32_t> best;
  number = std::min(number, logits.size());
  if (number == 0) return best;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto beaten = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)] < logits[i]; };
    if (best.size() == number && !beaten(best.back())) continue;
    if (best.size() == number) best.pop_back();
    best.insert(std::find_if(best.begin(), best.end(), beaten), static_cast<std::int32_t>(i));
  }
  return best;
}

TokenLogprobs logprobs_of(const SampleArguments& arguments, const SampleRow& row,
                          std::span<const float> logits, std::int32_t token, Scratch& scratch) {
  const auto& kernels = kernel_table(arguments.isa);
  const float highest = kernels.summarize(logits.data(), logits.size()).highest;
  scratch.weights.resize(logits.size());
  kernels.exponentiate(logits.data(), highest, 1.0F, scratch.weights.data(), logits.size());
  double sum = 0.0;
  for (const float weight : scratch.weights) sum += weight;
  const double subtracted = highest + std::log(sum);
  const auto logprob = [&](std::int32_t id) {
    return static_cast<float>(logits[static_cast<std::size_t>(id)] - subtracted);
  };
  TokenLogprobs result{.logprob = logprob(token), .top = {}};
  const auto number = std::min(row.parameters.top_logprobs, kMaxTopLogprobs);
  for (const std::int32_t id : best_ids(logits, static_cast<std::size_t>(number)))
    result.top.push_back({id, logprob(id)});
  return result;
}

std::int32_t sample_row(const SampleArguments& arguments, const SampleRow& row, const float* logits,
                        Scratch& scratch) {
  const auto& kernels = kernel_table(arguments.isa);
  const std::size_t count = arguments.vocabulary;
  const bool has_penalties =
      row.parameters.has_penalties() && (!row.penalized.empty() || row.num_pending > 0);
  const bool is_changed = has_penalties || !row.suppressed.empty() || !row.biased.empty();
  const bool is_masked = !row.allowed.empty() && !is_changed;  // by the mask alone
  const LogitSummary given = kernels.summarize(logits, count);
  if (!given.is_valid) return kInvalidLogits;
  if (row.scored_token >= 0) return row.scored_token;
  if (is_changed) {
    scratch.logits.assign(logits, logits + count);
    add_biases(row, scratch.logits);
    if (has_penalties) penalize(row, scratch.logits);
    suppress(row, scratch.logits);
    if (!row.allowed.empty()) keep_allowed(row.allowed, scratch.logits);
    logits = scratch.logits.data();
  }
  const float highest = is_masked    ? highest_allowed(kernels, {logits, count}, row.allowed)
                        : is_changed ? kernels.summarize(logits, count).highest
                                     : given.highest;
  if (highest == kNever) return kInvalidLogits;
  const auto& parameters = row.parameters;
  if (!(parameters.temperature > 0.0F))
    return is_masked ? first_allowed_equal({logits, count}, row.allowed, highest)
                     : first_equal(logits, count, highest);

  // A temperature whose inverse is no float draws what the smallest such would.
  const float inverse = std::min(1.0F / parameters.temperature, std::numeric_limits<float>::max());
  if (is_masked) {
    weigh_allowed(kernels, {logits, count}, row.allowed, highest, inverse, scratch.weights);
  } else {
    scratch.weights.resize(count);
    kernels.exponentiate(logits, highest, inverse, scratch.weights.data(), count);
  }
  const double uniform = uniform_draw(parameters.seed, row.position);
  if (parameters.top_k <= 0 && !(parameters.top_p < 1.0F) && !(parameters.min_p > 0.0F)) {
    return draw_from_all(scratch.weights, uniform);
  }
  scratch.candidates.clear();
  for (std::size_t i = 0; i < count; ++i) {
    if (scratch.weights[i] > 0.0F) {
      scratch.candidates.push_back({scratch.weights[i], static_cast<std::int32_t>(i)});
    }
  }
  keep_likely(parameters, scratch.candidates, scratch.pool);
  return draw(scratch.candidates, uniform);
}

}  // namespace

std::size_t sample_num_tasks(const SampleArguments& arguments) { return arguments.rows.size(); }

void sample_run_task(const SampleArguments& arguments, std::size_t task) {
  thread_local Scratch scratch;
  const SampleRow& row = arguments.rows[task];
  const float* logits = arguments.logits + task * arguments.logits_stride;
  const std::int32_t token = sample_row(arguments, row, logits, scratch);
  arguments.token_ids[task] = token;
  if (arguments.logprobs == nullptr || !row.parameters.wants_logprobs() || token < 0) return;
  arguments.logprobs[task] = logprobs_of(arguments, row, {logits, arguments.vocabulary}, token, scratch);
}

// In single steps, each rounded once: the CUDA kernel computes the same bits.
float penalized_logit(const SamplingParameters& parameters, float logit, std::uint32_t num_generated) {
  if (logit == kNever) return logit;
  float left = logit > 0.0F ? logit / parameters.repetition_penalty : logit * parameters.repetition_penalty;
  if (num_generated > 0) {
    left = std::fma(-parameters.frequency_penalty, static_cast<float>(num_generated), left);
    left -= parameters.presence_penalty;
  }
  constexpr float kMost = std::numeric_limits<float>::max();
  return std::clamp(left, -kMost, kMost);
}

float biased_logit(float logit, float bias) {
  if (logit == kNever) return logit;
  constexpr float kMost = std::numeric_limits<float>::max();
  return std::clamp(logit + bias, -kMost, kMost);
}

std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                           std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(second),
        static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

double uniform_draw(std::uint64_t seed, std::uint64_t position) {
  const auto words =
      philox4x32_10({static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32), 0, 0},
                    {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  const std::uint64_t bits = (std::uint64_t{words[1]} << 32 | words[0]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace troupe
