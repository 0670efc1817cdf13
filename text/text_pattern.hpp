// SPDX-License-Identifier: Apache-2.0
// What a tokenizer.json calls a pattern: a string to look for, or a regular
// expression (compiled by PCRE2 with Unicode properties).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/tokenizer.hpp"

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;

namespace troupe {

// Working memory of matches. Not shared between threads; one serves any pattern.
class PatternScratch {
 public:
  PatternScratch();
  ~PatternScratch();
  PatternScratch(const PatternScratch&) = delete;
  PatternScratch& operator=(const PatternScratch&) = delete;

 private:
  friend class TextPattern;
  pcre2_real_match_data_8* match_data_;
};

// Immutable; may be used from several threads, each with its own scratch.
class TextPattern {
 public:
  static TextPattern literal(std::string text);
  // Throws std::runtime_error saying what is wrong with the expression.
  static TextPattern regex(const std::string& expression);

  // The first match that begins at `from` or later; it may be empty. `text` is
  // valid UTF-8, `from` the beginning of a character. A search that would take
  // more steps than a fixed limit finds nothing.
  std::optional<TextRange> find(std::string_view text, std::size_t from, PatternScratch& scratch) const;

 private:
  TextPattern() = default;

  std::string literal_;
  std::shared_ptr<const pcre2_real_code_8> regex_;  // null for a literal
};

}  // namespace troupe
