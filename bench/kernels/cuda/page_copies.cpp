// SPDX-License-Identifier: Apache-2.0
// KV pages between the pool and the host tier, against pinned copies of 2 MB: by a
// kernel that reads and writes the host's pages itself, with as few blocks as the
// worker's or with all, and through staging buffers and the copy engines.
#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <random>

#include "bench/kernels/cuda/suite.hpp"
#include "gpu/cuda/kernels/page_copy.hpp"

namespace troupe::bench {
namespace {

using namespace troupe::cuda;

class PageCopies {
 public:
  explicit PageCopies(const Bench& bench)
      : layout_(bench.is_tiny ? KvLayout{.num_layers = 2,
                                         .num_pages = 6,
                                         .num_kv_heads = 1,
                                         .head_dim = 16,
                                         .type = DataType::kBF16}
                              : KvLayout{.num_layers = 32,  // Llama-3.1-8B: 4 MiB a page
                                         .num_pages = 256,
                                         .num_kv_heads = 8,
                                         .head_dim = 128,
                                         .type = DataType::kBF16}),
        num_pages_(static_cast<std::uint32_t>(layout_.num_pages / 2)),
        page_bytes_(layout_.num_layers * kv_page_bytes(layout_)),
        pool_(random_buffer(DataType::kBF16, kv_pool_bytes(layout_) / 2)),
        host_(pinned_buffer(num_pages_ * page_bytes_)),
        pages_(copy_of(shuffled_pages())),
        staging_{device_buffer(kPagesOfChunk * page_bytes_), device_buffer(kPagesOfChunk * page_bytes_)} {}

  double bytes() const { return static_cast<double>(num_pages_ * page_bytes_); }

  double seconds_mapped(bool is_to_pool, std::uint32_t max_blocks) const {
    return median_of_several([&] {
      copy_pages(0, num_pages_, host_.get(), is_to_pool, kernels_, max_blocks);
      kernels_.synchronize();
    });
  }

  // A chunk of pages is gathered or scattered while the one before or behind it
  // is on the link.
  double seconds_staged(bool is_to_pool) const {
    return median_of_several([&] {
      for (std::uint32_t first = 0, chunk = 0; first < num_pages_; first += kPagesOfChunk, ++chunk) {
        const std::uint32_t count = std::min(kPagesOfChunk, num_pages_ - first);
        is_to_pool ? load_chunk(first, count, chunk % 2) : store_chunk(first, count, chunk % 2);
      }
      kernels_.synchronize();
      link_.synchronize();
    });
  }

 private:
  static constexpr std::uint32_t kPagesOfChunk = 4;

  std::vector<std::uint32_t> shuffled_pages() const {
    std::vector<std::uint32_t> pages(layout_.num_pages);
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), std::minstd_rand(1));
    return pages;
  }

  static double median_of_several(const std::function<void()>& run) {
    std::vector<double> seconds;
    for (int repeat = 0; repeat < 6; ++repeat) {
      const auto begin = std::chrono::steady_clock::now();
      run();
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
      if (repeat > 0) seconds.push_back(taken.count());
    }
    return median(std::move(seconds));
  }

  void copy_pages(std::uint32_t first, std::uint32_t count, std::byte* pieces, bool is_to_pool,
                  cudaStream_t stream, std::uint32_t max_blocks = 0) const {
    launch_page_copy({.pool = pool_.get(),
                      .layout = layout_,
                      .pool_pages = as<std::uint32_t>(pages_) + first,
                      .pieces = pieces,
                      .num_pages = count,
                      .is_to_pool = is_to_pool,
                      .max_blocks = max_blocks},
                     stream);
  }

  void store_chunk(std::uint32_t first, std::uint32_t count, std::uint32_t buffer) const {
    CUDA_CHECK(cudaStreamWaitEvent(kernels_, moved_[buffer]));
    copy_pages(first, count, staging_[buffer].get(), false, kernels_);
    CUDA_CHECK(cudaEventRecord(gathered_[buffer], kernels_));
    CUDA_CHECK(cudaStreamWaitEvent(link_, gathered_[buffer]));
    CUDA_CHECK(cudaMemcpyAsync(host_.get() + first * page_bytes_, staging_[buffer].get(), count * page_bytes_,
                               cudaMemcpyDeviceToHost, link_));
    CUDA_CHECK(cudaEventRecord(moved_[buffer], link_));
  }

  void load_chunk(std::uint32_t first, std::uint32_t count, std::uint32_t buffer) const {
    CUDA_CHECK(cudaStreamWaitEvent(link_, gathered_[buffer]));
    CUDA_CHECK(cudaMemcpyAsync(staging_[buffer].get(), host_.get() + first * page_bytes_, count * page_bytes_,
                               cudaMemcpyHostToDevice, link_));
    CUDA_CHECK(cudaEventRecord(moved_[buffer], link_));
    CUDA_CHECK(cudaStreamWaitEvent(kernels_, moved_[buffer]));
    copy_pages(first, count, staging_[buffer].get(), true, kernels_);
    CUDA_CHECK(cudaEventRecord(gathered_[buffer], kernels_));
  }

  KvLayout layout_;
  std::uint32_t num_pages_;
  std::size_t page_bytes_;
  DeviceBuffer pool_;
  PinnedBuffer host_;
  DeviceBuffer pages_;
  std::array<DeviceBuffer, 2> staging_;
  std::array<Event, 2> gathered_, moved_;  // by staging buffer: the kernel, the link is done
  Stream kernels_, link_;
};

}  // namespace

void bench_page_copies(Bench& bench) {
  const PageCopies copies(bench);
  for (const bool is_to_pool : {false, true}) {
    const double rate = is_to_pool ? bench.limits.to_device_rate : bench.limits.to_host_rate;
    const double mapped = copies.seconds_mapped(is_to_pool, kCopyBlocks),
                 wide = copies.seconds_mapped(is_to_pool, 0), staged = copies.seconds_staged(is_to_pool);
    const auto details = [&](double seconds) {
      return std::vector<std::pair<std::string, double>>{{"gb_per_s", copies.bytes() / seconds * 1e-9},
                                                         {"us", seconds * 1e6}};
    };
    const std::string way = is_to_pool ? "from_host" : "to_host";
    const std::string title = is_to_pool ? "KV pages from the host " : "KV pages to the host ";
    bench.recorder.add({.id = "pages_" + way,
                        .title = title + "by the worker's kernel",
                        .value = copies.bytes() / mapped / rate,
                        .unit = "of pinned copies",
                        .goal = Goal{.at_least = 0.90},
                        .details = details(mapped)});
    bench.recorder.add({.id = "pages_" + way + "_wide",
                        .title = title + "by a kernel of many blocks",
                        .value = copies.bytes() / wide / rate,
                        .unit = "of pinned copies",
                        .details = details(wide)});
    bench.recorder.add({.id = "pages_" + way + "_staged",
                        .title = title + "through staging buffers",
                        .value = copies.bytes() / staged / rate,
                        .unit = "of pinned copies",
                        .details = details(staged)});
  }
}

}  // namespace troupe::bench
