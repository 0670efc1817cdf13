// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/grammar_builder.hpp"

#include <algorithm>
#include <cassert>
#include <unordered_map>
#include <utility>

namespace troupe {

GrammarExpression GrammarBuilder::add(const Expression& expression) {
  if (expressions_.size() >= kMaxExpressions)
    throw GrammarError("the grammar has more than " + std::to_string(kMaxExpressions) + " parts");
  expressions_.push_back(expression);
  return GrammarExpression{static_cast<std::uint32_t>(expressions_.size() - 1)};
}

GrammarExpression GrammarBuilder::add_parts(Kind kind, const std::vector<GrammarExpression>& parts) {
  const auto begin = static_cast<std::uint32_t>(children_.size());
  children_.insert(children_.end(), parts.begin(), parts.end());
  return add({.kind = kind, .begin = begin, .end = static_cast<std::uint32_t>(children_.size())});
}

GrammarExpression GrammarBuilder::nothing() { return add({}); }
GrammarExpression GrammarBuilder::empty() { return add({.kind = Kind::kEmpty}); }

GrammarExpression GrammarBuilder::byte_of(const ByteSet& set) {
  byte_sets_.push_back(set);
  return add({.kind = Kind::kBytes, .operand = static_cast<std::uint32_t>(byte_sets_.size() - 1)});
}

GrammarExpression GrammarBuilder::byte_between(unsigned char first, unsigned char last) {
  ByteSet set;
  for (std::size_t byte = first; byte <= last; ++byte) set.set(byte);
  return byte_of(set);
}

GrammarExpression GrammarBuilder::text(std::string_view bytes) {
  if (bytes.empty()) return empty();
  texts_.emplace_back(bytes);
  return add({.kind = Kind::kText, .operand = static_cast<std::uint32_t>(texts_.size() - 1)});
}

GrammarExpression GrammarBuilder::token(TokenId token) {
  return add({.kind = Kind::kToken, .operand = static_cast<std::uint32_t>(token)});
}

GrammarExpression GrammarBuilder::sequence(std::vector<GrammarExpression> parts) {
  if (parts.size() == 1) return parts.front();
  return parts.empty() ? empty() : add_parts(Kind::kSequence, parts);
}

GrammarExpression GrammarBuilder::any_of(std::vector<GrammarExpression> choices) {
  if (choices.size() == 1) return choices.front();
  return choices.empty() ? nothing() : add_parts(Kind::kAny, choices);
}

GrammarExpression GrammarBuilder::any_text(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return texts_from(texts, 0);
}

// sorted: texts that agree in their first `depth` bytes, which have been read.
GrammarExpression GrammarBuilder::texts_from(std::span<const std::string> sorted, std::size_t depth) {
  std::vector<GrammarExpression> choices;
  if (!sorted.empty() && sorted.front().size() == depth) {
    choices.push_back(empty());
    sorted = sorted.subspan(1);
  }
  while (!sorted.empty()) {
    const std::string& first = sorted.front();
    const auto differs = std::find_if(sorted.begin(), sorted.end(),
                                      [&](const std::string& other) { return other[depth] != first[depth]; });
    const auto group = sorted.first(static_cast<std::size_t>(differs - sorted.begin()));
    // The first and the last of sorted texts agree in no more bytes than all of them do.
    const std::string& last = group.back();
    const auto split = std::mismatch(first.begin(), first.end(), last.begin(), last.end()).first;
    const auto end = static_cast<std::size_t>(split - first.begin());
    const GrammarExpression common = text(std::string_view(first).substr(depth, end - depth));
    choices.push_back(group.size() == 1 ? common : sequence({common, texts_from(group, end)}));
    sorted = sorted.subspan(group.size());
  }
  return any_of(std::move(choices));
}

GrammarExpression GrammarBuilder::repeat(GrammarExpression part, std::uint32_t min, std::uint32_t max) {
  const std::uint32_t largest = max == kUnboundedCount ? min : max;
  if (largest > kMaxRepetitions)
    throw GrammarError("a repetition of " + std::to_string(largest) + ", expected at most " +
                       std::to_string(kMaxRepetitions));
  if (min > max) return nothing();
  if (max == 0) return empty();
  if ((min == 1 && max == 1) || at(part).kind == Kind::kEmpty) return part;
  return add({.kind = Kind::kRepeat, .operand = static_cast<std::uint32_t>(part), .begin = min, .end = max});
}

GrammarRule GrammarBuilder::declare_rule() {
  rules_.emplace_back();
  return GrammarRule{static_cast<std::uint32_t>(rules_.size() - 1)};
}

GrammarRule GrammarBuilder::declare_free_text() {
  const GrammarRule rule = declare_rule();
  rules_.back().is_free_text = true;
  return rule;
}

void GrammarBuilder::define(GrammarRule rule, GrammarExpression body) {
  rules_[static_cast<std::uint32_t>(rule)].body = body;
}

GrammarExpression GrammarBuilder::call(GrammarRule rule) {
  return add({.kind = Kind::kCall, .operand = static_cast<std::uint32_t>(rule)});
}

// Expressions to nodes, each from its end: the node that follows is known.
class GrammarCompiler {
 public:
  explicit GrammarCompiler(const GrammarBuilder& builder) : builder_(builder) {
    parts_.nodes.push_back({.kind = GrammarNode::Kind::kEnd});
  }

