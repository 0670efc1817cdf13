// SPDX-License-Identifier: Apache-2.0
// Trees that clients of classifiers write: one that is taken is a tree, whose nodes are
// reached once each, behind their children, and its brackets are read as the same tree.
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz_targets.hpp"
#include "tests/fuzz/property.hpp"
#include "text/tree/syntax_tree.hpp"

namespace troupe::fuzz {
namespace {

void check_order(const SyntaxTree& tree) {
  const auto order = tree.children_first();
  require(order.size() == tree.nodes.size(), "a node is reached twice or not at all");
  std::vector<bool> is_behind(tree.nodes.size());
  for (const std::uint32_t node : order) {
    for (const std::uint32_t child : tree.nodes[node].children)
      require(is_behind[child], "a node comes before its child");
    is_behind[node] = true;
  }
  require(!order.empty() && order.back() == tree.root, "the root is not the last");
}

// In brackets a word has neither brackets nor spaces and is not escaped.
bool fits_brackets(const SyntaxTree& tree) {
  for (const SyntaxTree::Node& node : tree.nodes) {
    if (!node.word.empty() && !node.children.empty()) return false;
    if (node.word.find_first_of("()\\ \t\r\n") != std::string::npos) return false;
    if (node.word == "-LRB-" || node.word == "-RRB-") return false;
  }
  return true;
}

std::string in_brackets(const SyntaxTree& tree) {
  struct Step {
    std::uint32_t node;
    bool closes;
  };
  std::string text;
  std::vector<Step> steps = {{tree.root, false}};
  while (!steps.empty()) {
    const Step step = steps.back();
    steps.pop_back();
    if (step.closes) {
      text += ')';
      continue;
    }
    const SyntaxTree::Node& node = tree.nodes[step.node];
    text += "(label " + node.word;
    steps.push_back({step.node, true});
    for (auto child = node.children.rbegin(); child != node.children.rend(); ++child)
      steps.push_back({*child, false});
  }
  return text;
}

std::vector<std::string> words_in_order(const SyntaxTree& tree) {
  std::vector<std::string> words;
  for (const std::uint32_t node : tree.children_first())
    if (tree.nodes[node].children.empty()) words.push_back(tree.nodes[node].word);
  return words;
}

}  // namespace

void fuzz_tree_text(std::string_view bytes) {
  SyntaxTree tree;
  try {
    tree = parse_tree(bytes);
  } catch (const TreeError& error) {
    return require(std::string_view(error.what()).starts_with("The input is no tree: "),
                   "a refusal does not say that the input is no tree");
  }
  require(!tree.nodes.empty() && tree.nodes.size() <= SyntaxTree::kMaxNodes, "too few or too many nodes");
  check_order(tree);
  if (!fits_brackets(tree)) return;
  const SyntaxTree again = parse_tree(in_brackets(tree));
  require(again.nodes.size() == tree.nodes.size(), "a tree has other nodes after it was written");
  require(words_in_order(again) == words_in_order(tree), "a tree has other words after it was written");
}

}  // namespace troupe::fuzz
