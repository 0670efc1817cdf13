// SPDX-License-Identifier: Apache-2.0
// How a model writes what is no plain text in its answers: calls of tools, and
// reasoning before the answer. Values: found from the chat template
// (answer_format_probe.hpp), read by AnswerParser, and all that a grammar of calls needs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/answer/call_spelling.hpp"

namespace troupe {

enum class CallStyle : std::uint8_t {
  kJson,       // {"name": "f", "arguments": {…}}
  kNamedJson,  // f name_end {…}
  kTagged,     // f name_end (key_begin k key_end v value_end)*
  kPython,     // f(k=v, k=v), values as Python's literals
  kHarmony,    // messages on channels, which HarmonyParser reads; markers are its own
};

// Markers have no white space around them, and may be empty. White space between
// parts of a call may be anything to a reader; a grammar draws what `spelling` says.
//
//   section_begin (call_begin CALL call_end)+ section_end
//   section_begin call_begin [CALL, CALL, …] call_end section_end      a list
struct CallFormat {
  CallStyle style = CallStyle::kJson;
  std::string section_begin = {}, section_end = {};
  std::string call_begin = {}, call_end = {};
  // kJson and kPython.
  bool is_list = false;
  // kJson. An empty name_key: the function's name is the key of the arguments.
  std::string name_key = "name", arguments_key = "arguments";
  // kNamedJson: id_begin and an id may stand behind the name.
  std::string id_begin = {};
  bool has_numbered_ids = false;  // 0, 1, …
  std::string name_end = {};
  // kTagged. Values of strings are written as they are, others as JSON, and both in
  // lines of their own where has_value_lines.
  std::string key_begin = {}, key_end = {}, value_end = {};
  std::string other_key_end = {};  // before a value that is no string, if that differs
  bool has_value_lines = false;
  std::optional<CallSpelling> spelling = {};  // absent: not known

  bool has_marker() const { return !section_begin.empty() || !call_begin.empty(); }
  // Words with which a call begins: text that holds one is read as a call.
  std::vector<std::string> triggers() const;
  bool operator==(const CallFormat&) const = default;
};

// begin reasoning end [content_begin] text
struct ReasoningFormat {
  std::string begin = {}, end = {};  // both empty: none
  std::string content_begin = {};    // may stand before the text, reasoning or not
  bool exists() const { return !end.empty(); }
  bool operator==(const ReasoningFormat&) const = default;
};

// With kHarmony, HarmonyParser finds reasoning and text, too.
struct AnswerFormat {
  std::optional<CallFormat> calls = {};  // absent: not known
  ReasoningFormat reasoning = {};
  bool is_harmony() const { return calls && calls->style == CallStyle::kHarmony; }
  bool operator==(const AnswerFormat&) const = default;
};

// The format of gpt-oss.
AnswerFormat harmony_answer_format();
// <tool_call>{"name": …, "arguments": {…}}</tool_call>: of models whose template has none.
CallFormat general_call_format();
// The text that tells a model of its tools and of the general format. tools: a JSON array.
std::string general_tools_text(std::string_view tools);

// Texts that a detokenizer has to show even if they are special tokens.
std::vector<std::string> markers_of(const AnswerFormat& format, bool reads_calls);

}  // namespace troupe
