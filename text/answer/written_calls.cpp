// SPDX-License-Identifier: Apache-2.0
#include "text/answer/written_calls.hpp"

#include <nlohmann/json.hpp>
#include <optional>

#include "text/client_json.hpp"

namespace troupe {
namespace {

using Json = nlohmann::ordered_json;

// Nested no deeper than a client's JSON may be.
std::optional<Json> object_of(const std::string& arguments) {
  const std::string text = arguments.empty() ? "{}" : arguments;
  if (!parse_client_json(text)) return std::nullopt;
  Json value = Json::parse(text, nullptr, false);
  if (!value.is_object()) return std::nullopt;
  return value;
}

std::string python_literal(const Json& value);

template <class Items, class Write>
std::string joined(const Items& items, const Write& write) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ", ") + write(item);
  return text;
}

// A text of JSON is one of Python, too.
std::string python_literal(const Json& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_array()) return "[" + joined(value, python_literal) + "]";
  if (!value.is_object()) return value.dump();
  return "{" +
         joined(
             value.items(),
             [](const auto& item) { return Json(item.key()).dump() + ": " + python_literal(item.value()); }) +
         "}";
}

std::string python_call(const ToolCall& call) {
  const auto arguments = object_of(call.arguments);
  if (!arguments) return call.name + "(" + call.arguments + ")";
  return call.name + "(" +
         joined(arguments->items(),
                [](const auto& item) { return item.key() + "=" + python_literal(item.value()); }) +
         ")";
}

// "f:0": the first name and the number are the model's id of the call.
void append_named(MarkedString& out, const ToolCall& call, const CallFormat& format, std::uint32_t number) {
  out.append(format.call_begin, false);
  out.append(call.name, true);
  if (format.has_numbered_ids) out.append(format.id_begin + std::to_string(number), false);
  out.append(format.name_end, false);
  out.append(call.arguments.empty() ? "{}" : call.arguments, true);
  out.append(format.call_end, false);
}

}  // namespace

bool can_be_written(const CallFormat& format) {
  return format.style == CallStyle::kNamedJson || format.style == CallStyle::kPython;
}

MarkedString written_calls(const std::vector<ToolCall>& calls, const CallFormat& format,
                           std::uint32_t number) {
  MarkedString out;
  out.append(format.section_begin, false);
  if (format.style == CallStyle::kPython) {
    out.append(format.call_begin + "[", false);
    out.append(joined(calls, python_call), true);
    out.append("]" + format.call_end, false);
  } else {
    for (const ToolCall& call : calls) append_named(out, call, format, number++);
  }
  out.append(format.section_end, false);
  return out;
}

std::string written_call_id(const ToolCall& call, const CallFormat& format, std::uint32_t number) {
  if (!format.has_numbered_ids) return {};
  // Behind the marker, which ends with what is in front of each name: "functions."
  const auto marker = format.call_begin.rfind('>');
  const std::string in_front = marker == std::string::npos ? "" : format.call_begin.substr(marker + 1);
  return in_front + call.name + format.id_begin + std::to_string(number);
}

}  // namespace troupe
