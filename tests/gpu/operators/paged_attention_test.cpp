// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/paged_attention.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <random>

#include "gpu/cpu/kernels/attention/paged_attention.hpp"
#include "gpu/cuda/kernels/attention/paged_attention.hpp"
#include "tests/gpu/operators/backends.hpp"

using namespace troupe;

namespace paged_attention_test {
namespace {

constexpr std::uint32_t kLayer = 1;
constexpr std::uint32_t kGroup = 3, kKvHeads = 2;

// The last `num_new` tokens of a sequence are queries.
struct Context {
  std::uint32_t length, num_new;
};

// Sequences in shuffled pages of a pool that is NaN elsewhere.
struct Input {
  KvLayout layout;
  std::uint32_t window;
  AttendedPart part = AttendedPart::kAll;
  std::vector<Context> contexts;
  std::vector<PageId> page_table;
  std::vector<SequenceSlice> slices;
  std::vector<float> pool, queries;  // as the backend's type can hold them

  Input(const OperatorBackend& backend, std::size_t head_dim, std::uint32_t window,
        std::vector<Context> of_sequences)
      : window(window), contexts(std::move(of_sequences)) {
    std::uint32_t num_pages = 0;
    for (const Context& context : contexts) {
      SequenceSlice& slice = slices.emplace_back();
      slice.num_tokens = context.num_new;
      slice.context_length = context.length - context.num_new;
      slice.first_page = num_pages;
      num_pages += (context.length + 31) / 32;
    }
    layout = {.num_layers = 2,
              .num_pages = num_pages + 1,
              .num_kv_heads = kKvHeads,
              .head_dim = head_dim,
              .type = backend.type};
    page_table.resize(num_pages);
    std::iota(page_table.begin(), page_table.end(), 0);
    std::mt19937 random(3);
    std::shuffle(page_table.begin(), page_table.end(), random);
    pool.assign(kv_pool_bytes(layout) / size_of(layout.type), std::numeric_limits<float>::quiet_NaN());
    for (std::size_t s = 0; s < contexts.size(); ++s) fill(s);
  }

  std::size_t num_heads() const { return kGroup * kKvHeads; }
  std::size_t width() const { return num_heads() * layout.head_dim; }
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(layout.head_dim)); }
  std::size_t key(std::size_t s, std::size_t token, std::size_t head, std::size_t d) const {
    return block(s, token, head) + kv_key_element(layout, token % 32, d);
  }
  std::size_t value(std::size_t s, std::size_t token, std::size_t head, std::size_t d) const {
    return block(s, token, head) + kv_value_element(layout, token % 32, d);
  }

 private:
  // Numbers depend on the length alone, not on what is beside the sequence.
  void fill(std::size_t s) {
    const std::uint32_t length = contexts[s].length;
    const std::size_t count = std::size_t{length} * kKvHeads * layout.head_dim;
    const auto keys = as_stored(layout.type, random_values(count, length));
    const auto values = as_stored(layout.type, random_values(count, length + 1000));
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t d = i % layout.head_dim, head = i / layout.head_dim % kKvHeads;
      const std::size_t token = i / layout.head_dim / kKvHeads;
      pool[key(s, token, head, d)] = keys[i];
      pool[value(s, token, head, d)] = values[i];
    }
    const auto asked =
        as_stored(layout.type, random_values(contexts[s].num_new * width(), length + 2000, 1.5F));
    queries.insert(queries.end(), asked.begin(), asked.end());
  }
  std::size_t block(std::size_t s, std::size_t token, std::size_t head) const {
    return kv_block_offset(layout, kLayer, page_table[slices[s].first_page + token / 32], head) /
           size_of(layout.type);
  }
};

struct Free {
  void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{64}); }
};

