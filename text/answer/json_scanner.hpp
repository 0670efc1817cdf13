// SPDX-License-Identifier: Apache-2.0
// Finds where a JSON value ends in text that is still being written: strings and
// brackets are followed, scalars are taken as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

// Scans a value that begins with a quote or a bracket.
class JsonScanner {
 public:
  enum class State : std::uint8_t { kOpen, kDone, kBroken };

  // Inside num_objects objects that are open already.
  explicit JsonScanner(std::size_t num_objects = 0) : closers_(num_objects, '}') {}

  // Takes bytes up to the end of the value, or before the byte that breaks it.
  std::size_t take(std::string_view text);
  State state() const { return state_; }

 private:
  void take_byte(char byte);
  void close(char closer);

  std::string closers_;  // of open brackets, the innermost last
  bool in_string_ = false;
  bool is_escaped_ = false;
  State state_ = State::kOpen;
};

bool is_json_space(char c);
std::size_t skip_json_space(std::string_view text, std::size_t at);
// Appends text as the inside of a JSON string. Bytes above ASCII stay as they are.
void append_json_inside(std::string& out, std::string_view text);

}  // namespace troupe
