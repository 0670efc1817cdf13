// SPDX-License-Identifier: Apache-2.0
// The expressions of a chat template, by recursive descent.
#pragma once

#include <cstddef>
#include <vector>

#include "text/jinja/syntax/macro_names.hpp"
#include "text/jinja/syntax/template_program.hpp"
#include "text/jinja/syntax/token_stream.hpp"

namespace troupe::jinja {

class ExpressionParser {
 public:
  // `depth` counts nesting together with the statements', `names` gets the variables that are read.
  ExpressionParser(TokenStream& tokens, std::size_t& depth, MacroNames& names)
      : tokens_(tokens), depth_(depth), names_(names) {}

  // a if b else c
  ExpressionPtr parse();
  // Without a condition at the end: the "if" after it belongs to a for loop.
  ExpressionPtr parse_without_condition();
  // a, b, c without brackets is a tuple.
  ExpressionPtr parse_tuple(bool has_conditions);
  // |filter|filter, the first "|" being optional.
  std::vector<FilterUse> parse_filters();

 private:
  ExpressionPtr make(int line, decltype(Expression::node) node) const;
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concatenation();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool has_filters);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_brackets();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_suffixes(ExpressionPtr operand, bool has_filters);
  ExpressionPtr parse_test_argument();
  Suffix parse_attribute();
  Suffix parse_item();
  FilterUse parse_filter();
  TestUse parse_test();
  CallArguments parse_arguments();
  void parse_argument(CallArguments& arguments);

  TokenStream& tokens_;
  std::size_t& depth_;
  MacroNames& names_;
};

}  // namespace troupe::jinja
