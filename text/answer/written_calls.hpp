// SPDX-License-Identifier: Apache-2.0
// Calls of earlier answers in the model's own notation, for templates that don't write them
// themselves: markers are ours and become special tokens, names and arguments are a client's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/answer/answer_format.hpp"
#include "text/chat_message.hpp"
#include "text/jinja/marked_string.hpp"

namespace troupe {

// True of kNamedJson and kPython, the only styles of which such templates are known.
bool can_be_written(const CallFormat& format);

// number: of the first call, where the format numbers them. Arguments that are no JSON object,
// as of an answer that was cut off, are written as they came.
MarkedString written_calls(const std::vector<ToolCall>& calls, const CallFormat& format,
                           std::uint32_t number);
// By which a result names its call: "functions.f:0"; empty: the format has no such ids.
std::string written_call_id(const ToolCall& call, const CallFormat& format, std::uint32_t number);

}  // namespace troupe
