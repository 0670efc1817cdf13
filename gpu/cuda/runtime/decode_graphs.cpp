// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/runtime/decode_graphs.hpp"

#include <cuda_runtime.h>

#include <algorithm>

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

}  // namespace

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
  const cudaError_t error = cudaGraphInstantiate(&graph.executable, captured, 0);
  (void)cudaGraphDestroy(captured);
  CUDA_CHECK(error);
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