  Grammar::Parts compile(GrammarExpression root) {
    // Rules are called before they are compiled: each begins at a branch made in advance.
    for (std::size_t i = 0; i < builder_.rules_.size(); ++i) parts_.rules.push_back(add_node({}));
    for (std::size_t i = 0; i < builder_.rules_.size(); ++i) {
      const GrammarBuilder::Rule& rule = builder_.rules_[i];
      if (!rule.body) continue;
      is_in_free_text_ = rule.is_free_text;
      const std::uint32_t body = add(*rule.body, add_node({.kind = GrammarNode::Kind::kReturn}));
      parts_.nodes[parts_.rules[i]] = {.kind = GrammarNode::Kind::kBranch, .operand = body, .next = body};
    }
    is_in_free_text_ = false;
    parts_.root = static_cast<std::uint32_t>(parts_.rules.size());
    parts_.rules.push_back(add(root, 0));
    return std::move(parts_);
  }

 private:
  using Kind = GrammarBuilder::Kind;
  // A repetition of no more nodes than this is written out; others are counted.
  static constexpr std::uint64_t kMaxUnrolledNodes = 24;
  static constexpr std::uint32_t kMaxUnrolledTimes = 8;
  // Expressions may be used in several places, and those that add no nodes meet no other limit.
  static constexpr std::size_t kMaxAdded = 2 * Grammar::kMaxNodes;

  std::uint32_t add_node(const GrammarNode& node) {
    if (parts_.nodes.size() >= Grammar::kMaxNodes)
      throw GrammarError("the grammar needs more than " + std::to_string(Grammar::kMaxNodes) + " states");
    parts_.nodes.push_back(node);
    parts_.nodes.back().is_free_text = is_in_free_text_;
    return static_cast<std::uint32_t>(parts_.nodes.size() - 1);
  }

  std::uint32_t add_branch(std::uint32_t first, std::uint32_t second) {
    return add_node({.kind = GrammarNode::Kind::kBranch, .operand = second, .next = first});
  }

  std::uint32_t add_bytes(const ByteSet& set, std::uint32_t next) {
    const auto known = static_cast<std::uint32_t>(parts_.byte_sets.size());
    const auto [index, is_new] = byte_sets_.try_emplace(set, known);
    if (is_new) parts_.byte_sets.push_back(set);
    return add_node({.kind = GrammarNode::Kind::kBytes, .operand = index->second, .next = next});
  }

