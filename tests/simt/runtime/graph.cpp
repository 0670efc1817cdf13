// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/runtime/graph.hpp"

#include <utility>

namespace troupe::simt {

std::size_t Capture::add_node(Work work, std::set<std::size_t> after) {
  graph->nodes.push_back(std::make_unique<CUgraphNode_st>(CUgraphNode_st{std::move(work), std::move(after)}));
  return graph->nodes.size() - 1;
}

bool Capture::is_joined_by(const std::set<std::size_t>& front) const {
  std::set<std::size_t> reached = front;
  for (std::size_t number = graph->nodes.size(); number-- > 0;) {  // edges go to smaller ones
    if (reached.count(number) == 0) return false;
    reached.insert(graph->nodes[number]->after.begin(), graph->nodes[number]->after.end());
  }
  return true;
}

cudaGraphExecUpdateResultInfo compare(const CUgraphExec_st& exec, const CUgraph_st& graph) {
  if (exec.nodes.size() != graph.nodes.size()) {
    return {cudaGraphExecUpdateErrorTopologyChanged, nullptr, nullptr};
  }
  for (std::size_t i = 0; i < exec.nodes.size(); ++i) {
    const auto& node = graph.nodes[i];
    if (exec.nodes[i].after != node->after) {
      return {cudaGraphExecUpdateErrorTopologyChanged, node.get(), nullptr};
    }
    if (exec.nodes[i].work.type != node->work.type) {
      return {cudaGraphExecUpdateErrorNodeTypeChanged, node.get(), nullptr};
    }
  }
  return {cudaGraphExecUpdateSuccess, nullptr, nullptr};
}

}  // namespace troupe::simt
