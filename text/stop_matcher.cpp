// SPDX-License-Identifier: Apache-2.0
#include "text/stop_matcher.hpp"

namespace troupe {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop)
    : stops_(std::move(stops)), include_stop_(include_stop), nodes_(1) {
  for (std::size_t i = 0; i < stops_.size(); ++i) {
    if (!stops_[i].empty()) add_stop(i);
  }
  link_fallbacks();
}

StopMatcher::Output StopMatcher::push(std::string_view text) {
  if (is_done_) return {};
  held_ += text;
  std::size_t position = held_.size() - text.size();
  for (const char byte : text) {
    node_ = step(node_, byte);
    ++position;
    if (const std::optional<std::size_t> stop = nodes_[node_].stop) {
      is_done_ = true;
      held_.resize(include_stop_ ? position : position - stops_[*stop].size());
      return {std::move(held_), stop};
    }
  }
  const std::size_t num_held = nodes_[node_].depth;
  Output output{held_.substr(0, held_.size() - num_held), std::nullopt};
  held_.erase(0, held_.size() - num_held);
  return output;
}

std::string StopMatcher::finish() {
  std::string rest = is_done_ ? std::string() : std::move(held_);
  held_.clear();
  is_done_ = true;
  return rest;
}

void StopMatcher::add_stop(std::size_t index) {
  std::uint32_t node = 0;
  for (const char byte : stops_[index]) {
    if (const auto next = child(node, byte)) {
      node = *next;
      continue;
    }
    const auto created = static_cast<std::uint32_t>(nodes_.size());
    const std::uint32_t depth = nodes_[node].depth + 1;
    nodes_.emplace_back().depth = depth;
    nodes_[node].children.emplace_back(byte, created);
    node = created;
  }
  if (!nodes_[node].stop) nodes_[node].stop = index;
}

// Breadth first, so that a node's fallback is complete before the node is.
void StopMatcher::link_fallbacks() {
  std::vector<std::uint32_t> queue{0};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const std::uint32_t parent = queue[i];
    for (const auto& [byte, node] : nodes_[parent].children) {
      if (parent != 0) nodes_[node].fallback = step(nodes_[parent].fallback, byte);
      if (!nodes_[node].stop) nodes_[node].stop = nodes_[nodes_[node].fallback].stop;
      queue.push_back(node);
    }
  }
}

std::optional<std::uint32_t> StopMatcher::child(std::uint32_t node, char byte) const {
  for (const auto& [edge, next] : nodes_[node].children) {
    if (edge == byte) return next;
  }
  return std::nullopt;
}

std::uint32_t StopMatcher::step(std::uint32_t node, char byte) const {
  while (true) {
    if (const auto next = child(node, byte)) return *next;
    if (node == 0) return 0;
    node = nodes_[node].fallback;
  }
}

}  // namespace troupe
