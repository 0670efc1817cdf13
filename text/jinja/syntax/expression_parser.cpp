// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/syntax/expression_parser.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace troupe::jinja {
namespace {

using Kind = Token::Kind;

std::optional<ComparisonOperator> comparison_of(const std::string& text) {
  if (text == "==") return ComparisonOperator::kEqual;
  if (text == "!=") return ComparisonOperator::kNotEqual;
  if (text == "<") return ComparisonOperator::kLess;
  if (text == "<=") return ComparisonOperator::kLessOrEqual;
  if (text == ">") return ComparisonOperator::kGreater;
  if (text == ">=") return ComparisonOperator::kGreaterOrEqual;
  return std::nullopt;
}

std::optional<Value> constant_named(const std::string& name) {
  if (name == "true" || name == "True") return Value(true);
  if (name == "false" || name == "False") return Value(false);
  if (name == "none" || name == "None") return Value(nullptr);
  return std::nullopt;
}

bool ends_expression(const TokenStream& tokens) {
  return tokens.is(Kind::kOutputEnd) || tokens.is(Kind::kStatementEnd) || tokens.is(Kind::kEnd);
}

}  // namespace

ExpressionPtr ExpressionParser::make(int line, decltype(Expression::node) node) const {
  return std::make_unique<Expression>(Expression{line, std::move(node)});
}

ExpressionPtr ExpressionParser::parse() {
  const ParseDepth depth(depth_, tokens_);
  const int line = tokens_.line();
  ExpressionPtr value = parse_or();
  if (!tokens_.skip_name("if")) return value;
  ExpressionPtr condition = parse_or();
  ExpressionPtr otherwise = tokens_.skip_name("else") ? parse() : nullptr;
  return make(line, Conditional{std::move(condition), std::move(value), std::move(otherwise)});
}

ExpressionPtr ExpressionParser::parse_without_condition() {
  const ParseDepth depth(depth_, tokens_);
  return parse_or();
}

ExpressionPtr ExpressionParser::parse_tuple(bool has_conditions) {
  const int line = tokens_.line();
  const auto element = [&] { return has_conditions ? parse() : parse_without_condition(); };
  ExpressionPtr first = element();
  if (!tokens_.is_operator(",")) return first;
  ListDisplay tuple{{}, true};
  tuple.elements.push_back(std::move(first));
  while (tokens_.skip_operator(",")) {
    if (ends_expression(tokens_) || tokens_.is_operator(")")) break;
    tuple.elements.push_back(element());
  }
  return make(line, std::move(tuple));
}

std::vector<FilterUse> ExpressionParser::parse_filters() {
  std::vector<FilterUse> filters;
  tokens_.skip_operator("|");
  do {
    filters.push_back(parse_filter());
  } while (tokens_.skip_operator("|"));
  return filters;
}

ExpressionPtr ExpressionParser::parse_or() {
  const int line = tokens_.line();
  ExpressionPtr first = parse_and();
  if (!tokens_.is_name("or")) return first;
  LogicChain chain{false, {}};
  chain.operands.push_back(std::move(first));
  while (tokens_.skip_name("or")) chain.operands.push_back(parse_and());
  return make(line, std::move(chain));
}

ExpressionPtr ExpressionParser::parse_and() {
  const int line = tokens_.line();
  ExpressionPtr first = parse_not();
  if (!tokens_.is_name("and")) return first;
  LogicChain chain{true, {}};
  chain.operands.push_back(std::move(first));
  while (tokens_.skip_name("and")) chain.operands.push_back(parse_not());
  return make(line, std::move(chain));
}

ExpressionPtr ExpressionParser::parse_not() {
  const int line = tokens_.line();
  if (!tokens_.skip_name("not")) return parse_comparison();
  const ParseDepth depth(depth_, tokens_);
  return make(line, Unary{UnaryOperator::kNot, parse_not()});
}

ExpressionPtr ExpressionParser::parse_comparison() {
  const int line = tokens_.line();
  ComparisonChain chain;
  chain.first = parse_sum();
  while (true) {
    std::optional<ComparisonOperator> op;
    if (tokens_.is(Kind::kOperator)) op = comparison_of(tokens_.peek().text);
    if (op) {
      tokens_.next();
    } else if (tokens_.skip_name("in")) {
      op = ComparisonOperator::kIn;
    } else if (tokens_.is_name("not")) {
      tokens_.next();
      if (!tokens_.skip_name("in")) tokens_.fail_expecting("'in'");
      op = ComparisonOperator::kNotIn;
    } else {
      break;
    }
    chain.rest.emplace_back(*op, parse_sum());
  }
  return chain.rest.empty() ? std::move(chain.first) : make(line, std::move(chain));
}

ExpressionPtr ExpressionParser::parse_sum() {
  const int line = tokens_.line();
  BinaryChain chain;
  chain.first = parse_concatenation();
  while (tokens_.is_operator("+") || tokens_.is_operator("-")) {
    const bool adds = tokens_.next().text == "+";
    chain.rest.emplace_back(adds ? BinaryOperator::kAdd : BinaryOperator::kSubtract, parse_concatenation());
  }
  return chain.rest.empty() ? std::move(chain.first) : make(line, std::move(chain));
}

