// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/template_runtime.hpp"

#include <algorithm>
#include <utility>

#include "text/utf8.hpp"

namespace troupe::jinja {
namespace {

constexpr std::size_t kMaxValueDepth = 64;
constexpr std::size_t kMaxValueWeight = 4'000'000;
// How often every byte of the largest string may be copied on average.
constexpr std::size_t kMaxCopies = 64;
// A template's step takes about as long as looking at so many bytes.
constexpr std::size_t kBytesAStep = 16;

// Depth and weight of a list or dict, from what is put into it. Without these
// limits `[x, x]` in a loop is an exponential amount of output.
struct Extent {
  std::size_t depth = 1;
  std::size_t weight = 1;

  void add(const Value& value) {
    if (value.get<std::shared_ptr<Loop>>()) fail("a loop can't be put into a list or dict");
    const List* list = value.list();
    const Dict* dict = value.dict();
    if (list != nullptr) depth = std::max(depth, list->depth + 1);
    if (dict != nullptr) depth = std::max(depth, dict->depth + 1);
    weight += list != nullptr ? list->weight : (dict != nullptr ? dict->weight : 1);
    if (depth > kMaxValueDepth || weight > kMaxValueWeight) {
      fail("lists or dicts are nested too deeply or too large");
    }
  }
};

std::shared_ptr<List> make_list(std::vector<Value> elements) {
  auto list = std::make_shared<List>();
  Extent extent;
  for (const Value& element : elements) extent.add(element);
  list->elements = std::move(elements);
  list->depth = extent.depth;
  list->weight = extent.weight;
  return list;
}

// The names of members: those of one message are the next one's, too.
class MemberNames {
 public:
  Value value_of(std::string name) {
    for (const Value& known : known_)
      if (known.string()->text() == name) return known;
    Value value = MarkedString(std::move(name), true);
    if (known_.size() < kMaxKnown) known_.push_back(value);
    return value;
  }

 private:
  static constexpr std::size_t kMaxKnown = 16;