// With more threads long contexts are split into tasks.
std::vector<float> on_cpu(const OperatorBackend& backend, const Input& input, std::size_t num_threads = 1) {
  const std::size_t bytes = kv_pool_bytes(input.layout);
  const std::unique_ptr<std::byte, Free> pool(
      static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64})));
  CpuBuffer stored(backend.type, input.pool);
  std::memcpy(pool.get(), stored.data(), bytes);
  CpuBuffer attended(backend.type, std::vector<float>(input.queries.size(), NAN));
  const auto blocks = split_blocks(plan_attention(input.slices, input.num_heads(), kKvHeads),
                                   input.num_heads(), input.layout, num_threads);
  std::vector<float> partials(blocks.num_partial_floats, NAN);
  const PagedAttentionArguments arguments{.blocks = blocks.blocks,
                                          .merges = blocks.merges,
                                          .partials = partials.data(),
                                          .page_table = input.page_table.data(),
                                          .kv_pool = pool.get(),
                                          .layout = input.layout,
                                          .layer = kLayer,
                                          .num_heads = input.num_heads(),
                                          .queries = input.queries.data(),
                                          .query_stride = input.width(),
                                          .attended = attended.data(),
                                          .attended_type = backend.type,
                                          .attended_stride = input.width(),
                                          .part = input.part,
                                          .window = input.window,
                                          .scale = input.scale(),
                                          .isa = backend.isa};
  run_tasks(arguments, paged_attention_num_tasks(arguments), paged_attention_run_task);
  run_tasks(arguments, merge_splits_num_tasks(arguments), merge_splits_run_task);
  return attended.values();
}

// Contexts are split at every second page, so some rows are merged.
std::vector<float> on_gpu(const OperatorBackend& backend, const Input& input) {
  const auto plan =
      cuda::plan_attention(input.slices, {.group_size = kGroup, .split_tokens = 64, .window = input.window});
  DeviceArray<cuda::AttentionItem> items[] = {DeviceArray(plan.items[0]), DeviceArray(plan.items[1]),
                                              DeviceArray(plan.items[2]), DeviceArray(plan.items[3])};
  DeviceArray<cuda::AttentionMerge> merges(plan.merges);
  cuda::DeviceAttentionPlan device_plan{.merges = merges.data(),
                                        .num_merges = static_cast<std::uint32_t>(plan.merges.size())};
  for (std::size_t c = 0; c < plan.items.size(); ++c) {
    device_plan.items[c] = items[c].data();
    device_plan.num_items[c] = static_cast<std::uint32_t>(plan.items[c].size());
  }
  TypedBuffer pool(backend.type, input.pool), queries(backend.type, input.queries),
      attended(backend.type, std::vector<float>(input.queries.size(), NAN));
  DeviceArray<PageId> page_table(input.page_table);
  DeviceArray<float> partials(
      std::vector<float>(cuda::attention_partial_floats(input.layout, plan.num_partials), NAN));
  cuda::launch_paged_attention({.page_table = page_table.data(),
                                .pool = static_cast<const std::byte*>(pool.data()),
                                .layout = input.layout,
                                .layer = kLayer,
                                .group_size = kGroup,
                                .window = input.window,
                                .scale = input.scale(),
                                .queries = queries.data(),
                                .query_stride = input.width(),
                                .attended = attended.data(),
                                .attended_stride = input.width(),
                                .partials = partials.data()},
                               device_plan, nullptr);
  return attended.values();
}

std::vector<float> run(const OperatorBackend& backend, const Input& input) {
  return backend.is_gpu ? on_gpu(backend, input) : on_cpu(backend, input);
}

// The softmax of one token's head over what it may see, times the values.
std::vector<double> expected_row(const Input& input, std::size_t s, std::size_t position, std::size_t head,
                                 const float* query) {
  const std::size_t num_source = input.slices[s].source_tokens, kv_head = head / kGroup;
  const std::size_t end = input.part == AttendedPart::kSource ? num_source : position + 1;
  std::size_t first = input.part == AttendedPart::kAnswer ? num_source : 0;
  if (input.window != 0 && end > input.window) first = std::max<std::size_t>(first, end - input.window);
  const std::size_t num_seen = end - first;
  std::vector<double> weights(num_seen), sum(input.layout.head_dim);
  double total = 0.0;
  for (std::size_t i = 0; i < num_seen; ++i) {
    double score = 0.0;
    for (std::size_t d = 0; d < sum.size(); ++d)
      score += double{query[d]} * input.pool[input.key(s, first + i, kv_head, d)];
    weights[i] = std::exp(score / std::sqrt(static_cast<double>(sum.size())));
    total += weights[i];
  }
  for (std::size_t i = 0; i < num_seen; ++i)
    for (std::size_t d = 0; d < sum.size(); ++d)
      sum[d] += weights[i] / total * input.pool[input.value(s, first + i, kv_head, d)];
  return sum;
}

