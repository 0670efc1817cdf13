// SPDX-License-Identifier: Apache-2.0
#include "text/answer/answer_format.hpp"

#include <algorithm>

#include "text/answer/harmony_parser.hpp"
#include "text/answer/json_scanner.hpp"

namespace troupe {

std::vector<std::string> CallFormat::triggers() const {
  std::vector<std::string> triggers;
  for (const auto* marker : {&section_begin, &call_begin})
    if (!marker->empty())
      triggers.emplace_back(marker->begin(), std::find_if(marker->begin(), marker->end(), is_json_space));
  return triggers;
}

AnswerFormat harmony_answer_format() {
  const std::string channel = harmony::kChannel;
  return {
      .calls = CallFormat{.style = CallStyle::kHarmony,
                          .call_begin = channel + "commentary" + harmony::kRecipient,
                          .call_end = harmony::kCall,
                          .name_end = std::string(" ") + harmony::kConstrain + "json" + harmony::kMessage},
      .reasoning = {.begin = channel + "analysis" + harmony::kMessage, .end = harmony::kEnd}};
}

// As template_messages() writes it: arguments as they came.
CallFormat general_call_format() {
  return {.call_begin = "<tool_call>",
          .call_end = "</tool_call>",
          .spelling = CallSpelling{.in_front = "",
                                   .behind_call_begin = "\n",
                                   .before_call_end = "\n",
                                   .between_calls = "\n",
                                   .object = JsonSeparators()}};
}

std::string general_tools_text(std::string_view tools) {
  std::string text = "You can call functions. Their descriptions are this JSON list:\n";
  text += tools;
  text +=
      "\nTo call one, answer with its name and its arguments as JSON, enclosed like this:\n"
      "<tool_call>\n{\"name\": \"the function's name\", \"arguments\": {\"an argument\": \"its value\"}}\n"
      "</tool_call>\n"
      "Several calls follow each other. Results come in <tool_response>. If no function is needed, "
      "answer as usual.";
  return text;
}

std::vector<std::string> markers_of(const AnswerFormat& format, bool reads_calls) {
  std::vector<std::string> markers;
  const auto add = [&](const std::string& marker) {
    if (!marker.empty()) markers.push_back(marker);
  };
  const auto& reasoning = format.reasoning;
  for (const auto* marker : {&reasoning.begin, &reasoning.end, &reasoning.content_begin}) add(*marker);
  if (format.is_harmony())
    for (const char* marker : {harmony::kStart, harmony::kReturn, harmony::kCall, harmony::kConstrain})
      add(marker);
  if (!reads_calls || !format.calls) return markers;
  const auto& calls = *format.calls;
  for (const auto* marker :
       {&calls.section_begin, &calls.section_end, &calls.call_begin, &calls.call_end, &calls.id_begin,
        &calls.name_end, &calls.key_begin, &calls.key_end, &calls.value_end, &calls.other_key_end})
    add(*marker);
  return markers;
}

}  // namespace troupe
