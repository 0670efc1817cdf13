// SPDX-License-Identifier: Apache-2.0
// The CUDA kernels against this GPU's limits, measured in the same run: bytes
// that must be moved over the bandwidth of a copy, or operations over the rate of
// cuBLASLt. Shapes are those of Llama-3.1-8B. Needs a GPU; ends with status 77
// without one.
//
//   bench_cuda_kernels
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>

#include "bench/cuda/device.hpp"
#include "gpu/cuda/attention_plan.hpp"
#include "gpu/cuda/kernels/activation.hpp"
#include "gpu/cuda/kernels/few_token_product.hpp"
#include "gpu/cuda/kernels/gated_product.hpp"
#include "gpu/cuda/kernels/norm.hpp"
#include "gpu/cuda/kernels/paged_attention.hpp"
#include "gpu/cuda/kernels/qkv_product.hpp"
#include "gpu/cuda/kernels/residual_product.hpp"
#include "gpu/cuda/kernels/sample.hpp"
#include "gpu/cuda/kernels/softmax.hpp"

using namespace troupe;
using namespace troupe::cuda;

namespace {

constexpr std::uint32_t kHidden = 4096, kIntermediate = 14336, kVocabulary = 128256;
constexpr std::uint32_t kGroup = 4, kKvHeads = 8, kHeadDim = 128;
constexpr std::uint32_t kQueryWidth = kGroup * kKvHeads * kHeadDim;
constexpr std::size_t kRotated = std::size_t{1} << 30;  // more than any cache

void print_row(const char* kernel, const std::string& shape, double seconds, double share) {
  std::printf("%-20s %-28s %10.1f us   %5.3f of the limit\n", kernel, shape.c_str(), seconds * 1e6,
              share);
}

// Every sequence has `tokens` new tokens at the end of `context`, on scattered
// or neighbouring pages. Seconds.
double time_attention(std::uint32_t sequences, std::uint32_t context, std::uint32_t tokens,
                      bool is_scattered) {
  const std::uint32_t pages = (context + kKvPageTokens - 1) / kKvPageTokens;
  const KvLayout page{.num_layers = 1,
                      .num_pages = pages * sequences,
                      .num_kv_heads = kKvHeads,
                      .head_dim = kHeadDim,
                      .type = DataType::kBF16};
  KvLayout layout = page;  // as many layers as are needed to read past the caches
  layout.num_layers = std::max<std::size_t>(1, kRotated / kv_pool_bytes(page));
  std::vector<SequenceSlice> slices(sequences);
  for (std::uint32_t s = 0; s < sequences; ++s) {
    slices[s].num_tokens = tokens;
    slices[s].context_length = context - tokens;
    slices[s].first_page = s * pages;
  }
  const auto plan =
      plan_attention(slices, {.group_size = kGroup, .has_tiles = can_tile_attention(layout)});
  std::vector<PageId> page_table(layout.num_pages);
  std::iota(page_table.begin(), page_table.end(), 0);
  if (is_scattered) std::shuffle(page_table.begin(), page_table.end(), std::minstd_rand(1));
  const DeviceMemory pool = random_bf16(kv_pool_bytes(layout)), table = copy_of(page_table),
                     queries = random_bf16(std::size_t{sequences} * tokens * kQueryWidth * 2),
                     attended = uninitialised(std::size_t{sequences} * tokens * kQueryWidth * 2),
                     partials = uninitialised(attention_partial_floats(layout, plan.num_partials) *
                                              sizeof(float)),
                     merges = copy_of(plan.merges);
  std::array<DeviceMemory, kAttentionClasses.size()> items;
  DeviceAttentionPlan on_device{.merges = reinterpret_cast<const AttentionMerge*>(merges.get()),
                                .num_merges = static_cast<std::uint32_t>(plan.merges.size())};
  for (std::size_t c = 0; c < items.size(); ++c) {
    items[c] = copy_of(plan.items[c]);
    on_device.items[c] = reinterpret_cast<const AttentionItem*>(items[c].get());
    on_device.num_items[c] = static_cast<std::uint32_t>(plan.items[c].size());
  }
  return seconds_of([&](std::size_t i) {
    launch_paged_attention({.page_table = reinterpret_cast<const std::uint32_t*>(table.get()),
                            .pool = pool.get(),
                            .layout = layout,
                            .layer = static_cast<std::uint32_t>(i % layout.num_layers),
                            .group_size = kGroup,
                            .scale = 1.0F / std::sqrt(static_cast<float>(kHeadDim)),
                            .queries = queries.get(),
                            .query_stride = kQueryWidth,
                            .attended = attended.get(),
                            .attended_stride = kQueryWidth,
                            .partials = reinterpret_cast<float*>(partials.get())},
                           on_device, nullptr);
  });
}

void bench_attention(const Limits& limits) {
  const auto kv_bytes = [](double tokens) { return tokens * kKvHeads * kHeadDim * 2 * 2; };
  struct Decode {
    std::uint32_t sequences, context;
  };
  for (const auto& [sequences, context] :
       {Decode{1, 1024}, Decode{64, 256}, Decode{64, 1024}, Decode{64, 8192}, Decode{1, 32768}}) {
    const double seconds = time_attention(sequences, context, 1, true);
    print_row(
        "decode attention", std::to_string(sequences) + " x " + std::to_string(context), seconds,
        kv_bytes(static_cast<double>(sequences) * context) / seconds / limits.bytes_per_second);
  }
  for (const std::uint32_t tokens : {2048U, 8192U}) {
    const double seconds = time_attention(1, tokens, tokens, true);
    const double operations = 2.0 * tokens * tokens * kQueryWidth;  // half of both products
    print_row("prefill attention", std::to_string(tokens) + " tokens, causal", seconds,
              operations / seconds / limits.flops_per_second);
  }
  const double scattered = time_attention(32, 2048, 8, true);
  const double contiguous = time_attention(32, 2048, 8, false);
  std::printf("%-20s %-28s %10.1f us   %5.3f of contiguous pages' time\n", "mixed attention",
              "32 x 8 new of 2048", scattered * 1e6, scattered / contiguous);
}

// What the products of a decoder layer read and write, but for weights.
struct LayerMemory {
  DeviceMemory a = random_bf16(std::size_t{kMostFewTokens} * kIntermediate * 2);
  DeviceMemory c = uninitialised(std::size_t{kMostFewTokens} * kVocabulary * 4);
  DeviceMemory x = random_bf16(std::size_t{kMostFewTokens} * kHidden * 4);
  DeviceMemory norm_weight = random_bf16(kHidden * 4);
  DeviceMemory squares = random_bf16(std::size_t{kMostFewTokens} * num_square_parts(kHidden) * 4);
  DeviceMemory next_squares = uninitialised(kMostFewTokens * num_square_parts(kHidden) * 4);
  DeviceMemory workspace = copy_of(std::vector<std::byte>(kFewTokenWorkspaceBytes));
  DeviceMemory angles = random_bf16(std::size_t{1024} * kHeadDim * 4);  // of 1024 positions
  KvLayout layout{.num_layers = 1,
                  .num_pages = kMostFewTokens,
                  .num_kv_heads = kKvHeads,
                  .head_dim = kHeadDim,
                  .type = DataType::kBF16};
  DeviceMemory pool = uninitialised(kv_pool_bytes(layout));
  DeviceMemory places;  // a page each

