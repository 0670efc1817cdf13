// SPDX-License-Identifier: Apache-2.0
// The arguments of a call in Python's notation (CallStyle::kPython) as JSON text, while they are written:
// f(city='Rome', days=[1, 2], deep={'a': True}) has {"city": "Rome", "days": [1, 2], "deep": {"a": true}}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

bool is_python_name(std::string_view text);

// Reads literals: texts in single or double quotes, numbers, True, False, None, lists, tuples, dicts.
class PythonArguments {
 public:
  enum class State : std::uint8_t { kOpen, kDone, kBroken };

  // From behind the opening parenthesis. Takes bytes up to and with the closing one, or before the byte
  // that breaks the call, and appends the object to arguments.
  std::size_t take(std::string_view text, std::string& arguments);
  State state() const { return state_; }

 private:
  enum class Place : std::uint8_t { kBegin, kKey, kValue, kText, kEscape };

  bool take_byte(char byte, std::string& out);
  bool take_in_key(char byte, std::string& out);
  bool take_in_value(char byte, std::string& out);
  void take_in_text(char byte, std::string& out);
  void take_escape(char byte, std::string& out);
  bool close(char byte, std::string& out);
  bool begin_value(std::string& out);
  bool end_word(std::string& out);

  State state_ = State::kOpen;
  Place place_ = Place::kBegin;
  std::string closers_;  // of open brackets, the innermost last
  std::string word_;     // a key, a number, a name or an escape as far as it came
  char quote_ = '"';
  bool needs_comma_ = false;      // in front of the next value or key
  bool is_behind_value_ = false;  // where no other can begin
};

}  // namespace troupe
