// SPDX-License-Identifier: Apache-2.0
// Common to the messages of chats and of responses.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <boost/json/array.hpp>

#include "actors/request/generation_request.hpp"
#include "http/api/requests/field_reader.hpp"
#include "http/api/requests/generation_fields.hpp"
#include "http/limits.hpp"

namespace troupe {

// The content of a message, in its field `name`: a string, or text parts, which
// are joined by line breaks as other servers do. part_types: what a part may call
// itself.
void read_content(FieldReader& message, std::string_view name, std::span<const std::string_view> part_types,
                  const Limits& limits, std::string& content);

// A list of 1 to limits.max_messages objects; `begin` hears how many, `read` is
// called for each until something is wrong. what: "messages", "items".
struct MessageListReader {
  std::function<void(std::size_t)> begin;
  std::function<void(FieldReader&, std::size_t)> read;
};
void read_message_list(FieldReader& fields, std::string_view name, std::string_view what,
                       const Limits& limits, const MessageListReader& reader);

// Messages, tools and add_generation_prompt, as chats have them.
void read_chat_prompt(FieldReader& fields, const ParseSettings& settings, ChatPrompt& prompt);

}  // namespace troupe
