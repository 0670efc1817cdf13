// SPDX-License-Identifier: Apache-2.0
// The few questions about UTF-8 that tokenizers and templates ask.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// A character at the beginning of a text, or what is wrong there.
struct Utf8Character {
  enum class Kind { kValid, kInvalid, kIncomplete };
  Kind kind = Kind::kInvalid;
  // Bytes of the character; of the longest prefix of one where it is invalid
  // (at least 1); all that is left where it is incomplete.
  std::size_t num_bytes = 0;
  char32_t code_point = 0;  // valid ones only
};

// `text` must not be empty.
Utf8Character next_utf8_character(std::string_view text);

// The bytes up to the first that is not part of valid UTF-8.
std::size_t valid_utf8_prefix(std::string_view text);

void append_utf8(std::string& out, char32_t code_point);
// text: valid UTF-8.
std::u32string characters_of(std::string_view text);

// Unicode's White_Space and the four ASCII separators, as Python's str.strip.
bool is_unicode_space(char32_t code_point);

// Turns bytes that arrive in any portions into valid UTF-8: what is invalid
// becomes U+FFFD (one for each maximal part of a character), what is
// incomplete waits.
class Utf8Assembler {
 public:
  void push(std::string_view bytes, std::string& out);
  void finish(std::string& out);

 private:
  std::string pending_;  // at most three bytes
};

}  // namespace troupe
