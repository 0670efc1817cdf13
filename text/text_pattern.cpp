// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/text_pattern.hpp"

#include <pcre2.h>

#include <array>
#include <new>
#include <stdexcept>

namespace troupe {
namespace {

constexpr std::uint32_t kMaxSteps = 10'000'000;
constexpr std::uint32_t kMaxHeapKibibytes = 64 * 1024;
constexpr std::size_t kMaxExpressionBytes = 64 * 1024;

// Limits a match to a fixed amount of work, whatever text and expression are.
const pcre2_match_context* limits() {
  static const std::shared_ptr<pcre2_match_context> context = [] {
    std::shared_ptr<pcre2_match_context> created(pcre2_match_context_create(nullptr),
                                                 pcre2_match_context_free);
    if (!created) throw std::bad_alloc();
    pcre2_set_match_limit(created.get(), kMaxSteps);
    pcre2_set_heap_limit(created.get(), kMaxHeapKibibytes);
    return created;
  }();
  return context.get();
}

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

PatternScratch::PatternScratch() : match_data_(pcre2_match_data_create(1, nullptr)) {
  if (match_data_ == nullptr) throw std::bad_alloc();
}

PatternScratch::~PatternScratch() { pcre2_match_data_free(match_data_); }

TextPattern TextPattern::literal(std::string text) {
  if (text.empty()) throw std::runtime_error("an empty string can't be searched for");
  TextPattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

TextPattern TextPattern::regex(const std::string& expression) {
  if (expression.size() > kMaxExpressionBytes) {
    throw std::runtime_error("regular expression longer than 64 KiB");
  }
  refuse_other_dialect(expression);
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                                   &error_offset, nullptr);
  if (code == nullptr) {
    throw std::runtime_error("regular expression, at byte " + std::to_string(error_offset) + ": " +
                             error_text(error));
  }
  TextPattern pattern;
  pattern.regex_ = std::shared_ptr<const pcre2_code>(
      code, [](const pcre2_code* owned) { pcre2_code_free(const_cast<pcre2_code*>(owned)); });
  // Without JIT (not allowed everywhere) matching is slower, not different.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return pattern;
}

std::optional<TextRange> TextPattern::find(std::string_view text, std::size_t from,
                                           PatternScratch& scratch) const {
  if (!regex_) {
    const std::size_t begin = text.find(literal_, from);
    if (begin == std::string_view::npos) return std::nullopt;
    return TextRange{begin, begin + literal_.size()};
  }
  const auto match = [&](std::uint32_t options) {
    return pcre2_match(regex_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       PCRE2_NO_UTF_CHECK | options, scratch.match_data_,
                       const_cast<pcre2_match_context*>(limits()));
  };
  int result = match(0);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_JIT);
  if (result < 0) return std::nullopt;
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(scratch.match_data_);
  // \K in a lookahead can put the beginning of a match behind its end.
  if (offsets[0] > offsets[1] || offsets[0] < from) return std::nullopt;
  return TextRange{offsets[0], offsets[1]};
}

}  // namespace troupe