ExpressionPtr ExpressionParser::parse_concatenation() {
  const int line = tokens_.line();
  BinaryChain chain;
  chain.first = parse_product();
  while (tokens_.skip_operator("~")) {
    chain.rest.emplace_back(BinaryOperator::kConcatenate, parse_product());
  }
  return chain.rest.empty() ? std::move(chain.first) : make(line, std::move(chain));
}

ExpressionPtr ExpressionParser::parse_product() {
  const int line = tokens_.line();
  BinaryChain chain;
  chain.first = parse_power();
  while (true) {
    BinaryOperator op{};
    if (tokens_.skip_operator("*")) {
      op = BinaryOperator::kMultiply;
    } else if (tokens_.skip_operator("/")) {
      op = BinaryOperator::kDivide;
    } else if (tokens_.skip_operator("//")) {
      op = BinaryOperator::kFloorDivide;
    } else if (tokens_.skip_operator("%")) {
      op = BinaryOperator::kModulo;
    } else {
      break;
    }
    chain.rest.emplace_back(op, parse_power());
  }
  return chain.rest.empty() ? std::move(chain.first) : make(line, std::move(chain));
}

ExpressionPtr ExpressionParser::parse_power() {
  const int line = tokens_.line();
  BinaryChain chain;
  chain.first = parse_unary(true);
  while (tokens_.skip_operator("**")) {
    chain.rest.emplace_back(BinaryOperator::kPower, parse_unary(true));
  }
  return chain.rest.empty() ? std::move(chain.first) : make(line, std::move(chain));
}

// Filters and tests belong to the whole of "-x", so only the outermost level
// takes them.
ExpressionPtr ExpressionParser::parse_unary(bool has_filters) {
  const int line = tokens_.line();
  if (tokens_.is_operator("-") || tokens_.is_operator("+")) {
    const ParseDepth depth(depth_, tokens_);
    const bool is_minus = tokens_.next().text == "-";
    const UnaryOperator op = is_minus ? UnaryOperator::kMinus : UnaryOperator::kPlus;
    ExpressionPtr negated = make(line, Unary{op, parse_unary(false)});
    return parse_suffixes(std::move(negated), has_filters);
  }
  return parse_suffixes(parse_primary(), has_filters);
}

ExpressionPtr ExpressionParser::parse_primary() {
  const int line = tokens_.line();
  if (tokens_.is_operator("(") || tokens_.is_operator("[")) return parse_brackets();
  if (tokens_.is_operator("{")) return parse_dict();
  if (ends_expression(tokens_) || tokens_.is(Kind::kOperator)) {
    tokens_.fail_expecting("an expression");
  }
  const Token token = tokens_.next();
  switch (token.kind) {
    case Kind::kName: {
      if (const auto constant = constant_named(token.text)) return make(line, Literal{*constant});
      names_.read(token.text);
      return make(line, Name{token.text});
    }
    case Kind::kString: {
      std::string text = token.text;
      while (tokens_.is(Kind::kString)) text += tokens_.next().text;
      return make(line, Literal{Value::text(std::move(text))});
    }
    case Kind::kInteger: {
      std::int64_t number = 0;
      const char* end = token.text.data() + token.text.size();
      if (std::from_chars(token.text.data(), end, number).ec != std::errc()) {
        fail_at_line(line, "the number " + token.text + " is too large");
      }
      return make(line, Literal{number});
    }
    default: {
      double number = 0;
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
      return make(line, Literal{number});
    }
  }
}

ExpressionPtr ExpressionParser::parse_brackets() {
  const int line = tokens_.line();
  const bool is_list = tokens_.next().text == "[";
  const std::string_view closing = is_list ? "]" : ")";
  ListDisplay display{{}, !is_list};
  bool has_comma = false;
  while (!tokens_.is_operator(closing)) {
    display.elements.push_back(parse());
    if (!tokens_.skip_operator(",")) break;
    has_comma = true;
  }
  tokens_.expect_operator(closing);
  const bool is_grouping = !is_list && !has_comma && display.elements.size() == 1;
  return is_grouping ? std::move(display.elements[0]) : make(line, std::move(display));
}

ExpressionPtr ExpressionParser::parse_dict() {
  const int line = tokens_.line();
  tokens_.expect_operator("{");
  DictDisplay display;
  while (!tokens_.is_operator("}")) {
    ExpressionPtr key = parse();
    tokens_.expect_operator(":");
    display.entries.emplace_back(std::move(key), parse());
    if (!tokens_.skip_operator(",")) break;
  }
  tokens_.expect_operator("}");
  return make(line, std::move(display));
}

