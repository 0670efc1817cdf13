// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/sampling/sample.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "gpu/cpu/kernels/sample.hpp"
#include "tests/gpu/cpu/kernels/random_values.hpp"
#include "tests/gpu/cuda/kernels/device_array.hpp"

using namespace troupe;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Row {
  SamplingParameters parameters{};
  std::uint64_t position = 0;
  std::vector<std::int32_t> suppressed{};
  std::vector<PenalizedToken> penalized{};
  std::vector<std::int32_t> pending{};  // newest first
  std::vector<TokenBias> biased{};
  TokenMask allowed{};
};

struct HostDraw {
  std::vector<std::int32_t> token_ids;
  std::vector<TokenLogprobs> logprobs;
};

HostDraw sample_on_host(const std::vector<float>& logits, std::size_t vocabulary,
                        const std::vector<Row>& rows) {
  std::vector<SampleRow> host_rows;
  for (const auto& row : rows) {
    host_rows.push_back({.parameters = row.parameters,
                         .position = row.position,
                         .suppressed = row.suppressed,
                         .biased = row.biased,
                         .allowed = row.allowed,
                         .penalized = row.penalized,
                         .num_pending = static_cast<std::uint32_t>(row.pending.size())});
    std::copy(row.pending.begin(), row.pending.end(), host_rows.back().pending.begin());
  }
  HostDraw draw{.token_ids = std::vector<std::int32_t>(rows.size()),
                .logprobs = std::vector<TokenLogprobs>(rows.size())};
  const SampleArguments arguments{.logits = logits.data(),
                                  .logits_stride = vocabulary,
                                  .vocabulary = vocabulary,
                                  .rows = host_rows,
                                  .token_ids = draw.token_ids.data(),
                                  .logprobs = draw.logprobs.data()};
  for (std::size_t task = 0; task < rows.size(); ++task) sample_run_task(arguments, task);
  return draw;
}

struct Drawn {
  std::vector<std::int32_t> token_ids, of_slots, recent;
  std::vector<cuda::RowLogprobs> logprobs;  // one a row
};

// The slot's ring as it is when these were drawn just before.
std::vector<std::int32_t> ring_of(const Row& row) {
  std::vector<std::int32_t> ring(kRecentTokens, -5);
  for (std::size_t i = 0; i < row.pending.size(); ++i)
    ring[(row.position - 1 - i) % kRecentTokens] = row.pending[i];
  return ring;
}