double worst_against_f64(const Input& input, const std::vector<float>& attended) {
  REQUIRE(attended.size() == input.queries.size());
  const std::size_t head_dim = input.layout.head_dim;
  double worst = 0.0;
  std::size_t at = 0;
  for (std::size_t s = 0; s < input.contexts.size(); ++s) {
    const auto [length, num_new] = input.contexts[s];
    for (std::size_t position = length - num_new; position < length; ++position) {
      for (std::size_t head = 0; head < input.num_heads(); ++head, at += head_dim) {
        const auto expected = expected_row(input, s, position, head, &input.queries[at]);
        for (std::size_t d = 0; d < head_dim; ++d) {
          const double error =
              std::abs(attended[at + d] - expected[d]) / std::max(1.0, std::abs(expected[d]));
          worst = std::isnan(error) ? error : std::max(worst, error);
        }
      }
    }
  }
  return worst;
}

}  // namespace

// Scales of these head sizes are powers of two: scaled queries are exact in every type.
TEST_CASE("paged_attention: prefill and decode in one batch equal f64, windowed or not") {
  on_every_backend([](const OperatorBackend& backend) {
    const double rounding = backend.type == DataType::kF32 ? 0.0 : rounding_of(backend.type);
    for (const std::size_t head_dim : {16, 64}) {
      for (const std::uint32_t window : {0U, 20U}) {
        CAPTURE(head_dim);
        CAPTURE(window);
        // A prefill, a decode at a page's end behind a split, a chunk across pages, one token.
        const Input input(backend, head_dim, window, {{9, 9}, {96, 1}, {41, 11}, {1, 1}});
        CHECK(worst_against_f64(input, run(backend, input)) <= 2e-5 + rounding);
      }
    }
  });
}

TEST_CASE("paged_attention: a sequence's bits do not depend on its pages or on what is beside it") {
  on_every_backend([](const OperatorBackend& backend) {
    const Input input(backend, 16, 0, {{40, 7}, {70, 1}, {5, 5}});
    const auto all = run(backend, input);
    std::size_t first = 0;
    for (const Context& context : input.contexts) {
      const Input alone(backend, 16, 0, {context});
      REQUIRE(run(backend, alone) == rows_of(all, input.width(), first, context.num_new));
      first += context.num_new;
    }
  });
}

TEST_CASE(
    "paged_attention: an answer sees its source alone, or itself alone, wherever pages end between them") {
  on_every_backend([](const OperatorBackend& backend) {
    if (backend.is_gpu) return;
    const double rounding = backend.type == DataType::kF32 ? 0.0 : rounding_of(backend.type);
    for (const auto part : {AttendedPart::kSource, AttendedPart::kAnswer}) {
      Input input(backend, 16, 0, {{9, 4}, {96, 1}, {75, 11}, {33, 1}, {70, 70 - 64}});
      const std::uint32_t sources[] = {5, 40, 33, 32, 64};
      for (std::size_t i = 0; i < std::size(sources); ++i) input.slices[i].source_tokens = sources[i];
      input.part = part;
      CHECK(worst_against_f64(input, run(backend, input)) <= 2e-5 + rounding);
    }
  });
}

// Windows of 20 leave splits out, and of 600 a part of one; sources end within a split.
TEST_CASE("paged_attention: contexts of several splits equal f64, by one thread or many") {
  on_every_backend([](const OperatorBackend& backend) {
    if (backend.is_gpu) return;
    const double rounding = backend.type == DataType::kF32 ? 0.0 : rounding_of(backend.type);
    for (const auto part : {AttendedPart::kAll, AttendedPart::kSource, AttendedPart::kAnswer}) {
      for (const std::uint32_t window : {0U, 20U, 600U}) {
        if (part != AttendedPart::kAll && window != 0) continue;
        CAPTURE(window);
        Input input(backend, 16, window, {{1'100, 1}, {1'025, 3}, {40, 2}});
        const std::uint32_t sources[] = {520, 1'020, 5};
        for (std::size_t i = 0; i < std::size(sources) && part != AttendedPart::kAll; ++i)
          input.slices[i].source_tokens = sources[i];
        input.part = part;
        const auto by_one = on_cpu(backend, input, 1);
        CHECK(worst_against_f64(input, by_one) <= 2e-5 + rounding);
        CHECK(on_cpu(backend, input, 16) == by_one);
      }
    }
  });
}

TEST_CASE("paged_attention: no slices are no work") {
  on_every_backend(
      [](const OperatorBackend& backend) { CHECK(run(backend, Input(backend, 16, 0, {})).empty()); });
}

}  // namespace paged_attention_test