  std::vector<Value> known_;
};

Value from_input(TemplateValue value, MemberNames& names, std::size_t depth) {
  if (depth > kMaxValueDepth) fail_limit("the input is nested too deeply");
  struct Visitor {
    MemberNames& names;
    std::size_t depth;
    Value operator()(std::monostate) const { return nullptr; }
    Value operator()(bool v) const { return v; }
    Value operator()(std::int64_t v) const { return v; }
    Value operator()(double v) const { return v; }
    Value operator()(TemplateValue::String v) const { return MarkedString(std::move(v.text), v.from_input); }
    Value operator()(MarkedString v) const { return Value(std::move(v)); }
    Value operator()(TemplateValue::Array v) const {
      std::vector<Value> elements;
      elements.reserve(v.size());
      for (TemplateValue& element : v) elements.push_back(from_input(std::move(element), names, depth + 1));
      return Value::list(std::move(elements));
    }
    Value operator()(TemplateValue::Object v) const {
      Dict dict;
      dict.entries.reserve(v.size());
      for (auto& [name, element] : v) {
        dict.set(names.value_of(std::move(name)), from_input(std::move(element), names, depth + 1));
      }
      return Value::dict(std::move(dict));
    }
  };
  return std::visit(Visitor{names, depth}, std::move(value).take());
}

}  // namespace

Budget::Budget(std::size_t max_steps, std::size_t max_string_bytes, EncodingBudget& encoding)
    : max_steps_(max_steps), max_string_bytes_(max_string_bytes), encoding_(encoding) {}

void Budget::spend_steps(std::size_t steps) {
  num_steps_ += steps;
  if (num_steps_ > max_steps_) {
    fail_limit("the template takes more than " + std::to_string(max_steps_) + " steps");
  }
  encoding_.spend(kBytesAStep * steps);
}

void Budget::spend_bytes(std::size_t bytes) {
  check_bytes(bytes);
  num_bytes_ += bytes;
  if (num_bytes_ / kMaxCopies > max_string_bytes_) fail_limit("the template copies too much text");
  encoding_.spend(bytes);
}

void Budget::check_bytes(std::size_t bytes) const {
  if (bytes > max_string_bytes_) {
    fail_limit("the template makes more than " + std::to_string(max_string_bytes_) + " bytes of text");
  }
}

const Value* Dict::find(std::string_view key) const {
  for (const Pair& entry : entries) {
    const MarkedString* name = entry.first.string();
    if (name != nullptr && name->text() == key) return &entry.second;
  }
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (const MarkedString* text = key.string()) return find(text->text());
  for (const Pair& entry : entries) {
    if (are_equal(entry.first, key)) return &entry.second;
  }
  return nullptr;
}

void Dict::set(Value key, Value value) {
  if (const Value* present = find(key)) {
    const_cast<Value&>(*present) = std::move(value);
  } else {
    entries.emplace_back(std::move(key), std::move(value));
  }
}

Value Value::list(std::vector<Value> elements, bool is_tuple) {
  std::shared_ptr<List> list = make_list(std::move(elements));
  list->is_tuple = is_tuple;
  Value value;
  value.variant_ = std::shared_ptr<const List>(std::move(list));
  return value;
}

Value Value::generator(std::vector<Value> elements) {
  std::shared_ptr<List> list = make_list(std::move(elements));
  list->is_generator = true;
  Value value;
  value.variant_ = std::shared_ptr<const List>(std::move(list));
  return value;
}

Value Value::dict(Dict dict) {
  Extent extent;
  for (const Pair& entry : dict.entries) {
    if (entry.first.list() || entry.first.dict()) fail("a list or dict can't be a key");
    extent.add(entry.first);
    extent.add(entry.second);
  }
  dict.depth = extent.depth;
  dict.weight = extent.weight;
  Value value;
  value.variant_ = std::make_shared<const Dict>(std::move(dict));
  return value;
}

Value Value::from(TemplateValue value) {
  MemberNames names;
  return from_input(std::move(value), names, 0);
}

const MarkedString* Value::string() const {
  const auto* string = get<String>();
  return string != nullptr ? string->get() : nullptr;
}

const List* Value::list() const {
  const auto* list = get<std::shared_ptr<const List>>();
  return list != nullptr ? list->get() : nullptr;
}

const Dict* Value::dict() const {
  const auto* dict = get<std::shared_ptr<const Dict>>();
  return dict != nullptr ? dict->get() : nullptr;
}

bool Value::is_integer() const { return get<std::int64_t>() != nullptr || get<bool>() != nullptr; }

std::int64_t Value::as_integer() const {
  if (const auto* integer = get<std::int64_t>()) return *integer;
  if (const auto* truth = get<bool>()) return *truth ? 1 : 0;
  fail("expected an integer, got " + type_name(*this));
}

bool Value::is_number() const { return is_integer() || get<double>() != nullptr; }

double Value::as_double() const {
  if (const auto* number = get<double>()) return *number;
  return static_cast<double>(as_integer());
}

std::size_t weight(const Value& value) {
  constexpr std::size_t kBytesLookedAt = 1024;
  if (const MarkedString* string = value.string()) return 1 + string->size() / kBytesLookedAt;
  if (const List* list = value.list()) return list->weight;
  if (const Dict* dict = value.dict()) return dict->weight;
  return 1;
}

bool is_true(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_number()) return value.as_double() != 0;
  if (const MarkedString* string = value.string()) return !string->empty();
  if (const List* list = value.list()) return list->is_generator || !list->elements.empty();
  if (const Dict* dict = value.dict()) return !dict->entries.empty();
  return true;
}