  std::uint32_t add(GrammarExpression id, std::uint32_t next) {
    if (++num_added_ > kMaxAdded) throw GrammarError("the grammar is too large");
    const GrammarBuilder::Expression expression = builder_.at(id);
    switch (expression.kind) {
      case Kind::kNothing: return add_bytes({}, next);
      case Kind::kEmpty: return next;
      case Kind::kBytes: return add_bytes(builder_.byte_sets_[expression.operand], next);
      case Kind::kText: return add_text(builder_.texts_[expression.operand], next);
      case Kind::kToken:
        return add_node({.kind = GrammarNode::Kind::kToken, .operand = expression.operand, .next = next});
      case Kind::kSequence:
        for (std::uint32_t i = expression.end; i-- > expression.begin;)
          next = add(builder_.children_[i], next);
        return next;
      case Kind::kAny: {
        std::uint32_t choices = add(builder_.children_[expression.end - 1], next);
        for (std::uint32_t i = expression.end - 1; i-- > expression.begin;)
          choices = add_branch(add(builder_.children_[i], next), choices);
        return choices;
      }
      case Kind::kRepeat:
        return add_repeat(GrammarExpression{expression.operand}, expression.begin, expression.end, next);
      case Kind::kCall:
        return add_node(
            {.kind = GrammarNode::Kind::kCall, .operand = parts_.rules[expression.operand], .next = next});
    }
    return next;
  }

  std::uint32_t add_text(const std::string& text, std::uint32_t next) {
    for (std::size_t i = text.size(); i-- > 0;) {
      ByteSet set;
      set.set(static_cast<unsigned char>(text[i]));
      next = add_bytes(set, next);
    }
    return next;
  }

  std::uint32_t add_star(GrammarExpression part, std::uint32_t next) {
    const std::uint32_t branch = add_branch(next, next);
    const std::uint32_t body = add(part, branch);
    parts_.nodes[branch].operand = body;
    return branch;
  }

  std::uint32_t add_repeat(GrammarExpression part, std::uint32_t min, std::uint32_t max, std::uint32_t next) {
    if (min == 0 && max == kUnboundedCount) return add_star(part, next);
    if (min == 0 && max == 1) return add_branch(add(part, next), next);
    const std::size_t before = parts_.nodes.size(), loops_before = parts_.loops.size();
    // A body for the loop, which tells as well how large one pass is.
    const std::uint32_t body = add(part, add_node({.kind = GrammarNode::Kind::kReturn}));
    const std::uint64_t num_nodes = parts_.nodes.size() - before;
    if (num_nodes == 1) {  // the return alone: the part is empty however often it is repeated
      parts_.nodes.resize(before);
      return next;
    }
    const std::uint32_t times = max == kUnboundedCount ? min : max;
    if (times <= kMaxUnrolledTimes && times * num_nodes <= kMaxUnrolledNodes) {
      parts_.nodes.resize(before);
      parts_.loops.resize(loops_before);
      return add_unrolled(part, min, max, next);
    }
    parts_.loops.push_back({.body = body, .min = min, .max = max});
    const auto loop = static_cast<std::uint32_t>(parts_.loops.size() - 1);
    return add_node({.kind = GrammarNode::Kind::kLoop, .operand = loop, .next = next});
  }

  std::uint32_t add_unrolled(GrammarExpression part, std::uint32_t min, std::uint32_t max,
                             std::uint32_t next) {
    std::uint32_t entry = next;
    if (max == kUnboundedCount) {
      entry = add_star(part, next);
    } else {
      for (std::uint32_t i = min; i < max; ++i) entry = add_branch(add(part, entry), next);
    }
    for (std::uint32_t i = 0; i < min; ++i) entry = add(part, entry);
    return entry;
  }

  const GrammarBuilder& builder_;
  Grammar::Parts parts_;
  std::unordered_map<ByteSet, std::uint32_t> byte_sets_;
  std::size_t num_added_ = 0;
  bool is_in_free_text_ = false;
};

Grammar GrammarBuilder::build(GrammarExpression root) const {
  return Grammar(GrammarCompiler(*this).compile(root));
}

}  // namespace troupe