Drawn sample(const std::vector<float>& logits, std::size_t vocabulary, const std::vector<Row>& rows) {
  std::vector<cuda::SampleRow> device_rows;
  std::vector<std::int32_t> suppressed, recent(rows.size() * kRecentTokens);
  std::vector<PenalizedToken> penalized;
  std::vector<TokenBias> biased;
  TokenMask masks;
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    const auto slot = static_cast<SlotId>(rows.size() - 1 - i);
    const auto ring = ring_of(rows[i]);
    std::copy(ring.begin(), ring.end(), recent.begin() + slot * kRecentTokens);
    device_rows.push_back(
        {.parameters = rows[i].parameters,
         .position = rows[i].position,
         .first_suppressed = static_cast<std::uint32_t>(suppressed.size()),
         .num_suppressed = static_cast<std::uint32_t>(rows[i].suppressed.size()),
         .slot = slot,
         .first_penalized = static_cast<std::uint32_t>(penalized.size()),
         .num_penalized = static_cast<std::uint32_t>(rows[i].penalized.size()),
         .num_pending = static_cast<std::uint32_t>(rows[i].pending.size()),
         .first_biased = static_cast<std::uint32_t>(biased.size()),
         .num_biased = static_cast<std::uint32_t>(rows[i].biased.size()),
         .first_mask_word = rows[i].allowed.empty() ? -1 : static_cast<std::int32_t>(masks.size()),
         .logprobs_row = i});
    biased.insert(biased.end(), rows[i].biased.begin(), rows[i].biased.end());
    masks.insert(masks.end(), rows[i].allowed.begin(), rows[i].allowed.end());
    penalized.insert(penalized.end(), rows[i].penalized.begin(), rows[i].penalized.end());
    suppressed.insert(suppressed.end(), rows[i].suppressed.begin(), rows[i].suppressed.end());
  }
  DeviceArray<float> memory(logits);
  DeviceArray<cuda::SampleRow> row_memory(device_rows);
  DeviceArray<PenalizedToken> penalized_memory(penalized);
  DeviceArray<TokenBias> biased_memory(biased);
  DeviceArray<float> biased_logits(std::vector<float>(biased.size()));
  DeviceArray<std::uint32_t> mask_memory(masks);
  DeviceArray<float> penalized_logits(std::vector<float>(penalized.size()));
  DeviceArray<cuda::RowLogprobs> logprobs{std::vector<cuda::RowLogprobs>(rows.size())};
  DeviceArray<std::int32_t> suppressed_memory(suppressed), recent_memory(recent),
      ids(std::vector<std::int32_t>(rows.size(), -7)), of_slots(std::vector<std::int32_t>(rows.size(), -7));
  cuda::launch_sample({.logits = memory.data(),
                       .logits_stride = vocabulary,
                       .vocabulary = static_cast<std::uint32_t>(vocabulary),
                       .rows = row_memory.data(),
                       .suppressed = suppressed_memory.data(),
                       .masks = mask_memory.data(),
                       .token_ids = ids.data(),
                       .tokens_of_slots = of_slots.data(),
                       .penalized = penalized_memory.data(),
                       .penalized_logits = penalized_logits.data(),
                       .biased = biased_memory.data(),
                       .biased_logits = biased_logits.data(),
                       .recent_tokens = recent_memory.data(),
                       .logprobs = logprobs.data(),
                       .num_rows = static_cast<std::uint32_t>(rows.size())},
                      nullptr);
  return {ids.values(), of_slots.values(), recent_memory.values(), logprobs.values()};
}

// exp() and log() round differently, and the host's sum is another one.
void check_same_logprobs(const cuda::RowLogprobs& drawn, const TokenLogprobs& expected) {
  constexpr double kTolerance = 2e-6;
  CHECK(drawn.logprob == doctest::Approx(expected.logprob).epsilon(kTolerance));
  REQUIRE(drawn.num_top == expected.top.size());
  for (std::size_t rank = 0; rank < expected.top.size(); ++rank) {
    CHECK(drawn.top[rank].id == expected.top[rank].id);
    if (expected.top[rank].logprob == -kInfinity) {
      CHECK(drawn.top[rank].logprob == -kInfinity);
    } else {
      CHECK(drawn.top[rank].logprob == doctest::Approx(expected.top[rank].logprob).epsilon(kTolerance));
    }
  }
}

void check_same_as_host(const std::vector<float>& logits, std::size_t vocabulary,
                        const std::vector<Row>& rows) {
  const auto expected = sample_on_host(logits, vocabulary, rows);
  auto drawn = sample(logits, vocabulary, rows);
  CHECK(drawn.token_ids == expected.token_ids);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].parameters.wants_logprobs() && expected.token_ids[i] >= 0)
      check_same_logprobs(drawn.logprobs[i], expected.logprobs[i]);
    auto ring = ring_of(rows[i]);
    ring[rows[i].position % kRecentTokens] = expected.token_ids[i];
    const auto begin = drawn.recent.begin() + (rows.size() - 1 - i) * kRecentTokens;
    CHECK(std::equal(ring.begin(), ring.end(), begin));
  }
  std::reverse(drawn.of_slots.begin(), drawn.of_slots.end());
  CHECK(drawn.of_slots == expected.token_ids);
}

