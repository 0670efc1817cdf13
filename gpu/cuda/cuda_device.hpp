// SPDX-License-Identifier: Apache-2.0
// A GPU as a device. Batches queue on one stream without waiting (BatchMaker's
// in-flight queue); copies of KV pages go on streams of their own; a decode step
// takes its input tokens from device memory. A thread sees batches end and calls
// the listener.
//
//   submit: fill pinned memory ─► compute stream: copy it ► program (or graph) ► signal
//                  │                    ▲ events, layer by layer        │ tokens, number
//                  └► load and store streams (PageCopyStreams)              ▼
//   collect ◄── results ◄── waiting thread: Completion, PageCopyStreams::finish
//
// A CUDA error is final: all batches fail from then on, and only another process
// gets a working device. Products through cuBLASLt don't promise the same bits
// in batches of different sizes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "gpu/cuda/cuda_model.hpp"
#include "gpu/cuda/gemm/cublas_gemms.hpp"
#include "gpu/cuda/pages/page_copy_streams.hpp"
#include "gpu/cuda/program_executor.hpp"
#include "gpu/cuda/runtime/completion.hpp"
#include "gpu/cuda/runtime/decode_graphs.hpp"
#include "gpu/device.hpp"

namespace troupe::cuda {

struct CudaDeviceOptions {
  std::shared_ptr<HostPages> host_pages = {};  // shared with the devices that follow
  // For tests: called with the logits of each batch, [num_output_rows, vocabulary],
  // in submit, which then waits for them; there are no graphs then.
  std::function<void(const Batch& batch, std::span<const float> logits)> on_logits = {};
};

// Threads as in Device. submit waits only if more batches are in flight than
// planned. The destructor waits for what runs on the GPU.
class CudaDevice final : public Device {
 public:
  // Throws std::runtime_error, CudaError.
  explicit CudaDevice(std::shared_ptr<const CudaModel> model, const CudaDeviceOptions& options = {});
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const DeviceDescription& description() const override { return description_; }
  Ticket submit(std::shared_ptr<const Program> program, std::shared_ptr<const Batch> batch) override;
  Ticket completed() const noexcept override { return completed_.load(std::memory_order_acquire); }
  BatchResult collect(Ticket ticket) override;
  void set_listener(std::function<void()> listener) override;
  std::optional<std::chrono::nanoseconds> poll_delay() const override { return std::nullopt; }

  std::size_t num_graphs() const { return graphs_.size(); }  // submitting thread

 private:
  struct Submission {
    Ticket ticket = 0;
    std::shared_ptr<const Batch> batch = {};
    std::string error = {};  // not empty: nothing was queued
  };

  // All that is looked up and filled in before anything is queued.
  struct Prepared {
    const BoundProgram* bound = nullptr;
    std::byte* input = nullptr;               // filled: pinned memory, or
    std::vector<std::byte> large_input = {};  // of what does not fit there
    BatchCapacity capacity = {};
    std::vector<AttentionRound> rounds = {};  // one if it takes a graph, of all blocks that there is room for
    bool takes_graph = false;
  };

  void queue(Ticket ticket, const std::shared_ptr<const Program>& program,
             const std::shared_ptr<const Batch>& batch);
  Prepared prepare(const std::shared_ptr<const Program>& program, const Batch& batch, std::byte* pinned);
  void queue_program(const Prepared& prepared, const Batch& batch);
  BatchCapacity choose_capacity(const Batch& batch, const AttentionPlan& plan, const ProgramShape& shape,
                                bool& takes_graph) const;
  bool can_be_graph(const Batch& batch) const;
  void show_logits(const BoundProgram& bound, const Batch& batch);
  ExecutorMemory executor_memory() const;
  void wait();
  bool next_submission(Submission& submission);
  BatchResult result_of(const Submission& submission);
  std::vector<std::int32_t> tokens_of(const Submission& submission, const std::vector<bool>& void_slices);
  void publish(BatchResult result);
  std::vector<TokenLogprobs> logprobs_of(const Submission& submission) const;
  std::vector<float> vectors_of(const Submission& submission) const;
  std::int32_t* pinned_tokens(Ticket ticket) const;
  RowLogprobs* pinned_logprobs(Ticket ticket) const;
  std::uint64_t* pinned_time(Ticket ticket) const;
  SlotId input_slot(const Batch& batch, const SequenceSlice& slice) const;
  float* pinned_vectors(Ticket ticket) const;
  std::vector<float> states_of(const Submission& submission) const;
  float* pinned_handed(Ticket ticket) const;

  std::shared_ptr<const CudaModel> model_;
  CudaDeviceOptions options_;
  DeviceDescription description_;
  std::uint32_t ring_size_;  // batches that have pinned memory

  Stream compute_;
  DeviceMemory pool_, arena_, partials_, gemm_workspace_, few_token_workspace_, input_, sampled_, logprobs_,
      vectors_, state_, handed_, tokens_of_slots_, recent_tokens_, began_;
  PinnedMemory pinned_inputs_, pinned_tokens_, pinned_logprobs_, pinned_vectors_, pinned_handed_,
      pinned_times_, word_;
  CublasGemms gemms_;
  GemmChoices choices_;
  ProgramExecutor executor_;
  DecodeGraphs graphs_;
  PageCopyStreams copy_streams_;
  std::unique_ptr<Completion> completion_;

  std::mutex mutex_;  // guards queue_, results_, failure_
  std::condition_variable changed_;
  std::deque<Submission> queue_;
  std::deque<BatchResult> results_;
  std::string failure_;   // of the device; what is submitted from then on fails with it
  Ticket submitted_ = 0;  // caller only
  Ticket collected_ = 0;  // caller only
  std::atomic<Ticket> completed_{0};
  std::atomic<bool> stop_{false};
  // waiting thread only
  std::vector<bool> has_token_;  // by slot: is there one for the next step?

  std::mutex listener_mutex_;  // held while the listener is called
  std::function<void()> listener_;
  std::thread waiter_;
};

}  // namespace troupe::cuda
