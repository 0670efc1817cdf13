// SPDX-License-Identifier: Apache-2.0
// Makes a Grammar of expressions: bytes, texts, tokens, sequences, choices, repetitions and calls of
// rules. Formats (GBNF, regular expressions, JSON schemas) are written in these, and one grammar may be
// put together of several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/grammar.hpp"

namespace troupe {

// An expression of one builder. It may be used in several places.
enum class GrammarExpression : std::uint32_t {};
enum class GrammarRule : std::uint32_t {};

class GrammarBuilder {
 public:
  static constexpr std::size_t kMaxExpressions = 1'000'000;
  static constexpr std::uint32_t kMaxRepetitions = 100'000;

  GrammarExpression nothing();  // no text at all, not even an empty one
  GrammarExpression empty();
  GrammarExpression byte_of(const ByteSet& set);
  GrammarExpression byte_between(unsigned char first, unsigned char last);
  GrammarExpression text(std::string_view bytes);
  GrammarExpression token(TokenId token);
  GrammarExpression sequence(std::vector<GrammarExpression> parts);
  GrammarExpression any_of(std::vector<GrammarExpression> choices);
  // Common beginnings are read once, so that many texts cost no more than one.
  GrammarExpression any_text(std::vector<std::string> texts);
  GrammarExpression optional(GrammarExpression part) { return repeat(part, 0, 1); }
  // max: kUnboundedCount for no limit. Throws GrammarError above kMaxRepetitions.
  GrammarExpression repeat(GrammarExpression part, std::uint32_t min, std::uint32_t max);

  // Declared first, so that rules may call each other.
  GrammarRule declare_rule();
  // So, of text in which most tokens change nothing, and are worth being found (GrammarMasks::free_tokens).
  GrammarRule declare_free_text();
  void define(GrammarRule rule, GrammarExpression body);
  GrammarExpression call(GrammarRule rule);

  // Every rule that is called must be defined. Throws GrammarError: too large, or as Grammar does.
  Grammar build(GrammarExpression root) const;

 private:
  friend class GrammarCompiler;
  enum class Kind : std::uint8_t { kNothing, kEmpty, kBytes, kText, kToken, kSequence, kAny, kRepeat, kCall };
  struct Expression {
    Kind kind = Kind::kNothing;
    std::uint32_t operand = 0;  // a byte set, token, rule, text, or the repeated part
    std::uint32_t begin = 0;    // [begin, end) of children_; min and max of a repetition
    std::uint32_t end = 0;
  };

  GrammarExpression add(const Expression& expression);
  GrammarExpression add_parts(Kind kind, const std::vector<GrammarExpression>& parts);
  GrammarExpression texts_from(std::span<const std::string> sorted, std::size_t depth);
  const Expression& at(GrammarExpression id) const { return expressions_[static_cast<std::uint32_t>(id)]; }

  std::vector<Expression> expressions_;
  std::vector<GrammarExpression> children_;
  std::vector<ByteSet> byte_sets_;
  std::vector<std::string> texts_;
  struct Rule {
    std::optional<GrammarExpression> body;
    bool is_free_text = false;
  };
  std::vector<Rule> rules_;
};

}  // namespace troupe