// Every combination of cuts, with a seed and position each.
std::vector<Row> rows_of_all_kinds() {
  std::vector<Row> rows;
  for (const float temperature : {0.0F, 0.5F, 1.0F, 1.7F}) {
    for (const std::int32_t top_k : {0, 1, 7, 100000}) {
      for (const float top_p : {0.0F, 0.3F, 0.95F, 1.0F}) {
        for (const float min_p : {0.0F, 0.2F, 1.0F}) {
          const std::uint64_t number = rows.size();
          rows.push_back({.parameters = {.temperature = temperature,
                                         .top_p = top_p,
                                         .min_p = min_p,
                                         .top_k = top_k,
                                         .seed = 0x123456789ABCDEFULL + number},
                          .position = number * 1000});
        }
      }
    }
  }
  return rows;
}

}  // namespace

TEST_CASE("cuda sample: draws the host's tokens, whatever the cuts") {
  const auto rows = rows_of_all_kinds();
  for (const std::size_t vocabulary : {1, 31, 100, 777}) {
    CAPTURE(vocabulary);
    check_same_as_host(random_values(rows.size() * vocabulary, 3, 2.0F), vocabulary, rows);
  }
}

TEST_CASE("cuda sample: draws the host's tokens from a large vocabulary") {
  std::vector<Row> rows;
  for (std::uint64_t i = 0; i < 6; ++i) {
    rows.push_back({.parameters = {.temperature = 0.8F,
                                   .top_p = i % 2 == 0 ? 1.0F : 0.9F,
                                   .top_k = i % 3 == 0 ? 0 : 40,
                                   .seed = i},
                    .position = i});
  }
  check_same_as_host(random_values(rows.size() * 20011, 4, 3.0F), 20011, rows);
}

TEST_CASE("cuda sample: any order of threads draws the same") {
  const auto logits = random_values(4 * 500, 5, 2.0F);
  std::vector<Row> rows;
  for (std::uint64_t i = 0; i < 4; ++i) {
    rows.push_back({.parameters = {.top_p = 0.8F, .top_k = i < 2 ? 20 : 0, .seed = i}});
  }
  in_several_orders([&] { check_same_as_host(logits, 500, rows); });
}

TEST_CASE("cuda sample: many draws are the host's one by one") {
  const std::size_t vocabulary = 50;
  const auto once = random_values(vocabulary, 6, 2.0F);
  std::vector<Row> rows(300);
  std::vector<float> logits;
  for (std::uint64_t i = 0; i < rows.size(); ++i) {
    rows[i].parameters.seed = 42;
    rows[i].position = i;
    logits.insert(logits.end(), once.begin(), once.end());
  }
  check_same_as_host(logits, vocabulary, rows);
}

TEST_CASE("cuda sample: ties go to the lowest id, in the arg max and in every cut") {
  std::vector<float> logits(200, 0.0F);
  for (const std::size_t i : {150, 33, 90}) logits[i] = 2.0F;
  logits[120] = -0.0F;
  std::vector<Row> rows;
  std::vector<float> all;
  for (const std::int32_t top_k : {1, 2, 3, 5, 100}) {
    for (const float temperature : {0.0F, 1.0F}) {
      rows.push_back({.parameters = {.temperature = temperature, .top_k = top_k, .seed = 9}});
      all.insert(all.end(), logits.begin(), logits.end());
    }
  }
  check_same_as_host(all, 200, rows);
  const std::vector<float> equal(64, -3.0F);
  check_same_as_host(equal, 64, {Row{.parameters = {.temperature = 0.0F}}});
  check_same_as_host(equal, 64, {Row{.parameters = {.top_k = 10, .seed = 3}}});
  check_same_as_host(equal, 64, {Row{.parameters = {.top_p = 0.5F, .seed = 4}}});
}

