// SPDX-License-Identifier: Apache-2.0
// Programs captured as CUDA graphs, so that starting a decode step costs the host
// one call. A graph belongs to a program and to the capacity of the batches it
// takes; what differs from batch to batch lies in memory that every batch fills
// before (BatchInput), so nothing in a graph is ever changed.
//
// The first batch of a kind runs as it is, which loads the kernels; the second
// is captured. Graphs take memory that was set aside for them: when it is used
// up, the graph that was not used for longest goes, and one that is too large by
// itself is not made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>

#include "gpu/cuda/batch_input.hpp"
#include "gpu/cuda/runtime/stream.hpp"
#include "gpu/program/program.hpp"

struct CUgraphExec_st;

namespace troupe::cuda {

// Set aside in the memory plan.
inline constexpr std::uint64_t kGraphBytes = 256ULL << 20;

struct GraphKey {
  std::shared_ptr<const Program> program;
  BatchCapacity capacity;
  auto operator<=>(const GraphKey&) const = default;
};

// Kernels of the graph that this process launched last; 0: none yet. Any thread.
std::uint64_t kernels_of_last_graph();

// One thread.
class DecodeGraphs {
 public:
  explicit DecodeGraphs(std::uint64_t memory_bytes = kGraphBytes);
  ~DecodeGraphs();
  DecodeGraphs(const DecodeGraphs&) = delete;
  DecodeGraphs& operator=(const DecodeGraphs&) = delete;

  // Queues on `stream` what `queue` puts on the stream it is given, as a graph if
  // there is one by now. Throws what queue throws; CudaError.
  void run(const GraphKey& key, const Stream& stream, const std::function<void(StreamHandle)>& queue);

  std::size_t size() const { return num_captured_; }

 private:
  struct Graph {
    CUgraphExec_st* executable = nullptr;  // null: seen once, or too large
    bool is_too_large = false;
    std::uint64_t size_bytes = 0;
    std::uint64_t num_kernels = 0;
    std::list<GraphKey>::iterator recency;
  };

  void capture(Graph& graph, const std::function<void(StreamHandle)>& queue);
  void make_room();
  void drop(Graph& graph);

  std::uint64_t memory_bytes_;
  std::uint64_t used_bytes_ = 0;
  std::size_t num_captured_ = 0;
  Stream capture_stream_;  // another thread may ask the stream of batches how it is
  std::map<GraphKey, Graph> graphs_;
  std::list<GraphKey> recency_;  // most recently used first
};

}  // namespace troupe::cuda
