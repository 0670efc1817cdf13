// SPDX-License-Identifier: Apache-2.0
// Values while a chat template is evaluated, with Python's ideas of truth,
// equality, order and spelling, and the budget that bounds an evaluation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/encoding_budget.hpp"
#include "text/jinja/marked_string.hpp"
#include "text/jinja/template_error.hpp"
#include "text/jinja/template_value.hpp"

namespace troupe::jinja {

// An error in a template. Caught in ChatTemplate::render.
class EvaluationError : public std::runtime_error {
 public:
  explicit EvaluationError(const std::string& message, TemplateError::Kind kind = TemplateError::Kind::kFault)
      : std::runtime_error(message), kind_(kind) {}

  TemplateError::Kind kind() const { return kind_; }

 private:
  TemplateError::Kind kind_;
};

// Bounds the work of one rendering: steps, bytes written, size of one string. It
// is part of the encoding of a prompt, which may be interrupted.
class Budget {
 public:
  Budget(std::size_t max_steps, std::size_t max_string_bytes, EncodingBudget& encoding);

  void spend_steps(std::size_t steps);
  // A string of this size is about to be made.
  void spend_bytes(std::size_t bytes);
  // A string has grown to this size.
  void check_bytes(std::size_t bytes) const;

 private:
  std::size_t max_steps_;
  std::size_t max_string_bytes_;
  EncodingBudget& encoding_;
  std::size_t num_steps_ = 0;
  std::size_t num_bytes_ = 0;
};

class Value;
struct Macro;
struct Caller;
struct Loop;
using Pair = std::pair<Value, Value>;

struct Undefined {
  const std::string* name = nullptr;  // of the program, for the complaint
};

enum class Builtin { kRange, kNamespace, kDict, kRaiseException, kStrftimeNow };

struct List {
  std::vector<Value> elements;
  std::size_t depth = 1;   // of nesting
  std::size_t weight = 1;  // values inside, counted wherever they occur
  bool is_tuple = false;
  bool is_generator = false;  // of map, select, …: always true, has no length
};

struct Dict {
  std::vector<Pair> entries;
  std::size_t depth = 1;
  std::size_t weight = 1;

  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;
  void set(Value key, Value value);
};

// The one thing a template can change. One may hold others and itself, so the evaluator owns all of
// them and empties them in the end. Nothing that walks through a value looks into one.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
};

class Value {
 public:
  using String = std::shared_ptr<const MarkedString>;
  using Variant =
      std::variant<Undefined, std::nullptr_t, bool, std::int64_t, double, String, std::shared_ptr<const List>,
                   std::shared_ptr<const Dict>, std::shared_ptr<Namespace>, std::shared_ptr<Loop>,
                   const Macro*, std::shared_ptr<const Caller>, Builtin>;

  Value() = default;  // undefined
  Value(Undefined undefined) : variant_(undefined) {}
  Value(std::nullptr_t) : variant_(nullptr) {}
  Value(bool value) : variant_(value) {}
  Value(std::int64_t value) : variant_(value) {}
  Value(double value) : variant_(value) {}
  Value(MarkedString text) : variant_(std::make_shared<const MarkedString>(std::move(text))) {}
  Value(std::shared_ptr<Namespace> value) : variant_(std::move(value)) {}
  Value(std::shared_ptr<Loop> value) : variant_(std::move(value)) {}
  Value(const Macro* value) : variant_(value) {}
  Value(std::shared_ptr<const Caller> value) : variant_(std::move(value)) {}
  Value(Builtin value) : variant_(value) {}
  // Text of the template.
  static Value text(std::string text) { return Value(MarkedString(std::move(text))); }
  // Throw EvaluationError where they would nest too deeply or hold what they
  // may not.
  static Value list(std::vector<Value> elements, bool is_tuple = false);
  static Value generator(std::vector<Value> elements);
  static Value dict(Dict dict);
  static Value from(TemplateValue value);

  template <class T>
  const T* get() const {
    return std::get_if<T>(&variant_);
  }
  const Variant& variant() const { return variant_; }

  bool is_undefined() const { return get<Undefined>() != nullptr; }
  bool is_none() const { return get<std::nullptr_t>() != nullptr; }
  // nullptr where it is something else.
  const MarkedString* string() const;
  const List* list() const;
  const Dict* dict() const;
  // Bools count as 0 and 1.
  bool is_number() const;
  double as_double() const;
  bool is_integer() const;
  std::int64_t as_integer() const;

 private:
  Variant variant_;
};

struct Loop {
  std::shared_ptr<const List> items;
  std::size_t index = 0;
  std::vector<Value> last_changed;  // arguments of the last loop.changed()
  bool has_changed = false;
};

// How much there is to look at: what comparing or printing costs, in steps.
std::size_t weight(const Value& value);
bool is_true(const Value& value);
bool are_equal(const Value& a, const Value& b);
// Negative, zero, positive; throws where Python knows no order.
int compare(const Value& a, const Value& b);
bool contains(const Value& container, const Value& element);
// As Python calls the type: "str", "dict", …
std::string type_name(const Value& value);
std::string in_quotes(std::string_view text);
// The text that printing shows; repr() is what lists show of their elements.
MarkedString to_text(const Value& value);
MarkedString repr(const Value& value);
std::string spelled(double value);
// Values that a for loop runs over: elements, keys, characters.
std::vector<Value> iterate(const Value& value, Budget& budget);
[[noreturn]] void fail(const std::string& message);
// A limit is reached that depends on the messages.
[[noreturn]] void fail_limit(const std::string& message);
// Complains about the use of something undefined.
[[noreturn]] void fail_undefined(const Value& value);

}  // namespace troupe::jinja
