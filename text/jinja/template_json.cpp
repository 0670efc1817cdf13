// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/template_json.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "text/utf8.hpp"

namespace troupe::jinja {
namespace {

std::string unicode_escape(char32_t code_point) {
  std::array<char, 16> buffer{};
  if (code_point < 0x10000) {
    std::snprintf(buffer.data(), buffer.size(), "\\u%04x", static_cast<unsigned>(code_point));
  } else {
    const unsigned rest = static_cast<unsigned>(code_point) - 0x10000;
    std::snprintf(buffer.data(), buffer.size(), "\\u%04x\\u%04x", 0xD800 + (rest >> 10),
                  0xDC00 + (rest & 0x3FF));
  }
  return buffer.data();
}

// The escape of a character, or nothing where it stands for itself.
std::string escape_of(char32_t c, bool is_ascii) {
  switch (c) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    case '\b': return "\\b";
    case '\f': return "\\f";
    default: return c < 0x20 || (is_ascii && c > 0x7E) ? unicode_escape(c) : "";
  }
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {}

  void write(const Value& value) {
    budget_.spend_steps(1);
    if (const MarkedString* string = value.string()) return write_string(*string);
    if (const List* list = value.list(); list != nullptr && !list->is_generator) {
      return write_list(*list);
    }
    if (const Dict* dict = value.dict()) return write_dict(*dict);
    if (value.is_none()) return put("null");
    if (const auto* truth = value.get<bool>()) return put(*truth ? "true" : "false");
    if (const auto* number = value.get<double>()) return write_number(*number);
    if (value.is_integer()) return put(std::to_string(value.as_integer()));
    fail("Object of type " + type_name(value) + " is not JSON serializable");
  }

  MarkedString take() {
    budget_.spend_bytes(out_.size());
    return std::move(out_);
  }

 private:
  void put(std::string_view text) { out_.append(text, false); }

  void write_number(double value) {
    const std::string text = spelled(value);
    if (text == "nan") return put("NaN");
    if (text == "inf") return put("Infinity");
    put(text == "-inf" ? "-Infinity" : text);
  }

  void write_string(const MarkedString& string) {
    budget_.spend_bytes(out_.size() + string.size());
    put("\"");
    const std::string_view text = string.text();
    std::size_t copied = 0;
    for (std::size_t i = 0; i < text.size();) {
      const Utf8Character character = next_utf8_character(text.substr(i));
      const std::string escape = escape_of(character.code_point, style_.is_ascii);
      if (!escape.empty()) {
        out_.append(string, copied, i);
        out_.append(escape, string.is_input(i));
        copied = i + character.num_bytes;
      }
      i += character.num_bytes;
    }
    out_.append(string, copied, text.size());
    put("\"");
  }

  void new_line() {
    if (!style_.indent) return;
    put("\n");
    put(std::string(*style_.indent * depth_, ' '));
  }

  // With an indent the separator's trailing space gives way to the new line.
  void separate() {
    std::string_view separator = style_.item_separator;
    if (style_.indent && separator == ", ") separator = ",";
    put(separator);
    new_line();
  }

  void write_list(const List& list) {
    if (list.elements.empty()) return put("[]");
    put("[");
    ++depth_;
    new_line();
    for (std::size_t i = 0; i < list.elements.size(); ++i) {
      if (i > 0) separate();
      write(list.elements[i]);
    }
    --depth_;
    new_line();
    put("]");
  }

  void write_dict(const Dict& dict) {
    if (dict.entries.empty()) return put("{}");
    std::vector<const Pair*> entries;
    for (const Pair& entry : dict.entries) entries.push_back(&entry);
    if (style_.sorts_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [](const Pair* a, const Pair* b) { return compare(a->first, b->first) < 0; });
    }
    put("{");
    ++depth_;
    new_line();
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) separate();
      write_key(entries[i]->first);
      put(style_.key_separator);
      write(entries[i]->second);
    }
    --depth_;
    new_line();
    put("}");
  }

  void write_key(const Value& key) {
    if (const MarkedString* string = key.string()) return write_string(*string);
    put("\"");
    write(key);
    put("\"");
  }

  const JsonStyle& style_;
  Budget& budget_;
  MarkedString out_;
  std::size_t depth_ = 0;
};

Value from_parsed(const nlohmann::ordered_json& json, bool is_input, Budget& budget, std::size_t depth) {
  budget.spend_steps(1);
  if (depth > 64) fail("from_json: nested too deeply");
  if (json.is_null()) return nullptr;
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return MarkedString(json.get<std::string>(), is_input);
  if (json.is_array()) {
    std::vector<Value> elements;
    for (const auto& element : json) {
      elements.push_back(from_parsed(element, is_input, budget, depth + 1));
    }
    return Value::list(std::move(elements));
  }
  Dict dict;
  for (const auto& [name, element] : json.items()) {
    dict.entries.emplace_back(MarkedString(name, is_input),
                              from_parsed(element, is_input, budget, depth + 1));
  }
  return Value::dict(std::move(dict));
}

}  // namespace

MarkedString to_json(const Value& value, const JsonStyle& style, Budget& budget) {
  JsonWriter writer(style, budget);
  writer.write(value);
  return writer.take();
}

Value from_json(const MarkedString& text, Budget& budget) {
  budget.spend_bytes(text.size());
  // The parser's objects look for equal names one by one, hence the limit.
  budget.spend_steps(text.size() / 16);
  const auto json = nlohmann::ordered_json::parse(text.text(), nullptr, false);
  if (json.is_discarded()) fail("from_json: not JSON");
  return from_parsed(json, text.has_input(), budget, 0);
}

}  // namespace troupe::jinja