  LayerMemory() {
    std::vector<TokenPlace> values;
    for (std::uint32_t i = 0; i < kMostFewTokens; ++i) values.push_back({16 * i, i});
    places = copy_of(values);
  }
};

void launch_product(const std::string& name, const FewTokenInput& input, LayerMemory& memory) {
  const auto* angles = reinterpret_cast<const float*>(memory.angles.get());
  if (name == "qkv") {
    launch_qkv_product({.input = input,
                        .queries = memory.c.get(),
                        .query_stride = kQueryWidth,
                        .places = reinterpret_cast<const TokenPlace*>(memory.places.get()),
                        .num_heads = kGroup * kKvHeads,
                        .cosines_sines = angles,
                        .pool = memory.pool.get(),
                        .layout = memory.layout},
                       nullptr);
  } else if (name == "gate_up") {
    launch_gated_product({.input = input, .h = memory.c.get(), .h_stride = kIntermediate}, nullptr);
  } else if (name == "lm_head") {
    launch_few_token_product(
        {.input = input, .c = memory.c.get(), .c_stride = kVocabulary, .c_type = DataType::kF32},
        nullptr);
  } else {
    launch_residual_product(
        {.input = input,
         .x = reinterpret_cast<float*>(memory.x.get()),
         .x_stride = kHidden,
         .norm_weight = reinterpret_cast<const float*>(memory.norm_weight.get()),
         .next_a = memory.c.get(),
         .next_a_stride = kHidden,
         .next_squares = reinterpret_cast<float*>(memory.next_squares.get())},
        nullptr);
  }
}

// All products with few tokens of a decoder, each with what it does besides,
// and with and without reading weights ahead.
void bench_products(const Limits& limits) {
  struct Shape {
    const char* name;
    std::uint32_t outputs, depth;
    bool is_scaled;
  };
  LayerMemory memory;
  const DeviceMemory weights = random_bf16(2 * kRotated);
  for (const auto& shape :
       {Shape{"qkv", kQueryWidth + 2 * kKvHeads * kHeadDim, kHidden, true},
        Shape{"o", kHidden, kQueryWidth, false}, Shape{"gate_up", 2 * kIntermediate, kHidden, true},
        Shape{"down", kHidden, kIntermediate, false},
        Shape{"lm_head", kVocabulary, kHidden, true}}) {
    const std::size_t bytes = std::size_t{shape.outputs} * shape.depth * 2;
    for (const std::uint32_t tokens : {1U, 8U, 16U, 32U, 64U}) {
      for (const bool overlaps : {false, true}) {
        const double seconds = seconds_of([&](std::size_t i) {
          launch_product(
              shape.name,
              {.a = memory.a.get(),
               .a_stride = shape.depth,
               .weight = weights.get() + i % (2 * kRotated / bytes) * bytes,
               .weight_stride = shape.depth,
               .squares =
                   shape.is_scaled ? reinterpret_cast<float*>(memory.squares.get()) : nullptr,
               .num_tokens = tokens,
               .num_outputs = shape.outputs,
               .depth = shape.depth,
               .workspace = memory.workspace.get(),
               .overlaps_previous = overlaps},
              memory);
        });
        print_row("few-token product",
                  std::string(shape.name) + ", " + std::to_string(tokens) +
                      (overlaps ? ", overlapping" : ""),
                  seconds, static_cast<double>(bytes) / seconds / limits.bytes_per_second);
      }
    }
  }
}

// Operators whose time is that of reading and writing rows.
void bench_rows(const Limits& limits) {
  constexpr std::uint32_t kRows = 16384;
  const DeviceMemory x = random_bf16(std::size_t{kRows} * kHidden * 4),
                     residual = random_bf16(std::size_t{kRows} * 2 * kIntermediate * 2),
                     weight = random_bf16(kHidden * 4),
                     to = uninitialised(std::size_t{kRows} * kIntermediate * 2);
  const double norm = seconds_of([&](std::size_t) {
    launch_rms_norm({.x = reinterpret_cast<float*>(x.get()),
                     .x_stride = kHidden,
                     .residual = residual.get(),
                     .residual_stride = kHidden,
                     .weight = reinterpret_cast<const float*>(weight.get()),
                     .normed = to.get(),
                     .normed_stride = kHidden,
                     .type = DataType::kBF16,
                     .num_rows = kRows,
                     .width = kHidden},
                    nullptr);
  });
  print_row("rms norm, residual", "16384 x 4096", norm,
            double{kRows} * kHidden * (4 + 4 + 2 + 2) / norm / limits.bytes_per_second);
  const double gated = seconds_of([&](std::size_t) {
    launch_gated_activation({.gate_up = residual.get(),
                             .gate_up_stride = 2 * kIntermediate,
                             .h = to.get(),
                             .h_stride = kIntermediate,
                             .type = DataType::kBF16,
                             .num_rows = kRows,
                             .width = kIntermediate},
                            nullptr);
  });
  print_row("gated activation", "16384 x 14336", gated,
            double{kRows} * kIntermediate * 3 * 2 / gated / limits.bytes_per_second);
  constexpr std::uint32_t kScoreRows = 20 * 12 * 500, kScoreWidth = 500;  // BERT, (20, 500)
  const DeviceMemory scores = random_bf16(std::size_t{kScoreRows} * kScoreWidth * 4);
  const double softmax = seconds_of([&](std::size_t) {
    launch_softmax({.scores = scores.get(),
                    .stride = kScoreWidth,
                    .num_rows = kScoreRows,
                    .width = kScoreWidth,
                    .scale = 0.125F},
                   nullptr);
  });
  print_row("softmax", "120000 x 500, f32", softmax,
            double{kScoreRows} * kScoreWidth * 8 / softmax / limits.bytes_per_second);
}

void bench_sampling(const Limits& limits) {
  constexpr std::uint32_t kRows = 64;
  const std::size_t bytes = std::size_t{kRows} * kVocabulary * 4;
  const DeviceMemory given = random_bf16(bytes), logits = uninitialised(bytes),
                     ids = uninitialised(kRows * sizeof(std::int32_t));
  struct Kind {
    const char* name;
    SamplingParameters parameters;
  };
  for (const auto& kind : {Kind{"greedy", {.temperature = 0.0F}}, Kind{"temperature", {}},
                           Kind{"top_p 0.9", {.top_p = 0.9F}},
                           Kind{"top_k 40, top_p 0.9", {.top_p = 0.9F, .top_k = 40}}}) {
    std::vector<SampleRow> rows(kRows);
    for (auto& row : rows) row.parameters = kind.parameters;
    const DeviceMemory row_memory = copy_of(rows);
    const auto copy = [&] {  // sampling overwrites them
      CUDA_CHECK(
          cudaMemcpyAsync(logits.get(), given.get(), bytes, cudaMemcpyDeviceToDevice, nullptr));
    };
    const double alone = seconds_of([&](std::size_t) { copy(); });
    const double both = seconds_of([&](std::size_t) {
      copy();
      launch_sample({.logits = reinterpret_cast<float*>(logits.get()),
                     .logits_stride = kVocabulary,
                     .vocabulary = kVocabulary,
                     .rows = reinterpret_cast<const SampleRow*>(row_memory.get()),
                     .token_ids = reinterpret_cast<std::int32_t*>(ids.get()),
                     .num_rows = kRows},
                    nullptr);
    });
    print_row("sample, 64 rows", kind.name, both - alone,
              static_cast<double>(bytes) / (both - alone) / limits.bytes_per_second);
  }
}

}  // namespace

int main() {
  constexpr int kSkipped = 77;
  int num_devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&num_devices);
  if (error != cudaSuccess || num_devices == 0) {
    std::printf("skipped, no GPU here: %s\n", cudaGetErrorString(error));
    return kSkipped;
  }
  cudaDeviceProp device{};
  CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
  const Limits limits = measure_limits();
  std::printf("%s: copy %.0f GB/s (read and written), bf16 product %.0f TFLOP/s\n", device.name,
              limits.bytes_per_second * 1e-9, limits.flops_per_second * 1e-12);
  bench_attention(limits);
  bench_products(limits);
  bench_rows(limits);
  bench_sampling(limits);
  return 0;
}