TEST_CASE("cuda sample: thousands of small weights count as much together as they do on the host") {
  constexpr std::size_t kVocabulary = 8200;
  std::vector<float> once(kVocabulary, -9.1F);  // each some 2^31 of 2^44: their sum is in the high word
  once[17] = 0.0F;
  std::vector<Row> rows;
  std::vector<float> logits;
  for (const float top_p : {0.6F, 0.75F, 0.95F}) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      rows.push_back({.parameters = {.top_p = top_p, .seed = seed}});
      logits.insert(logits.end(), once.begin(), once.end());
    }
  }
  check_same_as_host(logits, kVocabulary, rows);
}

TEST_CASE("cuda sample: suppressed ids are not drawn, ids outside the vocabulary ignored") {
  std::vector<float> logits = random_values(2 * 40, 7);
  logits[5] = 50.0F;
  logits[40 + 5] = 50.0F;
  const std::vector<std::int32_t> suppressed{5, -1, 40, 1000, 6};
  check_same_as_host(logits, 40,
                     {Row{.parameters = {.temperature = 0.0F}, .suppressed = suppressed},
                      Row{.parameters = {.seed = 1}, .suppressed = suppressed}});
}

TEST_CASE("cuda sample: broken logits and rows without a token give -1") {
  const std::vector<Row> rows(6);
  std::vector<float> logits(6 * 3, 0.0F);
  logits[1] = std::numeric_limits<float>::quiet_NaN();
  logits[3 + 2] = kInfinity;
  std::fill_n(logits.begin() + 6, 3, -kInfinity);
  logits[9] = -kInfinity;  // one that cannot be drawn is no fault
  std::fill_n(logits.begin() + 15, 3, -std::numeric_limits<float>::max());
  const auto drawn = sample(logits, 3, rows).token_ids;
  CHECK(drawn == sample_on_host(logits, 3, rows).token_ids);
  CHECK(drawn[0] == -1);
  CHECK(drawn[1] == -1);
  CHECK(drawn[2] == -1);
  CHECK(drawn[3] > 0);
  CHECK(drawn[5] >= 0);
  CHECK(sample({}, 3, {}).token_ids.empty());
}

TEST_CASE("cuda sample: a temperature next to zero is the arg max") {
  check_same_as_host(random_values(64, 8), 64, {Row{.parameters = {.temperature = 1e-40F}}});
}

namespace {

void add_biases(Row& row, std::size_t vocabulary, std::mt19937& random) {
  for (std::size_t id = random() % 3; id < vocabulary; id += 1 + random() % 40)
    row.biased.push_back(
        {.id = static_cast<std::int32_t>(id), .bias = static_cast<float>(random() % 80) / 16 - 2.5F});
  row.biased.push_back({.id = static_cast<std::int32_t>(vocabulary), .bias = 50.0F});  // no token
}

// Half of the ids, of which the last may be drawn.
void add_mask(Row& row, std::size_t vocabulary, std::mt19937& random) {
  row.allowed.resize(mask_words(vocabulary));
  for (std::uint32_t& word : row.allowed) word = static_cast<std::uint32_t>(random());
  row.allowed[(vocabulary - 1) / 32] |= 1U << ((vocabulary - 1) % 32);
}

// Rows with penalties of all kinds, tokens listed and pending, cuts and none.
std::vector<Row> penalized_rows(std::size_t vocabulary, std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto any_id = [&] { return static_cast<std::int32_t>(random() % vocabulary); };
  std::vector<Row> rows(24);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Row& row = rows[i];
    row.parameters = {.temperature = i % 3 == 0 ? 0.0F : 0.9F,
                      .top_p = i % 4 == 1 ? 0.8F : 1.0F,
                      .top_k = i % 4 == 2 ? 9 : 0,
                      .seed = i,
                      .repetition_penalty = i % 2 == 0 ? 1.0F : 1.3F,
                      .frequency_penalty = i % 5 == 0 ? 0.0F : 0.7F,
                      .presence_penalty = i % 7 == 0 ? 0.0F : -0.4F,
                      .top_logprobs = static_cast<std::int32_t>(i % 6) - 1};
    row.position = 100 + i;
    std::vector<bool> is_listed(vocabulary);
    for (std::size_t number = random() % vocabulary; number > 0; --number) {
      const std::int32_t id = any_id();
      if (is_listed[static_cast<std::size_t>(id)]) continue;
      is_listed[static_cast<std::size_t>(id)] = true;
      row.penalized.push_back({.id = id, .num_generated = static_cast<std::uint32_t>(random() % 4)});
    }
    const std::size_t num_pending = random() % (kRecentTokens + 1);
    while (row.pending.size() < num_pending)  // with repetitions
      row.pending.push_back(random() % 3 == 0 && !row.pending.empty() ? row.pending[0] : any_id());
    if (i % 4 == 3) row.suppressed = {any_id(), any_id()};
    if (i % 3 == 1) add_biases(row, vocabulary, random);
    if (i % 5 == 2) add_mask(row, vocabulary, random);
  }
  return rows;
}

}  // namespace