bool are_equal(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) return a.as_integer() == b.as_integer();
  if (a.is_number() && b.is_number()) return a.as_double() == b.as_double();
  if (a.variant().index() != b.variant().index()) return false;
  if (a.is_undefined() || a.is_none()) return true;
  if (const MarkedString* string = a.string()) return string->text() == b.string()->text();
  if (const List* list = a.list()) {
    const List* other = b.list();
    return list->is_tuple == other->is_tuple &&
           std::equal(list->elements.begin(), list->elements.end(), other->elements.begin(),
                      other->elements.end(), are_equal);
  }
  if (const Dict* dict = a.dict()) {
    const Dict* other = b.dict();
    return dict->entries.size() == other->entries.size() &&
           std::all_of(dict->entries.begin(), dict->entries.end(), [&](const Pair& entry) {
             const Value* found = other->find(entry.first);
             return found != nullptr && are_equal(entry.second, *found);
           });
  }
  if (const auto* pointer = a.get<std::shared_ptr<Namespace>>()) {
    return *pointer == *b.get<std::shared_ptr<Namespace>>();
  }
  if (const auto* pointer = a.get<std::shared_ptr<Loop>>()) {
    return *pointer == *b.get<std::shared_ptr<Loop>>();
  }
  if (const auto* macro = a.get<const Macro*>()) return *macro == *b.get<const Macro*>();
  if (const auto* pointer = a.get<std::shared_ptr<const Caller>>()) {
    return *pointer == *b.get<std::shared_ptr<const Caller>>();
  }
  return *a.get<Builtin>() == *b.get<Builtin>();
}

int compare(const Value& a, const Value& b) {
  const auto order = [](const auto& x, const auto& y) { return x < y ? -1 : (y < x ? 1 : 0); };
  if (a.is_integer() && b.is_integer()) return order(a.as_integer(), b.as_integer());
  if (a.is_number() && b.is_number()) return order(a.as_double(), b.as_double());
  // UTF-8 orders like the code points it encodes.
  if (a.string() && b.string()) return order(a.string()->text(), b.string()->text());
  if (a.list() && b.list()) {
    const auto& x = a.list()->elements;
    const auto& y = b.list()->elements;
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!are_equal(x[i], y[i])) return compare(x[i], y[i]);
    }
    return order(x.size(), y.size());
  }
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  fail(in_quotes(type_name(a)) + " and " + in_quotes(type_name(b)) + " can't be ordered");
}

bool contains(const Value& container, const Value& element) {
  if (const MarkedString* string = container.string()) {
    const MarkedString* part = element.string();
    if (part == nullptr) fail("'in <string>' requires a string, not " + type_name(element));
    return string->text().find(part->text()) != std::string::npos;
  }
  if (const List* list = container.list()) {
    return std::any_of(list->elements.begin(), list->elements.end(),
                       [&](const Value& candidate) { return are_equal(candidate, element); });
  }
  if (const Dict* dict = container.dict()) return dict->find(element) != nullptr;
  if (container.is_undefined()) return false;
  fail("argument of type '" + type_name(container) + "' is not iterable");
}

std::vector<Value> iterate(const Value& value, Budget& budget) {
  if (const List* list = value.list()) {
    budget.spend_steps(list->elements.size());
    return list->elements;
  }
  std::vector<Value> elements;
  if (const Dict* dict = value.dict()) {
    budget.spend_steps(dict->entries.size());
    for (const Pair& entry : dict->entries) elements.push_back(entry.first);
  } else if (const MarkedString* string = value.string()) {
    budget.spend_steps(string->size());
    for (std::size_t i = 0; i < string->size();) {
      const std::size_t size = next_utf8_character(std::string_view(string->text()).substr(i)).num_bytes;
      elements.push_back(string->substring(i, i + size));
      i += size;
    }
  } else if (!value.is_undefined()) {
    fail(in_quotes(type_name(value)) + " object is not iterable");
  }
  return elements;
}

void fail(const std::string& message) { throw EvaluationError(message); }

void fail_limit(const std::string& message) { throw EvaluationError(message, TemplateError::Kind::kLimit); }

void fail_undefined(const Value& value) {
  const auto* undefined = value.get<Undefined>();
  if (undefined == nullptr || undefined->name == nullptr) fail("a value is undefined");
  fail(in_quotes(*undefined->name) + " is undefined");
}

}  // namespace troupe::jinja
