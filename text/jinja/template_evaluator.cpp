// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/template_evaluator.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "text/jinja/template_arithmetic.hpp"
#include "text/jinja/template_builtins.hpp"

namespace troupe::jinja {
namespace {

// Of calls in C++, about half a kilobyte each.
constexpr std::size_t kMaxDepth = 500;

enum class Flow { kNext, kBreak, kContinue };

class Evaluator {
 public:
  Evaluator(Variables variables, std::chrono::system_clock::time_point now, Budget& budget)
      : now_(now), budget_(budget) {
    scopes_.push_back(std::move(variables));
  }

  MarkedString run(const TemplateProgram& program, std::string buffer) {
    output_ = MarkedString(std::move(buffer));
    run_body(program.body);
    return std::move(output_);
  }

 private:
  // One level deeper while it lives; one step.
  class Level {
   public:
    explicit Level(Evaluator& evaluator) : depth_(evaluator.depth_) {
      if (depth_ == kMaxDepth) fail("the template calls itself too often");
      ++depth_;
      evaluator.budget_.spend_steps(1);
    }
    ~Level() { --depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    std::size_t& depth_;
  };

  Flow run_body(const Body& body) {
    for (const Statement& statement : body) {
      const Level level(*this);
      const Flow flow = std::visit([&](const auto& node) { return run_node(node); }, statement.node);
      if (flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

  Flow run_node(const Text& text) {
    output_.append(text.text, false);
    budget_.check_bytes(output_.size());
    return Flow::kNext;
  }

  Flow run_node(const Output& output) {
    if (const auto* chain = std::get_if<BinaryChain>(&output.value->node)) {
      const Level level(*this);
      write(*chain);
    } else {
      write(value_of(*output.value));
    }
    return Flow::kNext;
  }

  void write(const Value& value) {
    if (const MarkedString* string = value.string()) {
      output_.append(*string);
    } else {
      budget_.spend_steps(weight(value));
      output_.append(to_text(value));
    }
    budget_.check_bytes(output_.size());
  }

  // A sum of strings operand by operand: put together first, each long text would be copied twice.
  void write(const BinaryChain& chain) {
    Value first = value_of(*chain.first);
    const bool is_sum = first.string() && chain.rest.front().first == BinaryOperator::kAdd;
    if (!is_sum) return write(result_of(chain, std::move(first)));
    write(first);
    for (const auto& [op, operand] : chain.rest) {
      const Value right = value_of(*operand);
      if (op != BinaryOperator::kAdd || !right.string()) apply_binary(op, first, right, budget_);  // fails
      write(right);
    }
  }

  Flow run_node(const If& statement) {
    for (const auto& [condition, body] : statement.branches) {
      if (is_true(value_of(*condition))) return run_body(body);
    }
    return run_body(statement.otherwise);
  }

  Flow run_node(const For& statement) {
    const std::shared_ptr<Loop> loop = make_loop(statement);
    const std::size_t count = loop->items->elements.size();
    scopes_.emplace_back();  // one for all turns, each of which finds it empty
    for (; loop->index < count; ++loop->index) {
      budget_.spend_steps(1);
      scopes_.back().clear();
      set("loop", loop);
      assign(statement.targets, loop->items->elements[loop->index]);
      if (run_body(statement.body) == Flow::kBreak) break;
    }
    scopes_.pop_back();
    return count == 0 ? run_body(statement.otherwise) : Flow::kNext;
  }

  // The elements that pass the loop's condition.
  std::shared_ptr<Loop> make_loop(const For& statement) {
    std::vector<Value> elements = iterate(value_of(*statement.iterable), budget_);
    if (statement.condition) {
      std::erase_if(elements, [&](const Value& element) {
        scopes_.emplace_back();
        assign(statement.targets, element);
        const bool stays = is_true(value_of(*statement.condition));
        scopes_.pop_back();
        return !stays;
      });
    }
    auto items = std::make_shared<List>();
    items->elements = std::move(elements);
    auto loop = std::make_shared<Loop>();
    loop->items = std::move(items);
    return loop;
  }

  Flow run_node(const Set& statement) {
    Value value = value_of(*statement.value);
    if (statement.attribute.empty()) {
      assign(statement.targets, std::move(value));
    } else {
      assign_attribute(statement.targets[0], statement.attribute, std::move(value));
    }
    return Flow::kNext;
  }

  Flow run_node(const SetBlock& statement) {
    set(statement.target, filtered(captured(statement.body), statement.filters));
    return Flow::kNext;
  }

  Flow run_node(const FilterBlock& statement) {
    output_.append(to_text(filtered(captured(statement.body), statement.filters)));
    budget_.check_bytes(output_.size());
    return Flow::kNext;
  }

  Flow run_node(const Break&) { return Flow::kBreak; }
  Flow run_node(const Continue&) { return Flow::kContinue; }

  Flow run_node(const std::unique_ptr<Macro>& macro) {
    set(macro->name, macro.get());
    return Flow::kNext;
  }

  // What a body writes, in a scope of its own.
  Value captured(const Body& body) {
    MarkedString outer = std::exchange(output_, MarkedString());
    scopes_.emplace_back();
    run_body(body);
    scopes_.pop_back();
    MarkedString inner = std::exchange(output_, std::move(outer));
    budget_.spend_bytes(inner.size());
    return inner;
  }

  Value filtered(Value value, const std::vector<FilterUse>& filters) {
    for (const FilterUse& use : filters) {
      value = use.filter(value, arguments_of(use.arguments), budget_);
    }
    return value;
  }

  void set(std::string_view name, Value value) {
    for (auto& [present, content] : scopes_.back()) {
      if (present == name) {
        content = std::move(value);
        return;
      }
    }
    scopes_.back().emplace_back(name, std::move(value));
  }

  void assign(const std::vector<std::string>& targets, Value value) {
    if (targets.size() == 1) return set(targets[0], std::move(value));
    const std::vector<Value> elements = iterate(value, budget_);
    if (elements.size() != targets.size()) {
      fail("expected " + std::to_string(targets.size()) + " values to unpack, got " +
           std::to_string(elements.size()));
    }
    for (std::size_t i = 0; i < targets.size(); ++i) set(targets[i], elements[i]);
  }

  void assign_attribute(const std::string& name, const std::string& attribute, Value value) {
    const Value target = look_up(name);
    const auto* object = target.get<std::shared_ptr<Namespace>>();
    if (object == nullptr) fail("cannot assign attribute on non-namespace object");
    if (value.get<std::shared_ptr<Namespace>>() || value.get<std::shared_ptr<Loop>>()) {
      fail("a namespace or loop can't be put into a namespace");
    }
    for (auto& [present, content] : (*object)->attributes) {
      if (present == attribute) {
        content = std::move(value);
        return;
      }
    }
    (*object)->attributes.emplace_back(attribute, std::move(value));
  }

  // Innermost scope first; a macro sees its own and the template's.
  Value look_up(const std::string& name) const {
    const auto found_in = [&](const Variables& scope) -> const Value* {
      for (const auto& [present, content] : scope) {
        if (present == name) return &content;
      }
      return nullptr;
    };
    for (std::size_t i = scopes_.size(); i > first_scope_; --i) {
      if (const Value* found = found_in(scopes_[i - 1])) return *found;
    }
    if (const Value* found = found_in(scopes_[0])) return *found;
    if (const auto builtin = builtin_named(name)) return *builtin;
    return Undefined{&name};
  }

  Value value_of(const Expression& expression) {
    const Level level(*this);
    return std::visit([&](const auto& node) { return value_of_node(node); }, expression.node);
  }

  Value value_of(const ExpressionPtr& expression) { return expression ? value_of(*expression) : Value(); }

  Value value_of_node(const Literal& literal) { return literal.value; }
  Value value_of_node(const Name& name) { return look_up(name.name); }

  Value value_of_node(const ListDisplay& display) {
    std::vector<Value> elements;
    for (const ExpressionPtr& element : display.elements) elements.push_back(value_of(*element));
    return Value::list(std::move(elements), display.is_tuple);
  }

  Value value_of_node(const DictDisplay& display) {
    Dict dict;
    for (const auto& [key, value] : display.entries) {
      Value name = value_of(*key);
      dict.set(std::move(name), value_of(*value));
    }
    return Value::dict(std::move(dict));
  }

  Value value_of_node(const Unary& unary) { return apply_unary(unary.op, value_of(*unary.operand)); }

  Value value_of_node(const BinaryChain& chain) { return result_of(chain, value_of(*chain.first)); }

  // result: of the first operand.
  Value result_of(const BinaryChain& chain, Value result) {
    std::optional<MarkedString> sum;  // of strings: instead of result, which would be copied for each
    for (const auto& [op, operand] : chain.rest) {
      const Value right = value_of(*operand);
      if (op == BinaryOperator::kAdd && right.string() && (sum || result.string())) {
        if (!sum) sum = *result.string();
        budget_.spend_bytes(sum->size() + right.string()->size());
        sum->append(*right.string());
        continue;
      }
      if (sum) result = *std::exchange(sum, std::nullopt);
      result = apply_binary(op, result, right, budget_);
    }
    return sum ? Value(std::move(*sum)) : result;
  }

  Value value_of_node(const LogicChain& chain) {
    Value result;
    for (const ExpressionPtr& operand : chain.operands) {
      result = value_of(*operand);
      if (is_true(result) != chain.is_and) break;
    }
    return result;
  }

  Value value_of_node(const ComparisonChain& chain) {
    Value left = value_of(*chain.first);
    for (const auto& [op, operand] : chain.rest) {
      Value right = value_of(*operand);
      if (!apply_comparison(op, left, right, budget_)) return false;
      left = std::move(right);
    }
    return true;
  }

  Value value_of_node(const Conditional& conditional) {
    return is_true(value_of(*conditional.condition)) ? value_of(*conditional.then)
                                                     : value_of(conditional.otherwise);
  }

  Value value_of_node(const Postfix& postfix) {
    Value value = value_of(*postfix.operand);
    for (std::size_t i = 0; i < postfix.suffixes.size(); ++i) {
      budget_.spend_steps(1);
      const Suffix& suffix = postfix.suffixes[i];
      const auto* attribute = std::get_if<Attribute>(&suffix);
      const bool is_called = attribute != nullptr && i + 1 < postfix.suffixes.size() &&
                             std::holds_alternative<Call>(postfix.suffixes[i + 1]);
      const bool is_method = is_called && !value.get<std::shared_ptr<Namespace>>();
      if (is_method) {
        const Call& call = std::get<Call>(postfix.suffixes[++i]);
        value = call_method(value, attribute->name, arguments_of(call.arguments), budget_);
      } else {
        value = std::visit([&](const auto& node) { return with_suffix(value, node); }, suffix);
      }
    }
    return value;
  }

  Value with_suffix(const Value& value, const Attribute& attribute) {
    return attribute_of(value, attribute.name);
  }

  Value with_suffix(const Value& value, const Item& item) {
    const Value index = value_of(*item.index);
    const bool is_named = value.get<std::shared_ptr<Namespace>>() || value.get<std::shared_ptr<Loop>>();
    if (is_named && index.string() != nullptr) return attribute_of_copy(value, *index.string());
    return item_of(value, index, budget_);
  }

  // attribute_of for a name that isn't of the program.
  Value attribute_of_copy(const Value& value, const MarkedString& name) {
    Value found = attribute_of(value, name.text());
    return found.is_undefined() ? Value() : found;
  }

  Value with_suffix(const Value& value, const Slice& slice) {
    const Value begin = value_of(slice.begin);
    const Value end = value_of(slice.end);
    return slice_of(value, begin, end, value_of(slice.step), budget_);
  }

  Value with_suffix(const Value& value, const Call& call) {
    const Arguments arguments = arguments_of(call.arguments);
    if (const auto* macro = value.get<const Macro*>()) return call_macro(**macro, arguments);
    if (const auto* builtin = value.get<Builtin>()) {
      return call_builtin(*builtin, arguments, now_, budget_);
    }
    if (value.is_undefined()) fail_undefined(value);
    fail(in_quotes(type_name(value)) + " object is not callable");
  }

  Value with_suffix(const Value& value, const FilterUse& use) {
    return use.filter(value, arguments_of(use.arguments), budget_);
  }

  Value with_suffix(const Value& value, const TestUse& use) {
    return use.test(value, arguments_of(use.arguments), budget_) != use.is_negated;
  }

  Arguments arguments_of(const CallArguments& given) {
    Arguments arguments;
    for (const ExpressionPtr& value : given.positional) {
      arguments.positional.push_back(value_of(*value));
    }
    for (const auto& [name, value] : given.named) {
      arguments.named.emplace_back(name, value_of(*value));
    }
    return arguments;
  }

  Value call_macro(const Macro& macro, const Arguments& arguments) {
    const Level level(*this);
    if (arguments.positional.size() > macro.parameters.size()) {
      fail("macro '" + macro.name + "' takes at most " + std::to_string(macro.parameters.size()) +
           " arguments");
    }
    for (const auto& [name, value] : arguments.named) {
      if (std::find(macro.parameters.begin(), macro.parameters.end(), name) == macro.parameters.end()) {
        fail("macro '" + macro.name + "' has no parameter '" + name + "'");
      }
    }
    const std::size_t outer_first_scope = std::exchange(first_scope_, scopes_.size());
    scopes_.emplace_back();
    bind_parameters(macro, arguments);
    Value result = captured(macro.body);
    scopes_.pop_back();
    first_scope_ = outer_first_scope;
    return result;
  }

  // Defaults may use the parameters before them.
  void bind_parameters(const Macro& macro, const Arguments& arguments) {
    const std::size_t num_required = macro.parameters.size() - macro.defaults.size();
    for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
      const std::string& name = macro.parameters[i];
      if (const Value* given = arguments.find(i, name)) {
        set(name, *given);
      } else if (i >= num_required) {
        set(name, value_of(*macro.defaults[i - num_required]));
      } else {
        set(name, Undefined{&name});
      }
    }
  }

  std::chrono::system_clock::time_point now_;
  Budget& budget_;
  std::vector<Variables> scopes_;  // [0] is the template's
  std::size_t first_scope_ = 0;    // the first one that the running macro sees
  MarkedString output_;
  std::size_t depth_ = 0;
};

}  // namespace

MarkedString evaluate(const TemplateProgram& program, Variables variables,
                      std::chrono::system_clock::time_point now, std::string buffer, Budget& budget) {
  return Evaluator(std::move(variables), now, budget).run(program, std::move(buffer));
}

}  // namespace troupe::jinja
