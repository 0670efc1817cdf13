// SPDX-License-Identifier: Apache-2.0
// How values are printed: Python's str() and repr().
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

#include "text/jinja/template_runtime.hpp"

namespace troupe::jinja {

std::string type_name(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "NoneType";
  if (value.get<bool>()) return "bool";
  if (value.get<std::int64_t>()) return "int";
  if (value.get<double>()) return "float";
  if (value.string()) return "str";
  if (const List* list = value.list()) {
    return list->is_generator ? "generator" : (list->is_tuple ? "tuple" : "list");
  }
  if (value.dict()) return "dict";
  if (value.get<std::shared_ptr<Namespace>>()) return "Namespace";
  if (value.get<std::shared_ptr<Loop>>()) return "LoopContext";
  return value.get<Builtin>() ? "function" : "Macro";
}

std::string in_quotes(std::string_view text) {
  std::string result("'");
  result += text;
  result += "'";
  return result;
}

MarkedString to_text(const Value& value) {
  if (value.is_undefined()) return MarkedString();
  if (const MarkedString* string = value.string()) return *string;
  return repr(value);
}

namespace {

MarkedString quoted(const MarkedString& string) {
  const std::string& text = string.text();
  const bool has_single = text.find('\'') != std::string::npos;
  const char quote = has_single && text.find('"') == std::string::npos ? '"' : '\'';
  MarkedString result(std::string(1, quote));
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool is_input = string.is_input(i);
    if (c == quote || c == '\\') {
      result.append(std::string{'\\', c}, is_input);
    } else if (c == '\n') {
      result.append("\\n", is_input);
    } else if (c == '\r') {
      result.append("\\r", is_input);
    } else if (c == '\t') {
      result.append("\\t", is_input);
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      result.append(std::string{'\\', 'x', kDigits[c >> 4], kDigits[c & 15]}, is_input);
    } else {
      result.append(std::string_view(&c, 1), is_input);
    }
  }
  result.append(std::string_view(&quote, 1), false);
  return result;
}

MarkedString listed(const List& list) {
  if (list.is_generator) return MarkedString("<generator object>");
  MarkedString result(list.is_tuple ? "(" : "[");
  for (std::size_t i = 0; i < list.elements.size(); ++i) {
    if (i > 0) result.append(", ", false);
    result.append(repr(list.elements[i]));
  }
  if (list.is_tuple && list.elements.size() == 1) result.append(",", false);
  result.append(list.is_tuple ? ")" : "]", false);
  return result;
}

}  // namespace

MarkedString repr(const Value& value) {
  if (value.is_none()) return MarkedString("None");
  if (const auto* truth = value.get<bool>()) return MarkedString(*truth ? "True" : "False");
  if (const auto* integer = value.get<std::int64_t>()) return MarkedString(std::to_string(*integer));
  if (const auto* number = value.get<double>()) return MarkedString(spelled(*number));
  if (const MarkedString* string = value.string()) return quoted(*string);
  if (const List* list = value.list()) return listed(*list);
  if (const Dict* dict = value.dict()) {
    MarkedString result("{");
    for (std::size_t i = 0; i < dict->entries.size(); ++i) {
      if (i > 0) result.append(", ", false);
      result.append(repr(dict->entries[i].first));
      result.append(": ", false);
      result.append(repr(dict->entries[i].second));
    }
    result.append("}", false);
    return result;
  }
  MarkedString result("<");
  result.append(type_name(value) + ">", false);
  return result;
}

// As Python: the fewest digits that give the same number, exponents only below
// 1e-4 and from 1e16 on.
std::string spelled(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer{};
  const double size = std::fabs(value);
  const bool is_plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto format = is_plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format).ptr;
  std::string text(buffer.data(), end);
  if (is_plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

}  // namespace troupe::jinja
