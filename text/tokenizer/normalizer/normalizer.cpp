// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/normalizer/normalizer.hpp"

#include <algorithm>
#include <optional>

#include "text/tokenizer/normalizer/character_steps.hpp"
#include "text/utf8.hpp"

namespace troupe {
namespace {

// A character of four bytes may become one byte, and a composed one of two bytes
// is made of four characters at most.
constexpr std::size_t kUnicodeShrinkage = 8;

void check_growth(std::size_t bytes, std::size_t max_bytes) {
  if (bytes <= max_bytes) return;
  throw EncodingStopped(EncodingStop::kTooMuchWork,
                        "the normalizer makes more than " + std::to_string(max_bytes) + " bytes of the text");
}

std::string literal_replaced(const std::string& text, std::string_view literal, const std::string& content,
                             std::size_t max_bytes, EncodingBudget& budget) {
  std::string out;
  out.reserve(std::min(max_bytes, text.size() + text.size() / 2));
  for (std::size_t from = 0;;) {
    const std::size_t at = std::min(text.find(literal, from), text.size());
    budget.spend(at - from + 1);
    out.append(text, from, at - from);
    if (at == text.size()) return out;
    out += content;
    check_growth(out.size(), max_bytes);
    from = at + literal.size();
  }
}

std::string replaced(const std::string& text, const ReplaceStep& step, std::size_t max_bytes,
                     PatternScratch& scratch, EncodingBudget& budget) {
  const auto literal = step.pattern.as_literal();
  if (literal) return literal_replaced(text, *literal, step.content, max_bytes, budget);
  std::string out;
  std::string copy;
  const std::string_view readable = step.pattern.readable(text, copy, budget);
  std::size_t copied = 0;
  std::size_t from = 0;
  while (from <= text.size()) {
    const auto match = step.pattern.find(readable, from, scratch, budget);
    if (!match) break;
    out.append(text, copied, match->begin - copied);
    out += step.content;
    check_growth(out.size(), max_bytes);
    copied = match->end;
    from = match->end;
    if (match->begin == match->end) {
      if (from == text.size()) break;
      from += next_utf8_character(std::string_view(text).substr(from)).num_bytes;
    }
  }
  out.append(text, copied);
  return out;
}

// A step's input, the most bytes that it may make of it, and the means to do so.
struct Input {
  const std::string& text;
  std::size_t max_bytes;
  PatternScratch& scratch;
  EncodingBudget& budget;
};

std::string applied(const UnicodeForm& form, const Input& input) {
  return normal_form(input.text, form, input.max_bytes, input.budget);
}
std::string applied(const PrependStep& step, const Input& input) {
  check_growth(input.text.size() + step.prefix.size(), input.max_bytes);
  return step.prefix + input.text;
}
std::string applied(const ReplaceStep& step, const Input& input) {
  return replaced(input.text, step, input.max_bytes, input.scratch, input.budget);
}
std::string applied(const BertNormalizerStep& step, const Input& input) {
  return bert_normalized(input.text, step, input.max_bytes, input.budget);
}
std::string applied(const LowercaseStep&, const Input& input) { return lowercased(input.text, input.budget); }
std::string applied(const StripMarksStep&, const Input& input) {
  return without_marks(input.text, input.budget);
}
std::string applied(const StripSpacesStep& step, const Input& input) {
  return std::string(stripped(input.text, step.left, step.right));
}
std::string applied(const PrecompiledStep& map, const Input& input) {
  return map->apply(input.text, input.max_bytes, input.budget);
}

std::size_t shrinkage(const NormalizerStep& step) {
  if (std::holds_alternative<UnicodeForm>(step) || std::holds_alternative<LowercaseStep>(step))
    return kUnicodeShrinkage;
  if (std::holds_alternative<PrependStep>(step)) return 1;
  const auto* replace = std::get_if<ReplaceStep>(&step);
  const auto literal = replace != nullptr ? replace->pattern.as_literal() : std::nullopt;
  if (!literal || replace->content.empty()) return EncodingBudget::kUnlimited;
  return (literal->size() + replace->content.size() - 1) / replace->content.size();
}

std::string printable_ascii() {
  std::string text;
  for (char c = ' '; c <= '~'; ++c) text += c;
  return text;
}

}  // namespace

std::string Normalizer::apply(std::string_view text, PatternScratch& scratch, EncodingBudget& budget) const {
  const std::size_t max_bytes = kOutputsAnInput * text.size() + kFreeOutputBytes;
  std::string result(text);
  for (const NormalizerStep& step : steps_) {
    if (result.empty()) break;
    const Input input{result, max_bytes, scratch, budget};
    result = std::visit([&](const auto& chosen) { return applied(chosen, input); }, step);
    check_growth(result.size(), max_bytes);
  }
  return result;
}

std::size_t Normalizer::max_shrinkage() const {
  std::size_t product = 1;
  for (const NormalizerStep& step : steps_)
    if (__builtin_mul_overflow(product, shrinkage(step), &product)) return EncodingBudget::kUnlimited;
  return product;
}

void Normalizer::probe() const {
  PatternScratch scratch;
  EncodingBudget budget;
  const auto try_out = [&](std::string_view text) {
    budget.begin_text(text.size());
    apply(text, scratch, budget);
  };
  try_out(printable_ascii());
  for (const NormalizerStep& step : steps_) {
    const auto* replace = std::get_if<ReplaceStep>(&step);
    const auto literal = replace != nullptr ? replace->pattern.as_literal() : std::nullopt;
    if (literal) try_out(*literal);
  }
}

}  // namespace troupe
