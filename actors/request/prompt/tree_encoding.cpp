// SPDX-License-Identifier: Apache-2.0
#include "actors/request/prompt/tree_encoding.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/encoding_budget.hpp"
#include "text/tree/syntax_tree.hpp"

namespace troupe {
namespace {

ApiError invalid(std::string message) {
  return {.kind = ApiErrorKind::kInvalidRequest, .message = std::move(message), .field = "input"};
}

// A word that is looked up costs about as much as so many steps of a tokenizer.
constexpr std::size_t kStepsANode = 16;

std::string node_with(std::uint32_t node) { return "Node " + std::to_string(node) + " of the tree has "; }

// nullopt: the vocabulary lacks it, and nothing stands in for it. Special tokens are no words.
std::optional<std::int32_t> token_of(const ServedModel& model, const UnfoldingRule& rule,
                                     const std::string& word) {
  const auto token = model.tokenizer->token_id(word);
  if (token && !model.tokenizer->is_special(*token)) return *token;
  return rule.unknown_word >= 0 ? std::optional(rule.unknown_word) : std::nullopt;
}

// Empty: the model has cells for such a node.
std::string problem_of(const UnfoldingRule& rule, const SyntaxTree::Node& node) {
  const std::size_t num_children = node.children.size();
  if (!node.word.empty() && num_children > 0 && !rule.has_inner_words)
    return "a word and children, but this model's words are leaves.";
  if (num_children > rule.max_children)
    return std::to_string(num_children) + " children, but this model's have " +
           (rule.is_exactly_max ? "exactly " : "at most ") + std::to_string(rule.max_children) + ".";
  return {};
}

}  // namespace

std::variant<EncodedPrompt, ApiError> encode_tree(const ServedModel& model, std::string_view text,
                                                  const std::function<bool()>& is_interrupted) {
  EncodingBudget budget(EncodingBudget::kUnlimited, is_interrupted);
  budget.ask();
  const UnfoldingRule rule = *model.unfolding();
  SyntaxTree tree;
  try {
    tree = parse_tree(text);
  } catch (const TreeError& error) {
    return invalid(error.what());
  }
  budget.ask();
  EncodedPrompt encoded;
  CellGraph graph;
  std::vector<CellGraph::NodeIndex> nodes(tree.nodes.size()), inputs;
  for (const std::uint32_t index : tree.children_first()) {
    const SyntaxTree::Node& node = tree.nodes[index];
    budget.spend(kStepsANode);
    if (const std::string problem = problem_of(rule, node); !problem.empty())
      return invalid(node_with(index) + problem);
    const bool is_its_child = node.word.empty() && node.children.size() == 1 && rule.is_exactly_max;
    if (is_its_child) {
      nodes[index] = nodes[node.children.front()];
      continue;
    }
    inputs.clear();
    for (const std::uint32_t child : node.children) inputs.push_back(nodes[child]);
    CellGraph::Node cell{.cell = node.word.empty() ? 1U : 0U, .is_result = true};
    if (!node.word.empty()) {
      const auto token = token_of(model, rule, node.word);
      if (!token)
        return invalid(node_with(index) + "the word \"" + node.word +
                       "\", which is not in the vocabulary of the model " + model.name + ".");
      cell.token = *token;
      encoded.tokens.push_back(*token);
    }
    nodes[index] = graph.add(cell, inputs);
  }
  graph.finish();
  encoded.graph = std::make_shared<const CellGraph>(std::move(graph));
  encoded.root = tree.root;
  encoded.node_results = std::move(nodes);  // each node has a result, so they are numbered alike
  return encoded;
}

}  // namespace troupe
