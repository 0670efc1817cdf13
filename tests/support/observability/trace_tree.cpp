// SPDX-License-Identifier: Apache-2.0
#include "tests/support/observability/trace_tree.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace troupe::test {
namespace {

constexpr int kServer = 2;

bool is_hex_id(const std::string& id, std::size_t digits) {
  return id.size() == digits && id.find_first_not_of("0123456789abcdef") == std::string::npos &&
         id.find_first_not_of('0') != std::string::npos;
}

}  // namespace

std::vector<std::string> TraceTree::phase_names() const {
  std::vector<std::string> names;
  for (const auto& span : phases) names.push_back(span.name);
  return names;
}

const ReceivedSpan& TraceTree::phase(const std::string& name) const {
  for (const auto& span : phases)
    if (span.name == name) return span;
  throw std::runtime_error("the tree has no phase " + name);
}

std::vector<TraceTree> trees_of(const std::vector<ReceivedSpan>& spans) {
  std::vector<TraceTree> trees;
  for (const auto& root : spans) {
    if (root.kind != kServer) continue;
    TraceTree tree{.root = root, .phases = {}};
    for (const auto& span : spans)
      if (span.trace_id == root.trace_id && span.parent_id == root.span_id) tree.phases.push_back(span);
    std::stable_sort(tree.phases.begin(), tree.phases.end(),
                     [](const auto& a, const auto& b) { return a.start < b.start; });
    trees.push_back(std::move(tree));
  }
  return trees;
}

std::vector<ReceivedSpan> iterations_of(const std::vector<ReceivedSpan>& spans) {
  std::vector<ReceivedSpan> iterations;
  for (const auto& span : spans)
    if (span.name == "iteration") iterations.push_back(span);
  return iterations;
}

std::string problems_of(const TraceTree& tree) {
  std::string problems;
  const auto check = [&](bool is_right, const std::string& what) {
    if (!is_right) problems += what + "\n";
  };
  std::set<std::string> ids = {tree.root.span_id};
  check(is_hex_id(tree.root.trace_id, 32), "the trace id is no id");
  check(is_hex_id(tree.root.span_id, 16), "the root's id is no id");
  check(tree.root.start <= tree.root.end, "the root ends before it begins");
  std::int64_t previous_end = tree.root.start;
  for (const auto& span : tree.phases) {
    check(is_hex_id(span.span_id, 16), span.name + " has no id");
    check(ids.insert(span.span_id).second, span.name + " has another's id");
    check(span.start <= span.end, span.name + " ends before it begins");
    check(span.start >= previous_end, span.name + " begins before its predecessor has ended");
    check(span.end <= tree.root.end, span.name + " ends after the root");
    previous_end = span.end;
  }
  for (const auto& event : tree.root.events)
    check(event.time >= tree.root.start && event.time <= tree.root.end,
          event.name + " is not within the root");
  return problems;
}

}  // namespace troupe::test
