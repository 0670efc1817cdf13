// SPDX-License-Identifier: Apache-2.0
#include "text/normalizer.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>

#include "text/utf8.hpp"

namespace troupe {
namespace {

int utf8proc_options(UnicodeForm form) {
  switch (form) {
    case UnicodeForm::kNfc: return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    case UnicodeForm::kNfd: return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    case UnicodeForm::kNfkc: return UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    case UnicodeForm::kNfkd: return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
  }
  return 0;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

std::string normal_form(std::string text, UnicodeForm form) {
  if (is_ascii(text)) return text;
  std::uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const std::uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                                             static_cast<utf8proc_option_t>(utf8proc_options(form)));
  if (size < 0) throw std::runtime_error(std::string("utf8proc: ") + utf8proc_errmsg(size));
  const std::unique_ptr<std::uint8_t, decltype(&std::free)> owned(mapped, &std::free);
  return std::string(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(size));
}

std::string replaced(const std::string& text, const ReplaceStep& step, PatternScratch& scratch) {
  std::string out;
  std::size_t copied = 0;
  std::size_t from = 0;
  while (from <= text.size()) {
    const auto match = step.pattern.find(text, from, scratch);
    if (!match) break;
    out.append(text, copied, match->begin - copied);
    out += step.content;
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

}  // namespace

std::string Normalizer::apply(std::string_view text, PatternScratch& scratch) const {
  std::string result(text);
  for (const NormalizerStep& step : steps_) {
    if (result.empty()) break;
    if (const auto* form = std::get_if<UnicodeForm>(&step)) {
      result = normal_form(std::move(result), *form);
    } else if (const auto* prepend = std::get_if<PrependStep>(&step)) {
      result.insert(0, prepend->prefix);
    } else {
      result = replaced(result, std::get<ReplaceStep>(step), scratch);
    }
  }
  return result;
}

}  // namespace troupe
