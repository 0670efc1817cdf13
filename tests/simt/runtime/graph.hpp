// SPDX-License-Identifier: Apache-2.0
// A graph as a capture makes it, and a capture: what streams are given while it
// goes on becomes nodes instead of work.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "tests/simt/runtime/executor.hpp"

namespace troupe::simt {

struct Work {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  std::function<void()> run;  // owns its arguments
};

}  // namespace troupe::simt

struct CUgraphNode_st {
  troupe::simt::Work work;
  std::set<std::size_t> after;  // numbers of nodes, all smaller than its own
};
struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
};
struct CUgraphExec_st {
  std::vector<CUgraphNode_st> nodes;
  troupe::simt::OperationPointer last;  // end of the newest launch
  int gpu = 0;
  std::size_t size_bytes = 0;  // of that one's memory
};

namespace troupe::simt {

// Guarded by RuntimeState.
struct Capture {
  CUstream_st* origin = nullptr;
  std::set<CUstream_st*> streams;  // origin's and those that joined
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;  // none: it has ended
  std::unique_ptr<CUgraph_st> graph = std::make_unique<CUgraph_st>();

  std::size_t add_node(Work work, std::set<std::size_t> after);
  // Whether a node in `front`, or one that those follow, is each of the graph's.
  bool is_joined_by(const std::set<std::size_t>& front) const;
};

// Of equal types and edges: success; else what differs first.
cudaGraphExecUpdateResultInfo compare(const CUgraphExec_st& exec, const CUgraph_st& graph);

}  // namespace troupe::simt
