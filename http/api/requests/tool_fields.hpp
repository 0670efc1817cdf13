// SPDX-License-Identifier: Apache-2.0
// Tools, their calls and results in requests: what the model is shown of them, and
// whether it must call one.
#pragma once

#include <cstdint>
#include <string>

#include <boost/json/object.hpp>

#include "actors/request/generation_request.hpp"
#include "actors/request/prompt/tool_names.hpp"
#include "http/api/requests/field_reader.hpp"
#include "http/limits.hpp"

namespace troupe {

// Chats have {"type": "function", "function": {"name": …}}, responses
// {"type": "function", "name": …}, messages {"name": …, "input_schema": {…}}.
enum class ToolShape : std::uint8_t { kNested, kFlat, kMessages };

// tools, tool_choice, parallel_tool_calls (of messages disable_parallel_tool_use, in the
// choice). Responses may also have custom tools and namespaces; the result has the names of those.
ToolNames read_tools(FieldReader& fields, ToolShape shape, const Limits& limits, ChatPrompt& prompt);

// One, of responses and messages, that the server of OpenAI or Anthropic runs itself (web_search). It is
// ignored: clients offer it to any server.
bool is_hosted_tool(const boost::json::object& tool, ToolShape shape);

// Behind all else: a call can't be demanded together with what says otherwise how the answer ends.
void check_demand_alone(FieldReader& fields, const GenerationRequest& request);
// The choice as a response repeats it, as JSON members.
std::string tool_choice_json(const ChatPrompt& prompt, const ToolNames& names);

// tool_calls of an assistant's message. Arguments are JSON as a text, or with Ollama's shape an object.
enum class CallShape : std::uint8_t { kTextArguments, kObjectArguments };
void read_tool_calls(FieldReader& message, const Limits& limits, ChatMessage& out,
                     CallShape shape = CallShape::kTextArguments);

// The id of a call, or a tool's name beside it: short, since templates may show it.
std::string read_call_id(FieldReader& fields, const char* name);

// A call as an item of a response's input: of a function, or of a custom tool.
ToolCall read_call_item(FieldReader& item);
ToolCall read_custom_call_item(FieldReader& item);
// A call as a block of a message's content: its arguments are an object.
ToolCall read_call_block(FieldReader& block);

}  // namespace troupe
