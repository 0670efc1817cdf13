// SPDX-License-Identifier: Apache-2.0
// How a chat template takes tools, their calls and results. Templates
// differ, and say it nowhere: it is found by rendering a small conversation in
// the forms that are in use and looking for what must be there.
#pragma once

#include <optional>

#include "text/answer/answer_format.hpp"

namespace troupe {

class ChatTemplate;

// How a message with calls is to be given to the template.
struct CallForm {
  bool has_text_arguments = false;  // JSON text; else an object
  bool has_short_ids = false;       // exactly 9 letters and digits; else as they came
  bool has_null_content = false;    // without text; else ""
  // Arguments that are no object, which models write too, make the template fail: they
  // are put into an object.
  bool needs_object = false;
  bool operator==(const CallForm&) const = default;
};

// The default: of a template that knows no tools.
struct ToolDialect {
  bool shows_tools = false;
  // Calls and results; where not, they are written into the messages as text.
  bool shows_calls = false;
  bool shows_text_beside_calls = false;
  CallForm form = {};
  // Calls are written into the text of their message in this format, results come in messages of their own;
  // absent, without shows_calls: both are text in the general format.
  std::optional<CallFormat> written = {};
  bool operator==(const ToolDialect&) const = default;
};

// Renders the template a few times.
ToolDialect probe_tool_dialect(const ChatTemplate& chat_template);
// A template that shows no calls shows what is written so, and results.
bool shows_written_calls(const ChatTemplate& chat_template, const CallFormat& format);

}  // namespace troupe
