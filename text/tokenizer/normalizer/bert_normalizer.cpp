// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/normalizer/bert_normalizer.hpp"

#include <algorithm>
#include <utility>

#include "text/tokenizer/normalizer/bert_character.hpp"
#include "text/tokenizer/normalizer/character_steps.hpp"
#include "text/tokenizer/normalizer/unicode_form.hpp"
#include "text/utf8.hpp"

namespace troupe {
namespace {

constexpr std::size_t kBytesASpend = 4096;
constexpr char32_t kReplacement = 0xFFFD;

// ASCII without the controls that are removed: such a character is none of those
// that marks before or behind it are sorted with.
bool is_plain(char c) { return (c >= 0x20 && c < 0x7F) || c == '\t' || c == '\n' || c == '\r'; }

char normalized(char c, const BertNormalizerStep& step) {
  if (step.cleans_text && c < 0x20) return ' ';
  if (step.lowercases && c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  return c;
}

// The bytes up to the first that is_plain or not, as `plain` says.
std::size_t run_size(std::string_view text, bool plain, std::size_t max_size) {
  const std::string_view part = text.substr(0, max_size);
  const auto end = std::find_if(part.begin(), part.end(), [&](char c) { return is_plain(c) != plain; });
  return static_cast<std::size_t>(end - part.begin());
}

void append_plain(std::string_view text, const BertNormalizerStep& step, std::string& out) {
  const auto begin = static_cast<std::ptrdiff_t>(out.size());
  out += text;
  std::transform(out.begin() + begin, out.end(), out.begin() + begin,
                 [&](char c) { return normalized(c, step); });
}

// Calls take(code_point, bytes) for each character.
template <class Take>
void for_each_character(std::string_view text, EncodingBudget& budget, Take take) {
  std::size_t num_unspent = 0;
  while (!text.empty()) {
    const Utf8Character character = next_utf8_character(text);
    take(character.code_point, text.substr(0, character.num_bytes));
    text.remove_prefix(character.num_bytes);
    num_unspent += character.num_bytes;
    if (num_unspent >= kBytesASpend) budget.spend(std::exchange(num_unspent, 0));
  }
  budget.spend(num_unspent);
}

std::string cleaned(std::string_view text, const BertNormalizerStep& step, EncodingBudget& budget) {
  std::string out;
  out.reserve(text.size());
  for_each_character(text, budget, [&](char32_t c, std::string_view bytes) {
    if (step.cleans_text) {
      if (c == 0 || c == kReplacement || is_bert_control(c)) return;
      if (is_bert_space(c)) bytes = " ";
    }
    const bool is_isolated = step.isolates_ideographs && is_bert_ideograph(c);
    if (is_isolated) out += ' ';
    out += bytes;
    if (is_isolated) out += ' ';
  });
  return out;
}

// What is not plain.
void append_run(std::string_view text, const BertNormalizerStep& step, std::size_t max_bytes,
                EncodingBudget& budget, std::string& out) {
  std::string run = cleaned(text, step, budget);
  if (step.strips_accents) run = normal_form(run, UnicodeForm::kNfd, max_bytes, budget);
  for_each_character(run, budget, [&](char32_t c, std::string_view bytes) {
    if (step.strips_accents && is_bert_mark(c)) return;
    if (step.lowercases) {
      append_lowercase(c, out);
    } else {
      out += bytes;
    }
  });
}

}  // namespace

std::string bert_normalized(std::string_view text, const BertNormalizerStep& step, std::size_t max_bytes,
                            EncodingBudget& budget) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t num_plain = run_size(text, true, kBytesASpend);
    budget.spend(num_plain);
    append_plain(text.substr(0, num_plain), step, out);
    text.remove_prefix(num_plain);
    const std::size_t num_others = run_size(text, false, text.size());
    if (num_others > 0) append_run(text.substr(0, num_others), step, max_bytes, budget, out);
    text.remove_prefix(num_others);
  }
  return out;
}

}  // namespace troupe
