// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/template_evaluator.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/macro_arguments.hpp"
#include "text/jinja/template_arithmetic.hpp"
#include "text/jinja/template_builtins.hpp"

namespace troupe::jinja {
namespace {

// Of calls in C++, about half a kilobyte each.
constexpr std::size_t kMaxDepth = 500;

enum class Flow { kNext, kBreak, kContinue };

}  // namespace

// The body of a call block that runs.
struct Caller {
  const Macro* body = nullptr;
  Scopes::Place place;        // of the block
  std::size_t num_outer = 0;  // call blocks that ran there
};

namespace {

class Evaluator {
 public:
  Evaluator(Variables variables, std::chrono::system_clock::time_point now, Budget& budget)
      : now_(now), budget_(budget), scopes_(std::move(variables)) {}
  // All live while they are emptied, so that no chain of them is taken apart by recursion.
  ~Evaluator() {
    for (const auto& object : namespaces_) object->attributes.clear();
  }
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

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
    scopes_.enter();  // one for all turns, each of which finds it empty
    for (; loop->index < count; ++loop->index) {
      budget_.spend_steps(1);
      scopes_.clear_innermost();
      scopes_.set("loop", loop);
      assign(statement.targets, loop->items->elements[loop->index]);
      if (run_body(statement.body) == Flow::kBreak) break;
    }
    scopes_.leave();
    return count == 0 ? run_body(statement.otherwise) : Flow::kNext;
  }

