// SPDX-License-Identifier: Apache-2.0
// Decode attention against the memory's read bandwidth (keys and values are read
// once), of 64 sequences and of one alone, whose layers take turns so that none is in a
// cache; prefill in GFLOP/s. Long contexts are split over the threads.
//
//   bench_attention [threads] [heads] [kv heads] [head_dim] [context] [elapsed|processor] [decode]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/kernels/cpu/measure.hpp"
#include "gpu/cpu/kernels/attention/paged_attention.hpp"
#include "gpu/cpu/kernels/number_formats.hpp"

using namespace troupe;

namespace {

struct Setting {
  std::size_t num_threads = 2, num_heads = 32, num_kv_heads = 8, head_dim = 64, context = 2048;
};

constexpr std::size_t kRotatedBytes = std::size_t{320} << 20;

class AttentionBench {
 public:
  AttentionBench(const Setting& setting, DataType type, std::size_t num_sequences, std::size_t most_bytes = 0)
      : setting_(setting), num_sequences_(num_sequences) {
    const std::size_t pages = (setting.context + kKvPageTokens - 1) / kKvPageTokens;
    layout_ = {.num_layers = 1,
               .num_pages = pages * num_sequences,
               .num_kv_heads = setting.num_kv_heads,
               .head_dim = setting.head_dim,
               .type = type};
    layout_.num_layers = std::max<std::size_t>(1, most_bytes / kv_pool_bytes(layout_));
    const std::size_t huge = std::size_t{2} << 20;
    pool_.reset(allocate_huge<std::byte>((kv_pool_bytes(layout_) + huge - 1) / huge * huge));
    const auto noise = random_floats(1 << 20, 1);
    std::byte* bytes = pool_.get();
    const std::size_t elements = kv_pool_bytes(layout_) / size_of(type);
    for (std::size_t i = 0; i < elements; i += noise.size()) {
      const std::size_t count = std::min(noise.size(), elements - i);
      if (type == DataType::kF32) {
        convert_to_f32(DataType::kF32, noise.data(), reinterpret_cast<float*>(bytes) + i, count);
      } else {
        convert_to_bf16(DataType::kF32, noise.data(), reinterpret_cast<std::uint16_t*>(bytes) + i, count);
      }
    }
    for (std::size_t page = 0; page < layout_.num_pages; ++page)
      page_table_.push_back(static_cast<PageId>(page));
    std::shuffle(page_table_.begin(), page_table_.end(), std::minstd_rand(1));
    num_pages_ = pages;
  }

  // Every sequence advances by `tokens` up to the full context. Seconds.
  double time(Team& team, std::size_t tokens) {
    std::vector<SequenceSlice> slices(num_sequences_);
    for (std::size_t s = 0; s < num_sequences_; ++s) {
      slices[s].num_tokens = static_cast<std::uint32_t>(tokens);
      slices[s].context_length = static_cast<std::uint32_t>(setting_.context - tokens);
      slices[s].first_page = static_cast<std::uint32_t>(s * num_pages_);
    }
    const std::size_t width = setting_.num_heads * setting_.head_dim;
    queries_.resize(num_sequences_ * tokens * width, 0.01F);
    attended_.resize(queries_.size());
    const auto blocks = plan_attention(slices, setting_.num_heads, setting_.num_kv_heads);
    const SplitBlocks split = split_blocks(blocks, setting_.num_heads, layout_, setting_.num_threads);
    std::vector<float> partials(split.num_partial_floats);
    PagedAttentionArguments arguments{.blocks = split.blocks,
                                      .merges = split.merges,
                                      .partials = partials.data(),
                                      .page_table = page_table_.data(),
                                      .kv_pool = pool_.get(),
                                      .layout = layout_,
                                      .num_heads = setting_.num_heads,
                                      .queries = queries_.data(),
                                      .query_stride = width,
                                      .attended = attended_.data(),
                                      .attended_stride = width,
                                      .scale = 1.0F / std::sqrt(static_cast<float>(setting_.head_dim))};
    std::vector<double> seconds;
    for (std::size_t repeat = 0; repeat < std::max<std::size_t>(9, layout_.num_layers); ++repeat) {
      arguments.layer = repeat % layout_.num_layers;
      double used = team.time(paged_attention_num_tasks(arguments),
                              [&](std::size_t task) { paged_attention_run_task(arguments, task); });
      if (!split.merges.empty()) {
        used += team.time(merge_splits_num_tasks(arguments),
                          [&](std::size_t task) { merge_splits_run_task(arguments, task); });
      }
      seconds.push_back(used);
    }
    return median(seconds);
  }

  double layer_bytes() const {
    return static_cast<double>(kv_pool_bytes(layout_)) / static_cast<double>(layout_.num_layers);
  }

 private:
  struct Release {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  Setting setting_;
  std::size_t num_sequences_, num_pages_ = 0;
  KvLayout layout_;
  std::unique_ptr<std::byte, Release> pool_;
  std::vector<PageId> page_table_;
  std::vector<float> queries_, attended_;
};

}  // namespace

int main(int argc, char** argv) {
  Setting s;
  std::size_t* const fields[] = {&s.num_threads, &s.num_heads, &s.num_kv_heads, &s.head_dim, &s.context};
  for (int i = 1; i < argc && i <= 5; ++i) *fields[i - 1] = std::strtoul(argv[i], nullptr, 10);
  const bool is_shared = argc > 6 && std::string(argv[6]) == "processor";
  const bool is_decode_only = argc > 7 && std::string(argv[7]) == "decode";
  Team team(s.num_threads, is_shared ? Clock::kProcessor : Clock::kElapsed);
  const double bandwidth = read_bandwidth(team, s.num_threads);
  std::printf("%s, %zu threads, %zu heads, %zu KV heads, head_dim %zu, context %zu\n",
              name_of(best_isa()).data(), s.num_threads, s.num_heads, s.num_kv_heads, s.head_dim, s.context);
  std::printf("read: %.1f GB/s\n", bandwidth / 1e9);
  for (const DataType type : {DataType::kBF16, DataType::kF32}) {
    for (const std::size_t num_sequences : {std::size_t{64}, std::size_t{1}}) {
      AttentionBench decode(s, type, num_sequences, num_sequences == 1 ? kRotatedBytes : 0);
      const double rate = decode.layer_bytes() / decode.time(team, 1);
      std::printf("%-5s decode, %2zu sequences (%.1f MB): %6.1f GB/s, %.2f of read\n", name_of(type).data(),
                  num_sequences, decode.layer_bytes() / 1e6, rate / 1e9, rate / bandwidth);
    }
    if (is_decode_only) continue;
    AttentionBench prefill(s, type, 1);
    for (const std::size_t tokens : {std::size_t{32}, std::size_t{256}, s.context}) {
      const double pairs = static_cast<double>(tokens) *
                           (static_cast<double>(s.context) - (static_cast<double>(tokens) - 1.0) / 2.0);
      const double flops = 4.0 * pairs * static_cast<double>(s.num_heads * s.head_dim);
      std::printf("%-5s prefill, last %4zu tokens: %6.1f GFLOP/s\n", name_of(type).data(), tokens,
                  flops / prefill.time(team, tokens) / 1e9);
    }
  }
}
