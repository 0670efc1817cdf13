// SPDX-License-Identifier: Apache-2.0
// Sets of Unicode characters, and how UTF-8 spells them: grammars speak of characters, their automata of
// bytes. Surrogates are in no set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/grammar/grammar_builder.hpp"

namespace troupe {

struct CharacterRange {
  char32_t first = 0;
  char32_t last = 0;
  bool operator==(const CharacterRange&) const = default;
};

class CharacterSet {
 public:
  CharacterSet() = default;
  explicit CharacterSet(std::vector<CharacterRange> ranges);
  static CharacterSet all() { return CharacterSet({{0, 0x10FFFF}}); }
  static CharacterSet of(char32_t character) { return CharacterSet({{character, character}}); }

  CharacterSet complement() const;
  CharacterSet united(const CharacterSet& other) const;
  CharacterSet without(const CharacterSet& other) const;
  bool contains(char32_t character) const;
  bool is_empty() const { return ranges_.empty(); }
  // Sorted, not overlapping, not adjacent.
  const std::vector<CharacterRange>& ranges() const { return ranges_; }

 private:
  std::vector<CharacterRange> ranges_;
};

// A range for each byte: all texts with a byte of each are characters of the set.
using Utf8Sequence = std::vector<ByteRange>;
std::vector<Utf8Sequence> utf8_sequences(const CharacterSet& set);

// One character of the set.
GrammarExpression one_character(GrammarBuilder& builder, const CharacterSet& set);

// All that a JSON string holds unescaped: no control characters, quotation mark or backslash.
CharacterSet plain_json_characters();

}  // namespace troupe
