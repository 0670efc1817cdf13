// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/input_items.hpp"

#include <algorithm>
#include <charconv>
#include <vector>

#include "actors/request/answer/stored_items.hpp"
#include "http/api/answers/response_object.hpp"
#include "http/json/json_text.hpp"
#include "http/wire/query_fields.hpp"

namespace troupe {
namespace {

constexpr std::uint32_t kMostItems = 100;

ApiError invalid(std::string message, std::string field) {
  return {.kind = ApiErrorKind::kInvalidRequest, .message = std::move(message), .field = std::move(field)};
}

std::string item_id(const StoredResponse& response, std::size_t position) {
  return message_id(response.id) + "_" + std::to_string(position);
}

bool is_message(const StoredMessage& item) {
  return item.role != kFunctionCall && item.role != kFunctionCallOutput && item.role != kReasoningItem;
}

void append_item(std::string& out, const StoredResponse& response, std::size_t position) {
  const StoredMessage& message = response.input[position];
  out += "{\"id\":";
  append_json_string(out, item_id(response, position));
  out += ",\"type\":";
  append_json_string(out, is_message(message) ? "message" : message.role);
  out += ",\"status\":\"completed\",";
  if (message.role == kReasoningItem) {
    out += "\"summary\":[],\"content\":[{\"type\":\"reasoning_text\",\"text\":";
    append_json_string(out, message.content);
    out += "}]}";
    return;
  }
  // The fields of the others are stored as the object they are shown as.
  if (!is_message(message)) {
    out.append(message.content, 1);
    return;
  }
  out += "\"role\":";
  append_json_string(out, message.role);
  out += ",\"content\":[";
  if (message.role == "assistant") {
    AnswerJson json(out, AnswerJson::Long::kAtOnce);
    append_output_text(json, message.content);
  } else {
    out += "{\"type\":\"input_text\",\"text\":";
    append_json_string(out, message.content);
    out += "}";
  }
  out += "]}";
}

void append_id(std::string& out, std::string_view name, const StoredResponse& response,
               const std::vector<std::size_t>& shown, bool first) {
  out.append(",\"").append(name).append("\":");
  if (shown.empty()) {
    out += "null";
  } else {
    append_json_string(out, item_id(response, first ? shown.front() : shown.back()));
  }
}

}  // namespace

std::variant<ItemPage, ApiError> parse_item_page(std::string_view query) {
  ItemPage page;
  while (!query.empty()) {
    const auto [key, value] = take_query_field(query);
    if (key == "after") page.after = value;
    if (key == "order") {
      if (value != "asc" && value != "desc") return invalid("order must be asc or desc", "order");
      page.is_descending = value == "desc";
    }
    if (key == "limit") {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), page.limit);
      const bool is_number = error == std::errc{} && end == value.data() + value.size();
      if (!is_number || page.limit < 1 || page.limit > kMostItems)
        return invalid("limit must be a whole number from 1 to 100", "limit");
    }
  }
  return page;
}

std::string input_items_json(const StoredResponse& response, const ItemPage& page) {
  std::vector<std::size_t> positions(response.input.size());
  for (std::size_t i = 0; i < positions.size(); ++i)
    positions[i] = page.is_descending ? positions.size() - 1 - i : i;
  // After an item that is not there comes what comes after nothing.
  const auto found = std::find_if(positions.begin(), positions.end(), [&](std::size_t position) {
    return !page.after.empty() && item_id(response, position) == page.after;
  });
  if (found != positions.end()) positions.erase(positions.begin(), found + 1);
  const bool has_more = positions.size() > page.limit;
  if (has_more) positions.resize(page.limit);
  std::string out = "{\"object\":\"list\",\"data\":[";
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (i > 0) out += ",";
    append_item(out, response, positions[i]);
  }
  out += "]";
  append_id(out, "first_id", response, positions, true);
  append_id(out, "last_id", response, positions, false);
  out += has_more ? ",\"has_more\":true}" : ",\"has_more\":false}";
  return out;
}

}  // namespace troupe