  // The elements that pass the loop's condition.
  std::shared_ptr<Loop> make_loop(const For& statement) {
    std::vector<Value> elements = iterate(value_of(*statement.iterable), budget_);
    if (statement.condition) {
      std::erase_if(elements, [&](const Value& element) {
        scopes_.enter();
        assign(statement.targets, element);
        const bool stays = is_true(value_of(*statement.condition));
        scopes_.leave();
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
    scopes_.set(statement.target, filtered(captured(statement.body), statement.filters));
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
    scopes_.set(macro->name, macro.get());
    return Flow::kNext;
  }

  Flow run_node(const std::unique_ptr<CallBlock>& block) {
    const auto caller = std::make_shared<const Caller>(
        Caller{.body = &block->caller, .place = scopes_.here(), .num_outer = callers_.size()});
    callers_.push_back(caller);
    const Level level(*this);
    write(value_of_postfix(std::get<Postfix>(block->call->node), caller));
    callers_.pop_back();
    return Flow::kNext;
  }

  // What a body writes, in a scope of its own.
  Value captured(const Body& body) {
    MarkedString outer = std::exchange(output_, MarkedString());
    scopes_.enter();
    run_body(body);
    scopes_.leave();
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

  void assign(const std::vector<std::string>& targets, Value value) {
    if (targets.size() == 1) return scopes_.set(targets[0], std::move(value));
    const std::vector<Value> elements = iterate(value, budget_);
    if (elements.size() != targets.size()) {
      fail("expected " + std::to_string(targets.size()) + " values to unpack, got " +
           std::to_string(elements.size()));
    }
    for (std::size_t i = 0; i < targets.size(); ++i) scopes_.set(targets[i], elements[i]);
  }

  void assign_attribute(const std::string& name, const std::string& attribute, Value value) {
    const Value target = look_up(name);
    const auto* object = target.get<std::shared_ptr<Namespace>>();
    if (object == nullptr) fail("cannot assign attribute on non-namespace object");
    if (value.get<std::shared_ptr<Loop>>()) fail("a loop can't be put into a namespace");
    for (auto& [present, content] : (*object)->attributes) {
      if (present == attribute) {
        content = std::move(value);
        return;
      }
    }
    (*object)->attributes.emplace_back(attribute, std::move(value));
  }

  Value look_up(const std::string& name) const {
    if (const Value* found = scopes_.find(name)) return *found;
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

  Value value_of_node(const Postfix& postfix) { return value_of_postfix(postfix, nullptr); }

  // caller: of a call block, an argument of the last call; or null.
  Value value_of_postfix(const Postfix& postfix, const std::shared_ptr<const Caller>& caller) {
    Value value = value_of(*postfix.operand);
    for (std::size_t i = 0; i < postfix.suffixes.size(); ++i) {
      budget_.spend_steps(1);
      const Suffix& suffix = postfix.suffixes[i];
      const auto* attribute = std::get_if<Attribute>(&suffix);
      const bool is_called = attribute != nullptr && i + 1 < postfix.suffixes.size() &&
                             std::holds_alternative<Call>(postfix.suffixes[i + 1]);
      const bool is_method = is_called && !value.get<std::shared_ptr<Namespace>>();
      const bool is_last = i + 1 == postfix.suffixes.size();
      if (is_method) {
        const Call& call = std::get<Call>(postfix.suffixes[++i]);
        if (caller && i + 1 == postfix.suffixes.size()) fail("a method takes no call block");
        value = call_method(value, attribute->name, arguments_of(call.arguments), budget_);
      } else if (caller && is_last) {
        value = call_with_block(value, std::get<Call>(suffix), caller);
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
    return item_of(value, value_of(*item.index), budget_);
  }

  Value with_suffix(const Value& value, const Slice& slice) {
    const Value begin = value_of(slice.begin);
    const Value end = value_of(slice.end);
    return slice_of(value, begin, end, value_of(slice.step), budget_);
  }

  Value call_with_block(const Value& value, const Call& call, const std::shared_ptr<const Caller>& caller) {
    if (value.get<Builtin>()) fail("a function takes no call block");
    Arguments arguments = arguments_of(call.arguments);
    arguments.add(MarkedString("caller"), caller, budget_);
    return called(value, std::move(arguments));
  }

  Value with_suffix(const Value& value, const Call& call) {
    return called(value, arguments_of(call.arguments));
  }

  Value called(const Value& value, Arguments arguments) {
    if (const auto* macro = value.get<const Macro*>()) return call_macro(**macro, std::move(arguments));
    if (const auto* caller = value.get<std::shared_ptr<const Caller>>()) {
      return call_caller(*caller, std::move(arguments));
    }
    if (const auto* builtin = value.get<Builtin>()) {
      Value result = call_builtin(*builtin, arguments, now_, budget_);
      if (const auto* object = result.get<std::shared_ptr<Namespace>>()) namespaces_.push_back(*object);
      return result;
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
    if (given.more_positional) {
      for (Value& value : iterate(value_of(*given.more_positional), budget_)) {
        arguments.positional.push_back(std::move(value));
      }
    }
    for (const auto& [name, value] : given.named) {
      arguments.add(MarkedString(name), value_of(*value), budget_);
    }
    if (given.more_named) arguments.add_all(value_of(*given.more_named), budget_);
    return arguments;
  }

  // A macro sees its own variables and the template's.
  Value call_macro(const Macro& macro, Arguments arguments) {
    const Level level(*this);
    Scopes::Hidden hidden = scopes_.hide();
    Value result = run_macro(macro, std::move(arguments));
    scopes_.come_back(std::move(hidden));
    return result;
  }

  // The body of a call block sees the variables of the block's place, and no call block within it.
  Value call_caller(const std::shared_ptr<const Caller>& caller, Arguments arguments) {
    const Level level(*this);
    const std::size_t index = caller->num_outer;
    if (index >= callers_.size() || callers_[index] != caller) fail("a caller() outside its call block");
    budget_.spend_steps(scopes_.size() + callers_.size() - index);
    const std::vector<std::shared_ptr<const Caller>> inner(
        callers_.begin() + static_cast<std::ptrdiff_t>(index) + 1, callers_.end());
    callers_.resize(index + 1);
    Scopes::Hidden hidden = scopes_.go_to(caller->place);
    Value result = run_macro(*caller->body, std::move(arguments));
    scopes_.come_back(std::move(hidden));
    callers_.insert(callers_.end(), inner.begin(), inner.end());
    return result;
  }

  Value run_macro(const Macro& macro, Arguments given) {
    scopes_.enter();
    set_arguments(macro, arguments_by_name(macro, std::move(given)));
    Value result = captured(macro.body);
    scopes_.leave();
    return result;
  }

  // Defaults may use the parameters before them.
  void set_arguments(const Macro& macro, MacroArguments arguments) {
    const std::size_t num_required = macro.parameters.size() - macro.defaults.size();
    for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
      const std::string& name = macro.parameters[i];
      if (arguments.parameters[i]) {
        scopes_.set(name, std::move(*arguments.parameters[i]));
      } else if (i >= num_required) {
        scopes_.set(name, value_of(*macro.defaults[i - num_required]));
      } else {
        scopes_.set(name, Undefined{&name});
      }
    }
    for (auto& [name, value] : arguments.others) scopes_.set(name, std::move(value));
  }

  std::chrono::system_clock::time_point now_;
  Budget& budget_;
  Scopes scopes_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;  // all that there are
  std::vector<std::shared_ptr<const Caller>> callers_;  // of call blocks that run, the innermost last
  MarkedString output_;
  std::size_t depth_ = 0;
};

}  // namespace

MarkedString evaluate(const TemplateProgram& program, Variables variables,
                      std::chrono::system_clock::time_point now, std::string buffer, Budget& budget) {
  return Evaluator(std::move(variables), now, budget).run(program, std::move(buffer));
}

}  // namespace troupe::jinja
