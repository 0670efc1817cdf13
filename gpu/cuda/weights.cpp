// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/weights.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "gpu/cuda/byte_budget.hpp"
#include "gpu/cuda/runtime/cuda_check.hpp"
#include "gpu/cuda/weight_upload.hpp"
#include "gpu/model/weight_elements.hpp"

namespace troupe::cuda {
namespace {

constexpr std::size_t kWeightAlignment = 256;  // bytes
// Threads that look through weights, convert and copy them: one fills a tenth of a link.
constexpr unsigned kMostUploads = 8;
// Tensors that these threads open or put in order at once; a larger one is opened alone.
constexpr std::uint64_t kMostOpenedBytes = std::uint64_t{1} << 30;

bool is_same_place(const WeightLayout::Entry& a, const WeightLayout::Entry& b) {
  return a.type == b.type && a.spec.sources == b.spec.sources;
}

bool is_vector(const WeightSpec& spec) { return spec.is_vector() && !spec.is_matrix; }

// WeightElements puts elements in order, but changes none.
void check_added(const WeightSpec& spec) {
  if (spec.added != 0.0F)
    throw std::runtime_error("a GPU adds nothing to weights, as \"" + spec.name + "\" asks");
}

void upload(const WeightStore& store, const WeightLayout::Entry& entry, DataType type, std::byte* target,
            WeightUpload& upload, ByteBudget& opened) {
  const std::vector<WeightView> views = find_sources(store, entry.spec);
  check_finite(entry.spec, views);
  for (const WeightView& view : views) {
    const auto share = opened.take(WeightElements::copied_bytes(view));
    const WeightElements elements(view);
    upload.copy(elements.type(), elements.data(), elements.num_elements(), type, target);
    target += elements.num_elements() * size_of(type);
  }
}

}  // namespace

WeightLayout::WeightLayout(const Network& network, DataType compute_type) : compute_type_(compute_type) {
  for (WeightSpec& spec : network.weights()) {
    check_added(spec);
    Entry entry{.spec = std::move(spec)};
    entry.type = is_vector(entry.spec) ? DataType::kF32 : compute_type;
    for (const Entry& other : entries_) {
      if (other.is_shared || !is_same_place(entry, other)) continue;
      entry.offset = other.offset;
      entry.copy_offset = other.copy_offset;
      entry.is_shared = true;
    }
    const std::size_t num_elements = std::size_t{entry.spec.rows} * entry.spec.columns;
    if (!entry.is_shared) {
      entry.offset = take(num_elements * size_of(entry.type));
      entry.copy_offset =
          entry.type == compute_type ? entry.offset : take(num_elements * size_of(compute_type));
    }
    entries_.push_back(std::move(entry));
  }
}

std::size_t WeightLayout::take(std::size_t size_bytes) {
  const std::size_t offset = size_bytes_;
  size_bytes_ += (size_bytes + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment;
  return offset;
}

DeviceWeights::DeviceWeights(const WeightStore& store, const WeightLayout& layout)
    : memory_(layout.size_bytes()) {
  for (const auto& entry : layout.entries())
    weights_.emplace(entry.spec.name, DeviceWeight{.data = memory_.get() + entry.offset,
                                                   .in_compute_type = memory_.get() + entry.copy_offset,
                                                   .type = entry.type,
                                                   .rows = entry.spec.rows,
                                                   .columns = entry.spec.columns});
  int ordinal = 0;
  CUDA_CHECK(cudaGetDevice(&ordinal));
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> has_failed = false;
  ByteBudget opened(kMostOpenedBytes);
  const auto upload_some = [&] {
    try {
      CUDA_CHECK(cudaSetDevice(ordinal));
      WeightUpload uploader;
      for (std::size_t i = next++; i < layout.entries().size() && !has_failed; i = next++) {
        const auto& entry = layout.entries()[i];
        if (entry.is_shared) continue;
        store.check_unchanged();
        upload(store, entry, entry.type, memory_.get() + entry.offset, uploader, opened);
        if (entry.copy_offset != entry.offset)
          upload(store, entry, layout.compute_type(), memory_.get() + entry.copy_offset, uploader, opened);
      }
      uploader.finish();
    } catch (...) {
      has_failed = true;
      throw;
    }
  };
  std::vector<std::future<void>> others;
  try {
    for (unsigned i = 1; i < std::min(std::thread::hardware_concurrency(), kMostUploads); ++i)
      others.push_back(std::async(std::launch::async, upload_some));
  } catch (const std::system_error&) {
    // A limit of processes: those that there are do all of it.
  }
  upload_some();
  for (auto& other : others) other.get();
  store.check_unchanged();
}

const DeviceWeight& DeviceWeights::find(std::string_view name) const {
  const auto found = weights_.find(name);
  if (found == weights_.end())
    throw std::runtime_error("the program's weight \"" + std::string(name) + "\" is not on this device");
  return found->second;
}

}  // namespace troupe::cuda
