// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/sample.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "gpu/host/kernels/sample.hpp"
#include "tests/gpu/cuda/kernels/device_array.hpp"
#include "tests/gpu/kernels/random_values.hpp"

using namespace troupe;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Row {
  SamplingParameters parameters{};
  std::uint64_t position = 0;
  std::vector<std::int32_t> suppressed{};
};

std::vector<std::int32_t> sample_on_host(const std::vector<float>& logits, std::size_t vocabulary,
                                         const std::vector<Row>& rows) {
  std::vector<SampleRow> host_rows;
  for (const auto& row : rows) {
    host_rows.push_back(
        {.parameters = row.parameters, .position = row.position, .suppressed = row.suppressed});
  }
  std::vector<std::int32_t> ids(rows.size());
  const SampleArguments arguments{.logits = logits.data(),
                                  .logits_stride = vocabulary,
                                  .vocabulary = vocabulary,
                                  .rows = host_rows,
                                  .token_ids = ids.data()};
  for (std::size_t task = 0; task < rows.size(); ++task) sample_run_task(arguments, task);
  return ids;
}

struct Drawn {
  std::vector<std::int32_t> token_ids, of_slots;
};

Drawn sample(const std::vector<float>& logits, std::size_t vocabulary,
             const std::vector<Row>& rows) {
  std::vector<cuda::SampleRow> device_rows;
  std::vector<std::int32_t> suppressed;
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    device_rows.push_back({.parameters = rows[i].parameters,
                           .position = rows[i].position,
                           .first_suppressed = static_cast<std::uint32_t>(suppressed.size()),
                           .num_suppressed = static_cast<std::uint32_t>(rows[i].suppressed.size()),
                           .slot = static_cast<SlotId>(rows.size() - 1 - i)});
    suppressed.insert(suppressed.end(), rows[i].suppressed.begin(), rows[i].suppressed.end());
  }
  DeviceArray<float> memory(logits);
  DeviceArray<cuda::SampleRow> row_memory(device_rows);
  DeviceArray<std::int32_t> suppressed_memory(suppressed),
      ids(std::vector<std::int32_t>(rows.size(), -7)),
      of_slots(std::vector<std::int32_t>(rows.size(), -7));
  cuda::launch_sample({.logits = memory.data(),
                       .logits_stride = vocabulary,
                       .vocabulary = static_cast<std::uint32_t>(vocabulary),
                       .rows = row_memory.data(),
                       .suppressed = suppressed_memory.data(),
                       .token_ids = ids.data(),
                       .tokens_of_slots = of_slots.data(),
                       .num_rows = static_cast<std::uint32_t>(rows.size())},
                      nullptr);
  return {ids.values(), of_slots.values()};
}

void check_same_as_host(const std::vector<float>& logits, std::size_t vocabulary,
                        const std::vector<Row>& rows) {
  const auto expected = sample_on_host(logits, vocabulary, rows);
  auto drawn = sample(logits, vocabulary, rows);
  CHECK(drawn.token_ids == expected);
  std::reverse(drawn.of_slots.begin(), drawn.of_slots.end());
  CHECK(drawn.of_slots == expected);
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
  CHECK(drawn == sample_on_host(logits, 3, rows));
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
