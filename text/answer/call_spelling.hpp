// SPDX-License-Identifier: Apache-2.0
// How a chat template spells the calls of earlier answers: the white space around markers and the
// separators of JSON, neither of which makes a difference to a reader. A call that is drawn so is the
// text that the template writes for it later, and its tokens are found again.
#pragma once

#include <optional>
#include <string>

#include "text/grammar/json_separators.hpp"

namespace troupe {

// White space, in the order in which it is written; that of a part that a format lacks is empty.
struct CallSpelling {
  std::optional<std::string> in_front = {};  // of the first marker, behind the prompt; absent: not known
  std::string behind_section_begin = {};
  std::string behind_call_begin = {};
  std::string behind_name = {}, behind_name_end = {};
  std::string between_arguments = {};  // kTagged: behind a value_end, in front of the next key_begin
  std::string before_call_end = {};
  // kTagged: between name_end and call_end, where there are no arguments.
  std::string without_arguments = {};
  std::string between_calls = {};  // of a list: with the comma
  std::string before_section_end = {};
  // The object around name and arguments has these. Absent: it has more than the two, or they are elsewhere.
  std::optional<JsonSeparators> object = {};
  // The arguments have these, and each character of their strings has one spelling. Absent: the template
  // writes the text that it is given, or not as JSON.
  std::optional<JsonSeparators> arguments = {};
  bool operator==(const CallSpelling&) const = default;
};

}  // namespace troupe
