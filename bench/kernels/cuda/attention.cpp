// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>

#include "bench/kernels/cuda/suite.hpp"
#include "gpu/cuda/attention_plan.hpp"
#include "gpu/cuda/kernels/attention/paged_attention.hpp"

namespace troupe::bench {
namespace {

using namespace troupe::cuda;

// Llama-3.1-8B's, or next to nothing.
struct Heads {
  std::uint32_t group, kv_heads, head_dim;
  std::uint32_t query_width() const { return group * kv_heads * head_dim; }
  // Bytes of keys and values of a token, one layer, bf16.
  double kv_bytes() const { return 2.0 * 2.0 * kv_heads * head_dim; }
};

// Every sequence has `tokens` new tokens at the end of `context`.
struct AttentionBatch {
  std::uint32_t sequences = 1, context = 0, tokens = 1;
  bool is_scattered = true;  // else neighbouring pages
};

DeviceAttentionPlan on_device(const AttentionPlan& plan, std::vector<DeviceBuffer>& memory) {
  memory.push_back(copy_of(plan.merges));
  DeviceAttentionPlan result{.merges = as<AttentionMerge>(memory.back()),
                             .num_merges = static_cast<std::uint32_t>(plan.merges.size())};
  for (std::size_t c = 0; c < plan.items.size(); ++c) {
    memory.push_back(copy_of(plan.items[c]));
    result.items[c] = as<AttentionItem>(memory.back());
    result.num_items[c] = static_cast<std::uint32_t>(plan.items[c].size());
  }
  return result;
}

// Seconds of one layer.
double time_attention(const Bench& bench, const Heads& heads, const AttentionBatch& batch) {
  const auto pages = static_cast<std::uint32_t>((batch.context + kKvPageTokens - 1) / kKvPageTokens);
  KvLayout layout{.num_layers = 1,
                  .num_pages = pages * batch.sequences,
                  .num_kv_heads = heads.kv_heads,
                  .head_dim = heads.head_dim,
                  .type = DataType::kBF16};
  // As many layers as are needed to read past the caches.
  const std::size_t rotated = bench.pick(std::size_t{1} << 30, std::size_t{1});
  layout.num_layers = std::max<std::size_t>(1, rotated / kv_pool_bytes(layout));
  std::vector<SequenceSlice> slices(batch.sequences);
  for (std::uint32_t s = 0; s < batch.sequences; ++s) {
    slices[s].num_tokens = batch.tokens;
    slices[s].context_length = batch.context - batch.tokens;
    slices[s].first_page = s * pages;
  }
  const AttentionPlan plan =
      plan_attention(slices, {.group_size = heads.group, .has_tiles = can_tile_attention(layout)});
  std::vector<DeviceBuffer> plan_memory;
  const DeviceAttentionPlan device_plan = on_device(plan, plan_memory);
  std::vector<PageId> page_table(layout.num_pages);
  std::iota(page_table.begin(), page_table.end(), 0);
  if (batch.is_scattered) std::shuffle(page_table.begin(), page_table.end(), std::minstd_rand(1));
  const std::size_t num_queries = std::size_t{batch.sequences} * batch.tokens * heads.query_width();
  const DeviceBuffer pool = random_buffer(DataType::kBF16, kv_pool_bytes(layout) / 2),
                     table = copy_of(page_table), queries = random_buffer(DataType::kBF16, num_queries),
                     attended = device_buffer(num_queries * 2),
                     partials =
                         device_buffer(attention_partial_floats(layout, plan.num_partials) * sizeof(float));
  return bench.stopwatch.seconds_of([&](std::size_t i) {
    launch_paged_attention({.page_table = as<std::uint32_t>(table),
                            .pool = pool.get(),
                            .layout = layout,
                            .layer = static_cast<std::uint32_t>(i % layout.num_layers),
                            .group_size = heads.group,
                            .scale = 1.0F / std::sqrt(static_cast<float>(heads.head_dim)),
                            .queries = queries.get(),
                            .query_stride = heads.query_width(),
                            .attended = attended.get(),
                            .attended_stride = heads.query_width(),
                            .partials = as<float>(partials)},
                           device_plan, bench.stopwatch.stream());
  });
}

void bench_decode(Bench& bench, const Heads& heads) {
  struct Decode {
    std::uint32_t sequences, context;
    std::optional<Goal> goal = {};
  };
  for (const auto& [sequences, context, goal] :
       {Decode{1, 1024}, Decode{64, 256, Goal{.at_least = 0.55}}, Decode{64, 1024},
        Decode{64, 16384, Goal{.at_least = 0.85}}, Decode{1, 32768}}) {
    const std::uint32_t tiny_sequences = std::min(sequences, 2U);
    const double seconds = time_attention(
        bench, heads,
        {.sequences = bench.pick(sequences, tiny_sequences), .context = bench.pick(context, 40U)});
    const double bytes = heads.kv_bytes() * sequences * context;
    bench.recorder.add({.id = "decode_attention_" + std::to_string(sequences) + "x" + std::to_string(context),
                        .title = "paged decode attention, " + times(sequences, context),
                        .value = bytes / seconds / bench.limits.read_rate,
                        .unit = "of read bandwidth",
                        .goal = goal,
                        .details = {{"us", seconds * 1e6}, {"gb_per_s", bytes / seconds * 1e-9}}});
  }
}

// Pensieve's figure 3.17: what scattered pages cost.
void bench_mixed(Bench& bench, const Heads& heads) {
  for (const std::uint32_t context : {512U, 2048U, 8192U}) {
    AttentionBatch batch{
        .sequences = bench.pick(32U, 2U), .context = bench.pick(context, 40U), .tokens = bench.pick(8U, 2U)};
    // In turn; the pair whose ratio is the median.
    std::vector<std::pair<double, double>> times;
    for (int repeat = 0; repeat < bench.pick(3, 1); ++repeat) {
      batch.is_scattered = true;
      const double scattered = time_attention(bench, heads, batch);
      batch.is_scattered = false;
      times.emplace_back(scattered, time_attention(bench, heads, batch));
    }
    std::sort(times.begin(), times.end(),
              [](const auto& a, const auto& b) { return a.first * b.second < b.first * a.second; });
    const auto [scattered, contiguous] = times[times.size() / 2];
    bench.recorder.add({.id = "mixed_attention_32x8_of_" + std::to_string(context),
                        .title = "32 x 8 new tokens of " + std::to_string(context) + " on scattered pages",
                        .value = scattered / contiguous,
                        .unit = "of neighbouring pages' time",
                        .goal = Goal{.at_most = 1.05},
                        .details = {{"us", scattered * 1e6}, {"neighbouring_us", contiguous * 1e6}}});
  }
}

void bench_prefill(Bench& bench, const Heads& heads) {
  for (const std::uint32_t tokens : {2048U, 8192U}) {
    const std::uint32_t run = bench.pick(tokens, 20U);
    const double seconds = time_attention(bench, heads, {.context = run, .tokens = run});
    const double operations = 2.0 * tokens * tokens * heads.query_width();  // half of both products
    const bool is_long = tokens == 8192;
    bench.recorder.add({.id = "prefill_attention_" + std::to_string(tokens),
                        .title = "causal attention of " + std::to_string(tokens) + " tokens",
                        .value = operations / seconds / bench.limits.product_rate,
                        .unit = "of product rate",
                        .goal = is_long ? std::optional(Goal{.at_least = 0.60}) : std::nullopt,
                        .details = {{"us", seconds * 1e6}, {"tflop_per_s", operations / seconds * 1e-12}}});
  }
}

}  // namespace

void bench_attention(Bench& bench) {
  const Heads heads = bench.pick(Heads{4, 8, 128}, Heads{2, 1, 64});
  bench_decode(bench, heads);
  bench_mixed(bench, heads);
  bench_prefill(bench, heads);
}

}  // namespace troupe::bench
