// SPDX-License-Identifier: Apache-2.0
// A layer of LFM2-1.2B's short convolutions, whose state lies in pages: a decode step of 64 sequences, and
// the tokens of one prompt.
#include <algorithm>
#include <numeric>
#include <random>

#include "bench/kernels/cuda/suite.hpp"
#include "gpu/cuda/kernels/short_convolution.hpp"

namespace troupe::bench {
namespace {

using namespace troupe::cuda;

// Tokens at consecutive positions, `tokens` of each sequence, the first one behind a page.
struct ConvolvedBatch {
  std::uint32_t sequences = 1, tokens = 1;
  std::uint32_t num_tokens() const { return sequences * tokens; }
};

struct Places {
  std::uint32_t num_pages = 0;
  std::vector<TokenPlace> places = {};
  std::vector<PageId> previous_pages = {};
};

// Pages lie anywhere.
Places places_of(const ConvolvedBatch& batch) {
  const auto page_tokens = static_cast<std::uint32_t>(kKvPageTokens);
  const std::uint32_t pages = 1 + (batch.tokens + page_tokens - 1) / page_tokens;
  Places result{.num_pages = pages * batch.sequences};
  std::vector<PageId> page_table(result.num_pages);
  std::iota(page_table.begin(), page_table.end(), 0);
  std::shuffle(page_table.begin(), page_table.end(), std::minstd_rand(1));
  for (std::uint32_t sequence = 0; sequence < batch.sequences; ++sequence) {
    for (std::uint32_t i = 0; i < batch.tokens; ++i) {
      const std::uint32_t position = page_tokens + i;
      const PageId* page = &page_table[sequence * pages + position / page_tokens];
      result.places.push_back({position, *page});
      result.previous_pages.push_back(*(page - 1));
    }
  }
  return result;
}

double time_convolution(const Bench& bench, const ConvolvedBatch& batch, std::uint32_t width) {
  const Places places = places_of(batch);
  const std::uint32_t kv_heads = bench.pick(8U, 1U), head_dim = bench.pick(64U, 8U);
  const KvLayout layout{.num_layers = width / (2 * kv_heads * head_dim),
                        .num_pages = places.num_pages,
                        .num_kv_heads = kv_heads,
                        .head_dim = head_dim,
                        .type = DataType::kBF16};
  const std::size_t count = std::size_t{batch.num_tokens()} * width;
  const DeviceBuffer bcx = random_buffer(DataType::kBF16, 3 * count),
                     weight = random_buffer(DataType::kF32, std::size_t{3} * width),
                     pool = random_buffer(DataType::kBF16, kv_pool_bytes(layout) / 2),
                     y = device_buffer(count * 2), of_tokens = copy_of(places.places),
                     previous = copy_of(places.previous_pages);
  return bench.stopwatch.seconds_of([&](std::size_t) {
    launch_short_convolution({.bcx = bcx.get(),
                              .bcx_stride = std::size_t{3} * width,
                              .weight = as<float>(weight),
                              .num_taps = 3,
                              .width = width,
                              .places = as<TokenPlace>(of_tokens),
                              .previous_pages = as<PageId>(previous),
                              .num_tokens = batch.num_tokens(),
                              .pool = pool.get(),
                              .layout = layout,
                              .num_layers = static_cast<std::uint32_t>(layout.num_layers),
                              .y = y.get(),
                              .y_stride = width},
                             bench.stopwatch.stream());
  });
}

}  // namespace

void bench_convolutions(Bench& bench) {
  const std::uint32_t width = bench.pick(2048U, 32U);
  const double step = time_convolution(bench, {.sequences = bench.pick(64U, 3U)}, width);
  bench.recorder.add({.id = "short_convolution_64",
                      .title = "short convolution of 64 tokens, 2048 channels, both kernels",
                      .value = step * 1e6,
                      .unit = "us",
                      .goal = Goal{.at_most = 8.0}});
  const ConvolvedBatch prompt{.tokens = bench.pick(8192U, 40U)};
  const double seconds = time_convolution(bench, prompt, width);
  // b, c, x, u written and read once, y.
  const double bytes = 6.0 * 2.0 * prompt.num_tokens() * width;
  bench.recorder.add({.id = "short_convolution_8192",
                      .title = "short convolution of 8192 tokens, 2048 channels",
                      .value = bytes / seconds / bench.limits.copy_rate,
                      .unit = "of copy bandwidth",
                      .goal = Goal{.at_least = 0.5},
                      .details = {{"us", seconds * 1e6}}});
}

}  // namespace troupe::bench
