// SPDX-License-Identifier: Apache-2.0
// A parsed chat template: statements and expressions as a tree. Operators of
// one precedence and everything that follows an operand (.x, [i], (…), |filter,
// is test) are lists, not deeper trees, so long chains need no stack.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/template_builtins.hpp"
#include "text/jinja/template_runtime.hpp"

namespace troupe::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more_positional;  // *x; may be null
  ExpressionPtr more_named;       // **x; may be null
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListDisplay {
  std::vector<ExpressionPtr> elements;
  bool is_tuple = false;
};
struct DictDisplay {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};

enum class UnaryOperator { kNot, kMinus, kPlus };
struct Unary {
  UnaryOperator op;
  ExpressionPtr operand;
};

enum class BinaryOperator {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kConcatenate
};
// first op operand op operand …, from left to right.
struct BinaryChain {
  ExpressionPtr first;
  std::vector<std::pair<BinaryOperator, ExpressionPtr>> rest;
};

// All (and) or any (or) of the operands; the value is that of the last one
// looked at.
struct LogicChain {
  bool is_and = true;
  std::vector<ExpressionPtr> operands;
};

enum class ComparisonOperator {
  kEqual,
  kNotEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kIn,
  kNotIn
};
// a < b < c: every neighbouring pair.
struct ComparisonChain {
  ExpressionPtr first;
  std::vector<std::pair<ComparisonOperator, ExpressionPtr>> rest;
};

struct Conditional {
  ExpressionPtr condition;
  ExpressionPtr then;
  ExpressionPtr otherwise;  // may be null
};

struct Attribute {
  std::string name;
};
struct Item {
  ExpressionPtr index;
};
struct Slice {
  ExpressionPtr begin, end, step;  // each may be null
};
struct Call {
  CallArguments arguments;
};
struct FilterUse {
  Filter filter = nullptr;
  CallArguments arguments;
};
struct TestUse {
  Test test = nullptr;
  bool is_negated = false;
  CallArguments arguments;
};
using Suffix = std::variant<Attribute, Item, Slice, Call, FilterUse, TestUse>;

struct Postfix {
  ExpressionPtr operand;
  std::vector<Suffix> suffixes;
};

struct Expression {
  int line = 0;
  std::variant<Literal, Name, ListDisplay, DictDisplay, Unary, BinaryChain, LogicChain, ComparisonChain,
               Conditional, Postfix>
      node;
};

struct Statement;
using Body = std::vector<Statement>;

struct Text {
  std::string text;
};
struct Output {
  ExpressionPtr value;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body otherwise;
};
struct For {
  std::vector<std::string> targets;  // several: each element is unpacked
  ExpressionPtr iterable;
  ExpressionPtr condition;  // may be null
  Body body;
  Body otherwise;
};
struct Set {
  std::vector<std::string> targets;
  std::string attribute;  // of the namespace targets[0]; empty: a variable
  ExpressionPtr value;
};
// {% set x | filter %}…{% endset %}
struct SetBlock {
  std::string target;
  std::vector<FilterUse> filters;
  Body body;
};
struct FilterBlock {
  std::vector<FilterUse> filters;
  Body body;
};
struct Break {};
struct Continue {};

// A macro, or the body of a call block, which the macro that is called there runs by caller().
struct Macro {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  Body body;
  // Variables that the body reads, beside its parameters, without having set them.
  bool reads_caller = false;
  bool reads_varargs = false;
  bool reads_kwargs = false;
};

// {% call(parameters) macro(arguments) %}…{% endcall %}
struct CallBlock {
  Macro caller;
  ExpressionPtr call;  // a Postfix that ends in a Call
};

struct Statement {
  int line = 0;
  std::variant<Text, Output, If, For, Set, SetBlock, FilterBlock, Break, Continue, std::unique_ptr<Macro>,
               std::unique_ptr<CallBlock>>
      node;
};

}  // namespace troupe::jinja

namespace troupe {

struct TemplateProgram {
  jinja::Body body;
};

}  // namespace troupe
