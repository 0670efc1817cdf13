// SPDX-License-Identifier: Apache-2.0
// The copies of a GPU's KV pages between its pool and the host tier, on streams of
// their own beside the one that computes (Pensieve §3.4.3; decision 0008 has the
// rules, which are the same on every device). Kernels read and write the host's
// pages themselves, a layer of all pages at a time, so a batch's program waits
// for each layer only when it comes to it. All order on the device is kept by
// events; the host waits only before a host page is written over whose last copy
// has not been finished.
//
//   begin ──► copies queued, the checker looks at checksums ──► before_layer … ──► end
//   finish ◄── by the thread that sees batches end, in the same order
//
// A host page's checksum is reckoned on the CPU, of what is to be loaded while
// the GPU loads it, of what was stored when the GPU has stored it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gpu/cpu/thread_pool.hpp"
#include "gpu/cuda/runtime/memory.hpp"
#include "gpu/cuda/runtime/stream.hpp"
#include "gpu/pages/copy_plan.hpp"
#include "gpu/pages/host_pages.hpp"
#include "gpu/pages/kv_layout.hpp"
#include "gpu/pages/void_pages.hpp"
#include "gpu/program/batch.hpp"

namespace troupe::cuda {

struct PageCopySettings {
  int ordinal = 0;  // of the GPU
  KvLayout layout;
  std::byte* pool = nullptr;    // on the device
  std::uint32_t num_pages = 0;  // that batches may name
};

// begin, before_layer and end are the submitting thread's; finish another's.
class PageCopyStreams {
 public:
  // host_pages may be null: batches have only copies within the pool then. Throws CudaError;
  // std::runtime_error if its pages have another size than the pool's.
  PageCopyStreams(const PageCopySettings& settings, std::shared_ptr<HostPages> host_pages);
  ~PageCopyStreams();
  PageCopyStreams(const PageCopyStreams&) = delete;
  PageCopyStreams& operator=(const PageCopyStreams&) = delete;

  // Each batch, in order; what is queued on `compute` from now on comes after the
  // copies of earlier batches that it must come after. Throws std::runtime_error
  // for pages that there are not: the batch is then neither ended nor finished.
  void begin(std::shared_ptr<const Batch> batch, const Stream& compute);
  // Work queued on `compute` from now on finds the layer's KV of the batch's
  // pages, and may write it.
  void before_layer(std::uint32_t layer, const Stream& compute);
  void before_all_layers(const Stream& compute);
  void end(const Stream& compute);  // all of the batch is queued

  struct Outcome {
    std::vector<std::uint64_t> failed_loads;  // generations
    std::vector<bool> void_slices;            // empty: none
  };
  // The oldest batch has been computed: waits for its copies. Throws CudaError.
  Outcome finish();

  // Nothing waits any more; to be called when the device has failed.
  void abandon();

 private:
  // Numbers of pages where kernels find them, [num_pages] each.
  struct CopyList {
    const std::uint32_t* pool_pages = nullptr;
    const std::uint32_t* host_pages = nullptr;
    std::uint32_t num_pages = 0;
    bool to_host = false;
  };
  struct Load;
  struct Copying;  // a batch on its way

  void queue_segment(Copying& copying, const CopySegment& segment);
  void queue_within(Copying& copying, const std::vector<PageCopy>& copies);
  void join_streams();
  CopyList list_copies(Copying& copying, const std::vector<PageCopy>& copies, bool to_host);
  void queue_copy(const CopyList& list, std::uint32_t first_layer, std::uint32_t num_layers,
                  const Stream& stream);
  void wait_for_earlier(const Copying& copying);
  void wait_until_unused(const Copying& copying);
  void check(const std::vector<PageCopy>& copies) const;
  void look_up_loads(Copying& copying);
  PinnedMemory take_ids(std::size_t size_bytes);
  void work();
  void check_loads(Copying& copying);
  static void check_load(Load& load);
  void check_stores(Copying& copying);

  PageCopySettings settings_;
  std::shared_ptr<HostPages> host_pages_;
  RegisteredMemory host_memory_;
  Stream load_stream_, store_stream_;
  VoidPages void_pages_;              // finishing thread
  ThreadPool threads_;                // the checker's
  std::shared_ptr<Copying> current_;  // submitting thread: begun last

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Copying>> in_flight_;  // begun, not finished
  std::deque<std::shared_ptr<Copying>> to_check_;
  std::vector<PinnedMemory> free_ids_;
  std::uint64_t num_finished_ = 0;
  bool stop_ = false;
  std::thread checker_;
};

}  // namespace troupe::cuda
