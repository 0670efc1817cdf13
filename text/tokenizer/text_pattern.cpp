// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/tokenizer/text_pattern.hpp"

#include <pcre2.h>

#include <algorithm>
#include <array>
#include <new>
#include <stdexcept>

#include "text/tokenizer/newer_characters.hpp"
#include "text/utf8.hpp"

namespace troupe {
namespace {

// Limits a match to a fixed amount of work and memory, whatever text and
// expression are. Compiled expressions know only the first.
constexpr std::uint32_t kMaxSteps = 10'000'000;
constexpr std::uint32_t kMaxDepth = 1'000'000;
constexpr std::uint32_t kMaxHeapKibibytes = 64 * 1024;
// Places at which a match is tried before it is asked whether to go on.
constexpr std::size_t kBeginningsASearch = 256;
constexpr std::size_t kFirstJitStackBytes = 64 * 1024;
constexpr std::size_t kMaxJitStackBytes = 4u << 20;
constexpr std::size_t kMaxExpressionBytes = 64 * 1024;

// tokenizer.json is written for Oniguruma. Where both accept the same letters
// and mean different things, we refuse instead of tokenizing differently.
void refuse_other_dialect(const std::string& expression) {
  for (std::size_t i = 0; i + 1 < expression.size(); ++i) {
    const char next = expression[i + 1];
    if (expression[i] == '&' && next == '&') {
      throw std::runtime_error("intersections (&&) in regular expressions are not supported");
    }
    if (expression[i] != '\\') continue;
    if (next == 'h' || next == 'H') {
      throw std::runtime_error("\\h in regular expressions is not supported");
    }
    ++i;
  }
}

std::string error_text(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

}  // namespace

PatternScratch::PatternScratch()
    : match_data_(pcre2_match_data_create(1, nullptr)), context_(pcre2_match_context_create(nullptr)) {
  if (match_data_ == nullptr || context_ == nullptr) {
    pcre2_match_data_free(match_data_);
    pcre2_match_context_free(context_);
    throw std::bad_alloc();
  }
  pcre2_set_match_limit(context_, kMaxSteps);
  pcre2_set_depth_limit(context_, kMaxDepth);
  pcre2_set_heap_limit(context_, kMaxHeapKibibytes);
}

PatternScratch::~PatternScratch() {
  pcre2_match_data_free(match_data_);
  pcre2_match_context_free(context_);
  pcre2_jit_stack_free(jit_stack_);
}

bool PatternScratch::enlarge_jit_stack() {
  if (jit_stack_ != nullptr) return false;
  jit_stack_ = pcre2_jit_stack_create(kFirstJitStackBytes, kMaxJitStackBytes, nullptr);
  if (jit_stack_ == nullptr) return false;
  pcre2_jit_stack_assign(context_, nullptr, jit_stack_);
  return true;
}

TextPattern TextPattern::literal(std::string text) {
  if (text.empty()) throw std::runtime_error("an empty string can't be searched for");
  TextPattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

TextPattern TextPattern::character(IsMember is_member) {
  TextPattern pattern;
  pattern.is_member_ = is_member;
  return pattern;
}

TextPattern TextPattern::regex(const std::string& expression) {
  if (expression.size() > kMaxExpressionBytes) {
    throw std::runtime_error("regular expression longer than 64 KiB");
  }
  refuse_other_dialect(expression);
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  pcre2_code* code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT, &error,
      &error_offset, nullptr);
  if (code == nullptr) {
    throw std::runtime_error("regular expression, at byte " + std::to_string(error_offset) + ": " +
                             error_text(error));
  }
  TextPattern pattern;
  pattern.regex_ = std::shared_ptr<const pcre2_code>(
      code, [](const pcre2_code* owned) { pcre2_code_free(const_cast<pcre2_code*>(owned)); });
  // Two characters with one stand-in are the same to a backreference.
  std::uint32_t num_backreferences = 0;
  pcre2_pattern_info(code, PCRE2_INFO_BACKREFMAX, &num_backreferences);
  pattern.reads_stand_ins_ = num_backreferences == 0 && !names_newer_characters(expression);
  // Without JIT (not allowed everywhere) matching is slower, not different.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return pattern;
}

std::string_view TextPattern::readable(std::string_view text, std::string& copy,
                                       const EncodingBudget& budget) const {
  return reads_stand_ins_ ? with_stand_ins(text, copy, budget) : text;
}

std::optional<TextRange> TextPattern::find(std::string_view text, std::size_t from, PatternScratch& scratch,
                                           EncodingBudget& budget) const {
  if (is_member_ != nullptr) return find_character(text, from, budget);
  if (!regex_) {
    const auto match = find_literal(text, from);
    budget.spend((match ? match->end : text.size()) - from + 1);
    return match;
  }
  while (true) {
    const std::size_t last = std::min(text.size(), from + kBeginningsASearch);
    const auto match = find_regex(text, from, last, scratch);
    if (match || last == text.size()) {
      budget.spend((match ? match->end : text.size()) - from + 1);
      return match;
    }
    // An expression may look at all of the text from every place in it.
    budget.spend(last - from);
    budget.ask();
    from = last + 1;
    while (from < text.size() && (text[from] & 0xC0) == 0x80) ++from;
  }
}

std::optional<TextRange> TextPattern::find_literal(std::string_view text, std::size_t from) const {
  const std::size_t begin = text.find(literal_, from);
  if (begin == std::string_view::npos) return std::nullopt;
  return TextRange{begin, begin + literal_.size()};
}

std::optional<TextRange> TextPattern::find_character(std::string_view text, std::size_t from,
                                                     EncodingBudget& budget) const {
  while (from < text.size()) {
    const Utf8Character character = next_utf8_character(text.substr(from));
    budget.spend(character.num_bytes);
    if (is_member_(character.code_point)) return TextRange{from, from + character.num_bytes};
    from += character.num_bytes;
  }
  return std::nullopt;
}

std::optional<TextRange> TextPattern::find_regex(std::string_view text, std::size_t from, std::size_t last,
                                                 PatternScratch& scratch) const {
  pcre2_set_offset_limit(scratch.context_, last);
  const auto match = [&](std::uint32_t options) {
    return pcre2_match(regex_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       PCRE2_NO_UTF_CHECK | options, scratch.match_data_, scratch.context_);
  };
  int result = match(0);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT && scratch.enlarge_jit_stack()) result = match(0);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_JIT);
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0)
    throw EncodingStopped(EncodingStop::kTooMuchWork,
                          "a regular expression of the tokenizer fails on this text: " + error_text(result));
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(scratch.match_data_);
  // \K in a lookahead can put the beginning of a match behind its end.
  if (offsets[0] > offsets[1] || offsets[0] < from) return std::nullopt;
  return TextRange{offsets[0], offsets[1]};
}

}  // namespace troupe
