// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/grammar.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace troupe {

using Kind = GrammarNode::Kind;

Grammar::Grammar(Parts parts) : parts_(std::move(parts)) {
  classify_bytes();
  find_frames_needed();
  if (frames_needed(start()) == kUnproductive) throw GrammarError("the grammar allows no text that ends");
  if (frames_needed(start()) >= kMaxStackDepth)
    throw GrammarError("the shortest text of the grammar is nested too deeply");
  find_nullable();
  // An empty pass through a body reads nothing: without it, no minimum is needed.
  for (GrammarLoop& loop : parts_.loops)
    if (nullable_[loop.body]) loop.min = 0;
  refuse_left_recursion();
}

std::size_t Grammar::size_bytes() const {
  return parts_.nodes.size() * (sizeof(GrammarNode) + sizeof(std::uint32_t)) +
         parts_.byte_sets.size() * sizeof(ByteSet) + parts_.loops.size() * sizeof(GrammarLoop);
}

// Splits the classes by each set: bytes stay together that all sets so far hold, or none.
void Grammar::classify_bytes() {
  std::array<std::uint32_t, 256> classes{};
  std::uint32_t num_classes = 1;
  for (const ByteSet& set : parts_.byte_sets) {
    std::map<std::pair<std::uint32_t, bool>, std::uint32_t> split;
    for (std::size_t byte = 0; byte < 256; ++byte)
      classes[byte] = split.try_emplace({classes[byte], set[byte]}, split.size()).first->second;
    num_classes = static_cast<std::uint32_t>(split.size());
    if (num_classes == 256) break;
  }
  class_bytes_.resize(num_classes);
  for (std::size_t byte = 0; byte < 256; ++byte) {
    byte_classes_[byte] = static_cast<std::uint8_t>(classes[byte]);
    class_bytes_[classes[byte]] = static_cast<std::uint8_t>(byte);
  }
}

// Whatever must be looked at again when a node changes: those that go on at it, call it or loop over it.
std::vector<std::vector<std::uint32_t>> Grammar::callers() const {
  std::vector<std::vector<std::uint32_t>> callers(parts_.nodes.size());
  for (std::uint32_t i = 1; i < parts_.nodes.size(); ++i) {
    const GrammarNode& node = parts_.nodes[i];
    if (node.kind == Kind::kReturn) continue;
    callers[node.next].push_back(i);
    if (node.kind == Kind::kBranch || node.kind == Kind::kCall) callers[node.operand].push_back(i);
    if (node.kind == Kind::kLoop) callers[parts_.loops[node.operand].body].push_back(i);
  }
  return callers;
}

// In order of frames, as Dijkstra's algorithm goes in order of length (Knuth 1977, "A generalization of
// Dijkstra's algorithm"): nobody needs less than those whom it goes on at, so each node is settled once.
void Grammar::find_frames_needed() {
  static constexpr std::uint32_t kTooMany = kMaxStackDepth + 1;  // which stands for all above
  frames_needed_.assign(parts_.nodes.size(), kUnproductive);
  const auto above = [&](std::uint32_t node) {
    return frames_needed_[node] == kUnproductive ? kUnproductive
                                                 : std::min(frames_needed_[node] + 1, kTooMany);
  };
  const auto needed = [&](const GrammarNode& node) -> std::uint32_t {
    const std::uint32_t then = frames_needed_[node.next];
    switch (node.kind) {
      case Kind::kEnd:
      case Kind::kReturn: return 0;
      case Kind::kBytes: return parts_.byte_sets[node.operand].any() ? then : kUnproductive;
      case Kind::kToken: return then;
      case Kind::kBranch: return std::min(then, frames_needed_[node.operand]);
      case Kind::kCall:  // called last, it takes its caller's place
        if (parts_.nodes[node.next].kind == Kind::kReturn) return frames_needed_[node.operand];
        return std::max(then, above(node.operand));
      case Kind::kLoop: {
        const GrammarLoop& loop = parts_.loops[node.operand];
        return loop.min == 0 ? then : std::max(then, above(loop.body));
      }
    }
    return kUnproductive;
  };
  const auto callers_of = callers();
  std::array<std::vector<std::uint32_t>, kTooMany + 1> by_frames;
  const auto update = [&](std::uint32_t i) {
    const std::uint32_t now = needed(parts_.nodes[i]);
    if (now >= frames_needed_[i]) return;
    frames_needed_[i] = now;
    by_frames[now].push_back(i);
  };
  for (std::uint32_t i = 0; i < parts_.nodes.size(); ++i) update(i);
  for (std::uint32_t frames = 0; frames <= kTooMany; ++frames)
    for (std::size_t i = 0; i < by_frames[frames].size(); ++i)  // grows meanwhile
      if (const std::uint32_t node = by_frames[frames][i]; frames_needed_[node] == frames)
        for (const std::uint32_t caller : callers_of[node]) update(caller);
}