ExpressionPtr ExpressionParser::parse_suffixes(ExpressionPtr operand, bool has_filters) {
  const int line = operand->line;
  Postfix postfix;
  bool was_filtered = false;  // then only more of these and calls may follow
  while (true) {
    if (!was_filtered && tokens_.is_operator(".")) {
      postfix.suffixes.emplace_back(parse_attribute());
    } else if (!was_filtered && tokens_.is_operator("[")) {
      postfix.suffixes.emplace_back(parse_item());
    } else if (tokens_.is_operator("(")) {
      postfix.suffixes.emplace_back(Call{parse_arguments()});
    } else if (has_filters && tokens_.skip_operator("|")) {
      postfix.suffixes.emplace_back(parse_filter());
      was_filtered = true;
    } else if (has_filters && tokens_.skip_name("is")) {
      postfix.suffixes.emplace_back(parse_test());
      was_filtered = true;
    } else {
      break;
    }
  }
  if (postfix.suffixes.empty()) return operand;
  postfix.operand = std::move(operand);
  return make(line, std::move(postfix));
}

Suffix ExpressionParser::parse_attribute() {
  tokens_.expect_operator(".");
  if (tokens_.is(Kind::kInteger)) {
    const int line = tokens_.line();
    return Item{make(line, Literal{static_cast<std::int64_t>(std::atoll(tokens_.next().text.c_str()))})};
  }
  return Attribute{tokens_.expect_name()};
}

Suffix ExpressionParser::parse_item() {
  tokens_.expect_operator("[");
  Slice slice;
  if (!tokens_.is_operator(":")) {
    slice.begin = parse_tuple(true);
    if (tokens_.skip_operator("]")) return Item{std::move(slice.begin)};
  }
  tokens_.expect_operator(":");
  const auto is_bound = [&] { return !tokens_.is_operator(":") && !tokens_.is_operator("]"); };
  if (is_bound()) slice.end = parse();
  if (tokens_.skip_operator(":") && is_bound()) slice.step = parse();
  tokens_.expect_operator("]");
  return Suffix(std::move(slice));
}

FilterUse ExpressionParser::parse_filter() {
  const int line = tokens_.line();
  const std::string name = tokens_.expect_name();
  const Filter filter = filter_named(name);
  if (filter == nullptr) fail_at_line(line, "unknown filter '" + name + "'");
  FilterUse use{filter, {}};
  if (tokens_.is_operator("(")) use.arguments = parse_arguments();
  return use;
}

TestUse ExpressionParser::parse_test() {
  const int line = tokens_.line();
  TestUse use{};
  use.is_negated = tokens_.skip_name("not");
  const std::string name = tokens_.expect_name();
  use.test = test_named(name);
  if (use.test == nullptr) fail_at_line(line, "unknown test '" + name + "'");
  if (tokens_.is_operator("(")) {
    use.arguments = parse_arguments();
  } else if (ExpressionPtr argument = parse_test_argument()) {
    use.arguments.positional.push_back(std::move(argument));
  }
  return use;
}

// "is divisibleby 3": one argument may stand without brackets.
ExpressionPtr ExpressionParser::parse_test_argument() {
  const bool is_word = tokens_.is(Kind::kName) && !tokens_.is_name("else") && !tokens_.is_name("or") &&
                       !tokens_.is_name("and") && !tokens_.is_name("if") && !tokens_.is_name("is") &&
                       !tokens_.is_name("in") && !tokens_.is_name("not");
  const bool is_value = tokens_.is(Kind::kString) || tokens_.is(Kind::kInteger) || tokens_.is(Kind::kFloat) ||
                        tokens_.is_operator("[") || tokens_.is_operator("{");
  if (!is_word && !is_value) return nullptr;
  return parse_suffixes(parse_primary(), false);
}

CallArguments ExpressionParser::parse_arguments() {
  const ParseDepth depth(depth_, tokens_);
  tokens_.expect_operator("(");
  CallArguments arguments;
  while (!tokens_.is_operator(")")) {
    parse_argument(arguments);
    if (!tokens_.skip_operator(",")) break;
  }
  tokens_.expect_operator(")");
  return arguments;
}

// x, name=x, *x or **x, in the order that Jinja wants.
void ExpressionParser::parse_argument(CallArguments& arguments) {
  if (arguments.more_named) tokens_.fail("an argument follows **");
  if (tokens_.is_operator("*")) {
    if (arguments.more_positional) tokens_.fail("a second argument list (*)");
    tokens_.next();
    arguments.more_positional = parse();
  } else if (tokens_.skip_operator("**")) {
    arguments.more_named = parse();
  } else if (tokens_.is(Kind::kName) && tokens_.is_operator_after("=")) {
    std::string name = tokens_.expect_name();
    tokens_.expect_operator("=");
    arguments.named.emplace_back(std::move(name), parse());
  } else {
    const bool is_late = !arguments.named.empty() || arguments.more_positional;
    if (is_late) tokens_.fail("a positional argument follows a named one or *");
    arguments.positional.push_back(parse());
  }
}

}  // namespace troupe::jinja