TEST_CASE("cuda sample: penalties and log-probabilities are the host's") {
  for (const std::size_t vocabulary : {5, 33, 300}) {
    CAPTURE(vocabulary);
    const auto rows = penalized_rows(vocabulary, 11);
    check_same_as_host(random_values(rows.size() * vocabulary, 12, 2.0F), vocabulary, rows);
  }
}

TEST_CASE("cuda sample: penalties and log-probabilities in any order of threads") {
  auto rows = penalized_rows(150, 13);
  rows.resize(6);
  const auto logits = random_values(rows.size() * 150, 14, 2.0F);
  in_several_orders([&] { check_same_as_host(logits, 150, rows); });
}

TEST_CASE("cuda sample: penalties and log-probabilities in a large vocabulary") {
  constexpr std::size_t kVocabulary = 9001;
  auto rows = penalized_rows(kVocabulary, 15);
  rows.resize(4);
  for (Row& row : rows) row.parameters.top_logprobs = kMaxTopLogprobs;
  check_same_as_host(random_values(rows.size() * kVocabulary, 16, 3.0F), kVocabulary, rows);
}

TEST_CASE("cuda sample: a token has been generated as often, wherever that is known") {
  const std::size_t vocabulary = 40;
  const auto logits = random_values(vocabulary, 17, 0.2F);
  const Row known{.parameters = {.seed = 3, .frequency_penalty = 0.5F, .top_logprobs = 2},
                  .position = 9,
                  .penalized = {{.id = 4, .num_generated = 3}, {.id = 30, .num_generated = 1}}};
  Row partly = known;
  partly.penalized = {{.id = 4, .num_generated = 1}};
  partly.pending = {4, 30, 4};
  const auto expected = sample(logits, vocabulary, {known});
  const auto drawn = sample(logits, vocabulary, {partly});
  CHECK(drawn.token_ids == expected.token_ids);
  CHECK(drawn.logprobs[0].logprob == expected.logprobs[0].logprob);
}

TEST_CASE("cuda sample: asking for log-probabilities changes no draw") {
  auto rows = rows_of_all_kinds();
  const auto logits = random_values(rows.size() * 60, 18, 2.0F);
  const auto without = sample(logits, 60, rows).token_ids;
  for (Row& row : rows) row.parameters.top_logprobs = 0;
  CHECK(sample(logits, 60, rows).token_ids == without);
}

TEST_CASE("cuda sample: the most likely of ties are those with the lowest ids") {
  std::vector<float> logits(70, -1.0F);
  logits[50] = logits[20] = 3.0F;
  logits[69] = -kInfinity;
  const Row row{.parameters = {.temperature = 0.0F, .top_logprobs = 5}};
  check_same_as_host(logits, 70, {row});
  const auto top = sample(logits, 70, {row}).logprobs[0];
  CHECK(top.top[0].id == 20);
  CHECK(top.top[1].id == 50);
  CHECK(top.top[2].id == 0);
  check_same_as_host({1.0F, -kInfinity, 2.0F}, 3, {row});  // fewer than were asked for
}
