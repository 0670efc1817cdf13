// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/word_tree.hpp"

namespace troupe::loadgen {
namespace {

// A node's first word, or its last, is a child of its own so often; else any split is as
// likely as another. So the trees of the Stanford Sentiment Treebank's lengths have its mean
// depth, 10.9.
constexpr double kFirstAlone = 0.4, kLastAlone = 0.1;

// Words of the left child.
std::uint32_t split(TreeShape shape, std::uint32_t num_words, RandomSource& random) {
  if (shape == TreeShape::kComplete) return num_words / 2;
  const double kind = random.uniform();
  if (kind < kFirstAlone) return 1;
  if (kind < kFirstAlone + kLastAlone) return num_words - 1;
  return 1 + static_cast<std::uint32_t>(random.below(num_words - 1));
}

struct Span {
  std::uint32_t first = 0, count = 0;  // words
  std::uint32_t parent = 0, side = 0;  // the parent, as an index of inner nodes; left or right
};

}  // namespace

std::string_view name_of(TreeShape shape) {
  switch (shape) {
    case TreeShape::kNone: break;
    case TreeShape::kParsed: return "parsed";
    case TreeShape::kComplete: return "complete";
  }
  return "none";
}

std::optional<TreeShape> tree_shape_from_name(std::string_view name) {
  for (const TreeShape shape : {TreeShape::kNone, TreeShape::kParsed, TreeShape::kComplete})
    if (name == name_of(shape)) return shape;
  return std::nullopt;
}

// Parents are placed first, so indexes are given out from the last one.
std::vector<std::array<std::uint32_t, 2>> inner_nodes(TreeShape shape, std::uint32_t num_words,
                                                      RandomSource random) {
  const std::uint32_t num_inner = num_words - 1;
  std::vector<std::array<std::uint32_t, 2>> nodes(num_inner);
  std::vector<Span> open = {{.first = 0, .count = num_words}};
  std::uint32_t num_placed = 0;
  while (!open.empty()) {
    const Span span = open.back();
    open.pop_back();
    const std::uint32_t index = num_inner - 1 - num_placed;
    const std::uint32_t number = span.count == 1 ? span.first : num_words + index;
    const bool is_root = span.count == num_words;
    if (!is_root) nodes[span.parent][span.side] = number;
    if (span.count == 1) continue;
    num_placed += 1;
    const std::uint32_t left = split(shape, span.count, random);
    open.push_back({.first = span.first + left, .count = span.count - left, .parent = index, .side = 1});
    open.push_back({.first = span.first, .count = left, .parent = index, .side = 0});
  }
  return nodes;
}

}  // namespace troupe::loadgen
