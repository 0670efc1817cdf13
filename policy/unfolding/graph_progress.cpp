// SPDX-License-Identifier: Apache-2.0
#include "policy/unfolding/graph_progress.hpp"

#include <utility>

namespace troupe {

GraphProgress::GraphProgress(std::shared_ptr<const CellGraph> graph, std::size_t num_cells,
                             std::uint32_t max_drawn, std::uint32_t max_pending)
    : graph_(std::move(graph)), ready_(num_cells), max_drawn_(max_drawn), max_pending_(max_pending) {
  restart();
}

void GraphProgress::restart() {
  num_pending_ = num_submitted_ = num_completed_ = num_fixed_ = num_grown_ = 0;
  for (ReadyNodes& ready : ready_) ready = {};
  num_awaited_.resize(graph_->size());
  for (NodeIndex node = 0; node < graph_->size(); ++node) {
    num_awaited_[node] = static_cast<std::uint32_t>(graph_->inputs(node).size());
    if (num_awaited_[node] == 0) make_ready(node);
  }
}

void GraphProgress::make_ready(NodeIndex node) { ready_[graph_->node(node).cell].nodes.push_back(node); }

// Behind the last node, with a token that is known here or on the device.
bool GraphProgress::can_grow() const {
  const auto& growth = graph_->growth();
  if (!growth || num_fixed_ < graph_->size() || num_grown_ >= num_drawn() + num_pending_) return false;
  const bool draws = num_grown_ + 1 >= num_drawn();
  return !draws || may_draw();
}

std::uint32_t GraphProgress::num_ready(std::uint32_t cell) const {
  const ReadyNodes& ready = ready_[cell];
  const auto num_fixed = static_cast<std::uint32_t>(ready.nodes.size() - ready.num_taken);
  return num_fixed + (can_grow() && graph_->growth()->cell == cell ? 1 : 0);
}

GraphProgress::Step GraphProgress::submit(std::uint32_t cell) {
  num_submitted_ += 1;
  ReadyNodes& ready = ready_[cell];
  if (ready.num_taken == ready.nodes.size()) return submit_grown();
  Step step{.node = ready.nodes[ready.num_taken++], .token = -1, .input_from_slot = false, .draw = {}};
  step.token = graph_->node(step.node).token;
  num_fixed_ += 1;
  const bool is_last = step.node + 1 == graph_->size();
  if (graph_->growth() && is_last && num_drawn() == 0) {
    step.draw = 0;
    num_pending_ += 1;
  }
  for (const NodeIndex reader : graph_->readers(step.node))
    if (--num_awaited_[reader] == 0) make_ready(reader);
  return step;
}

GraphProgress::Step GraphProgress::submit_grown() {
  const std::uint32_t index = num_grown_++;
  Step step{.node = static_cast<NodeIndex>(graph_->size() + index),
            .token = -1,
            .input_from_slot = index >= num_drawn(),
            .draw = {}};
  if (!step.input_from_slot) step.token = tokens_[index];
  if (index + 1 >= num_drawn()) {
    step.draw = index + 1;
    num_pending_ += 1;
  }
  return step;
}

void GraphProgress::completed(const Step& step) {
  num_completed_ += 1;
  if (step.draw) num_pending_ -= 1;
}

}  // namespace troupe