void Grammar::find_nullable() {
  nullable_.assign(parts_.nodes.size(), false);
  const auto is_nullable = [&](const GrammarNode& node) -> bool {
    switch (node.kind) {
      case Kind::kEnd:
      case Kind::kBytes:
      case Kind::kToken: return false;
      case Kind::kReturn: return true;
      case Kind::kBranch: return nullable_[node.next] || nullable_[node.operand];
      case Kind::kCall: return nullable_[node.next] && nullable_[node.operand];
      case Kind::kLoop: {
        const GrammarLoop& loop = parts_.loops[node.operand];
        return nullable_[node.next] && (loop.min == 0 || nullable_[loop.body]);
      }
    }
    return false;
  };
  const auto callers_of = callers();
  std::vector<std::uint32_t> changed;
  const auto update = [&](std::uint32_t i) {
    if (nullable_[i] || !is_nullable(parts_.nodes[i])) return;
    nullable_[i] = true;
    changed.push_back(i);
  };
  for (std::uint32_t i = 0; i < parts_.nodes.size(); ++i) update(i);
  for (std::size_t i = 0; i < changed.size(); ++i)
    for (const std::uint32_t caller : callers_of[changed[i]]) update(caller);
}

namespace {

// Nodes reached without reading, in the same rule or by a call.
struct UnreadStep {
  std::uint32_t node;
  bool is_call;
};

std::vector<UnreadStep> unread_steps(const Grammar& grammar, const GrammarNode& node) {
  switch (node.kind) {
    case Kind::kBranch: return {{node.next, false}, {node.operand, false}};
    case Kind::kCall:
      if (!grammar.can_return_unread(node.operand)) return {{node.operand, true}};
      return {{node.operand, true}, {node.next, false}};
    case Kind::kLoop: {
      const GrammarLoop& loop = grammar.loop(node.operand);
      if (loop.max == 0) return {{node.next, false}};
      if (loop.min > 0) return {{loop.body, true}};
      return {{loop.body, true}, {node.next, false}};
    }
    default: return {};
  }
}

}  // namespace

// A cycle of unread steps through a call would make a stack grow for ever. Cycles without one are
// harmless: a text may pass through them, but need not.
void Grammar::refuse_left_recursion() const {
  std::map<std::uint32_t, std::vector<std::uint32_t>> calls;  // of a rule's first node, unread
  std::vector<std::uint32_t> seen(parts_.nodes.size(), 0);
  std::vector<std::uint32_t> pending{start()};
  for (std::size_t rule = 0; rule < pending.size(); ++rule) {
    const std::uint32_t mark = pending[rule] + 1;
    if (calls.contains(pending[rule])) continue;
    std::vector<std::uint32_t>& called = calls[pending[rule]];
    std::vector<std::uint32_t> reached{pending[rule]};
    for (std::size_t i = 0; i < reached.size(); ++i) {
      if (std::exchange(seen[reached[i]], mark) == mark) continue;
      for (const UnreadStep step : unread_steps(*this, parts_.nodes[reached[i]]))
        (step.is_call ? called : reached).push_back(step.node);
    }
    pending.insert(pending.end(), called.begin(), called.end());
    // Rules called later in a text may be left recursive too.
    if (rule == 0) pending.insert(pending.end(), parts_.rules.begin(), parts_.rules.end());
    if (rule == 0)
      for (const GrammarLoop& loop : parts_.loops) pending.push_back(loop.body);
  }
  std::map<std::uint32_t, std::size_t> num_callers;
  for (const auto& [rule, called] : calls)
    for (const std::uint32_t other : called) ++num_callers[other];
  std::vector<std::uint32_t> free;
  for (const auto& [rule, called] : calls)
    if (!num_callers.contains(rule)) free.push_back(rule);
  for (std::size_t i = 0; i < free.size(); ++i)
    for (const std::uint32_t other : calls[free[i]])
      if (--num_callers[other] == 0) free.push_back(other);
  if (free.size() < calls.size())
    throw GrammarError("a rule calls itself before it has read anything (left recursion)");
}

}  // namespace troupe
