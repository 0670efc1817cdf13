// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/runtime/decode_graphs.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "gpu/cuda/runtime/cuda_check.hpp"

namespace troupe::cuda {
namespace {

constexpr std::size_t kMaxGraphs = 256;  // captured or only seen
// What a graph takes that the driver does not show as used, at least.
constexpr std::uint64_t kLeastGraphBytes = 64 * 1024;

std::uint64_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return free;
}

std::uint64_t num_kernels_of(cudaGraph_t graph) {
  std::size_t num_nodes = 0;
  CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &num_nodes));
  std::vector<cudaGraphNode_t> nodes(num_nodes);
  CUDA_CHECK(cudaGraphGetNodes(graph, nodes.data(), &num_nodes));
  std::uint64_t num_kernels = 0;
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    CUDA_CHECK(cudaGraphNodeGetType(node, &type));
    num_kernels += type == cudaGraphNodeTypeKernel ? 1 : 0;
  }
  return num_kernels;
}

std::atomic<std::uint64_t> last_graph_kernels = 0;

}  // namespace

std::uint64_t kernels_of_last_graph() { return last_graph_kernels.load(std::memory_order_relaxed); }

DecodeGraphs::DecodeGraphs(std::uint64_t memory_bytes) : memory_bytes_(memory_bytes) {}

DecodeGraphs::~DecodeGraphs() {
  for (auto& [key, graph] : graphs_) drop(graph);
}

void DecodeGraphs::run(const GraphKey& key, const Stream& stream,
                       const std::function<void(StreamHandle)>& queue) {
  const auto [place, is_new] = graphs_.try_emplace(key);
  Graph& graph = place->second;
  if (is_new) {
    recency_.push_front(key);
    graph.recency = recency_.begin();
    if (graphs_.size() > kMaxGraphs) make_room();
    return queue(stream.handle());
  }
  recency_.splice(recency_.begin(), recency_, graph.recency);
  if (graph.executable == nullptr && !graph.is_too_large) capture(graph, queue);
  if (graph.executable == nullptr) return queue(stream.handle());
  CUDA_CHECK(cudaGraphLaunch(graph.executable, stream.handle()));
  last_graph_kernels.store(graph.num_kernels, std::memory_order_relaxed);
}

void DecodeGraphs::capture(Graph& graph, const std::function<void(StreamHandle)>& queue) {
  const std::uint64_t before = free_bytes();
  cudaGraph_t captured = nullptr;
  CUDA_CHECK(cudaStreamBeginCapture(capture_stream_.handle(), cudaStreamCaptureModeThreadLocal));
  try {
    queue(capture_stream_.handle());
  } catch (...) {
    (void)cudaStreamEndCapture(capture_stream_.handle(), &captured);
    if (captured != nullptr) (void)cudaGraphDestroy(captured);
    throw;
  }
  CUDA_CHECK(cudaStreamEndCapture(capture_stream_.handle(), &captured));
  const std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, decltype(&cudaGraphDestroy)> owner(
      captured, &cudaGraphDestroy);
  graph.num_kernels = num_kernels_of(captured);
  CUDA_CHECK(cudaGraphInstantiate(&graph.executable, captured, 0));
  CUDA_CHECK(cudaGraphUpload(graph.executable, capture_stream_.handle()));
  capture_stream_.synchronize();
  graph.size_bytes = std::max(before - std::min(before, free_bytes()), kLeastGraphBytes);
  used_bytes_ += graph.size_bytes;
  ++num_captured_;
  while (used_bytes_ > memory_bytes_ && num_captured_ > 1) make_room();
  if (used_bytes_ <= memory_bytes_) return;
  drop(graph);
  graph.is_too_large = true;
}

// The least recently used of all goes, but never the one in use.
void DecodeGraphs::make_room() {
  const auto last = graphs_.find(recency_.back());
  drop(last->second);
  graphs_.erase(last);
  recency_.pop_back();
}

// A graph that still runs is freed when it has ended.
void DecodeGraphs::drop(Graph& graph) {
  if (graph.executable == nullptr) return;
  (void)cudaGraphExecDestroy(graph.executable);
  graph.executable = nullptr;
  used_bytes_ -= graph.size_bytes;
  --num_captured_;
}

}  // namespace troupe::cuda
