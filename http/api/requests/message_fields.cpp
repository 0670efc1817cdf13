// SPDX-License-Identifier: Apache-2.0
#include "http/api/requests/message_fields.hpp"

#include <algorithm>

#include <boost/json/value.hpp>

#include "http/json/json_text.hpp"

namespace troupe {
namespace {

namespace json = boost::json;

std::string element(std::string_view name, std::size_t index) {
  return std::string(name) + "[" + std::to_string(index) + "]";
}

// "\"input_text\" or \"output_text\""
std::string quoted(std::span<const std::string_view> names) {
  std::string text;
  for (const auto name : names) text += (text.empty() ? "\"" : " or \"") + std::string(name) + "\"";
  return text;
}

std::string read_part(FieldReader& part, std::span<const std::string_view> types) {
  const auto type = part.string("type");
  if (!type) {
    part.fail("type", " is required");
  } else if (std::find(types.begin(), types.end(), *type) == types.end()) {
    part.fail("type", " must be " + quoted(types) + ": other content (\"" + std::string(shorten(*type, 32)) +
                          "\") is not supported");
  }
  const auto text = part.string("text");
  if (!text) part.fail("text", " is required");
  return text.value_or("");
}

void read_parts(FieldReader& message, std::string_view field, const json::array& parts,
                std::span<const std::string_view> types, const Limits& limits, std::string& content) {
  if (parts.size() > limits.max_content_parts) {
    return message.fail(field, " must have at most " + std::to_string(limits.max_content_parts) +
                                   " parts, got " + std::to_string(parts.size()));
  }
  for (std::size_t i = 0; i < parts.size() && !message.error(); ++i) {
    const std::string name = element(field, i);
    if (!parts[i].is_object()) return message.fail(name, "an object", parts[i]);
    FieldReader part(parts[i].get_object(), message.full_name(name) + ".");
    if (i > 0) content += '\n';
    content += read_part(part, types);
    message.adopt(part);
  }
}

}  // namespace

void read_content(FieldReader& message, std::string_view name, std::span<const std::string_view> part_types,
                  const Limits& limits, std::string& content) {
  const auto* value = message.find(name);
  if (value == nullptr) {
    message.fail(name, " is required");
  } else if (value->is_string()) {
    content.assign(value->get_string().c_str(), value->get_string().size());
  } else if (value->is_array()) {
    read_parts(message, name, value->get_array(), part_types, limits, content);
  } else {
    message.fail(name, "a string or a list of text parts", *value);
  }
}

void read_message_list(FieldReader& fields, std::string_view name, std::string_view what,
                       const Limits& limits, const MessageListReader& reader) {
  const auto* value = fields.find(name);
  if (value == nullptr) return fields.fail(name, " is required");
  const bool is_list =
      value->is_array() && !value->get_array().empty() && value->get_array().size() <= limits.max_messages;
  if (!is_list) {
    return fields.fail(
        name, "a list of 1 to " + std::to_string(limits.max_messages) + " " + std::string(what), *value);
  }
  const auto& list = value->get_array();
  reader.begin(list.size());
  for (std::size_t i = 0; i < list.size() && !fields.error(); ++i) {
    const std::string entry_name = element(name, i);
    if (!list[i].is_object()) return fields.fail(entry_name, "an object", list[i]);
    FieldReader entry(list[i].get_object(), entry_name + ".");
    reader.read(entry, i);
    fields.adopt(entry);
  }
}

}  // namespace troupe
