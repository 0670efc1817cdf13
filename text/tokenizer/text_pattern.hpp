// SPDX-License-Identifier: Apache-2.0
// A pattern of a tokenizer.json: a string to look for, any character of a kind,
// or a regular expression (compiled by PCRE2 with Unicode properties).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/encoding_budget.hpp"
#include "text/tokenizer/tokenizer.hpp"

struct pcre2_real_code_8;
struct pcre2_real_jit_stack_8;
struct pcre2_real_match_context_8;
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
  // False if it has a large one already.
  bool enlarge_jit_stack();

  pcre2_real_match_data_8* match_data_;
  pcre2_real_match_context_8* context_;  // the limits of a match
  pcre2_real_jit_stack_8* jit_stack_ = nullptr;
};

// Immutable; may be used from several threads, each with its own scratch.
class TextPattern {
 public:
  static TextPattern literal(std::string text);
  // Throws std::runtime_error saying what is wrong with the expression.
  static TextPattern regex(const std::string& expression);

  // Matches one character of which this is true.
  using IsMember = bool (*)(char32_t);
  static TextPattern character(IsMember is_member);

  // The text in which find() is to look: `text`, or for a regular expression its copy in
  // `copy` with stand-ins for newer characters, unless it names one of these or has a
  // backreference. Offsets are the same. Once for a text, not for each match. `text` is valid UTF-8. Throws
  // EncodingStopped.
  std::string_view readable(std::string_view text, std::string& copy, const EncodingBudget& budget) const;

  // The first match that begins at `from` or later; it may be empty. `text` is
  // readable(), `from` the beginning of a character. Throws EncodingStopped, also
  // where a match takes more steps or memory than a fixed limit. Steps that are
  // spent are the bytes that were passed.
  std::optional<TextRange> find(std::string_view text, std::size_t from, PatternScratch& scratch,
                                EncodingBudget& budget) const;

  // The string to look for, if that is all.
  std::optional<std::string_view> as_literal() const {
    return regex_ || is_member_ != nullptr ? std::nullopt : std::optional<std::string_view>(literal_);
  }

 private:
  TextPattern() = default;
  std::optional<TextRange> find_literal(std::string_view text, std::size_t from) const;
  std::optional<TextRange> find_character(std::string_view text, std::size_t from,
                                          EncodingBudget& budget) const;
  // A match that begins in [from, last].
  std::optional<TextRange> find_regex(std::string_view text, std::size_t from, std::size_t last,
                                      PatternScratch& scratch) const;

  std::string literal_;                             // empty for the others
  IsMember is_member_ = nullptr;                    // of a character
  std::shared_ptr<const pcre2_real_code_8> regex_;  // of an expression
  bool reads_stand_ins_ = false;                    // for newer characters
};

}  // namespace troupe
