// SPDX-License-Identifier: Apache-2.0
#include "text/answer/marker_grammar.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

constexpr std::uint32_t kMaxSpace = 2;

}  // namespace

GrammarExpression MarkerGrammar::exact(std::string_view marker) {
  std::vector<GrammarExpression> parts;
  for (const TokenId token : tokenizer_.encode_with_specials(marker)) {
    if (!tokenizer_.is_special(token)) continue;
    const auto content = tokenizer_.token_content(token);
    const auto at = marker.find(content);
    if (at == std::string_view::npos) continue;
    if (at > 0) parts.push_back(builder_.text(marker.substr(0, at)));
    parts.push_back(builder_.token(token));
    marker.remove_prefix(at + content.size());
  }
  if (!marker.empty()) parts.push_back(builder_.text(marker));
  return builder_.sequence(std::move(parts));
}

GrammarExpression MarkerGrammar::space() {
  ByteSet white;
  for (const char byte : {' ', '\n'}) white.set(static_cast<unsigned char>(byte));
  return builder_.repeat(builder_.byte_of(white), 0, kMaxSpace);
}

GrammarExpression MarkerGrammar::space(const std::optional<CallSpelling>& spelling,
                                       const std::string CallSpelling::*part) {
  return spelling ? builder_.text((*spelling).*part) : space();
}

GrammarExpression MarkerGrammar::text_until(std::string_view marker, const CharacterSet& not_first,
                                            std::string_view line) {
  for (const Until& known : untils_)
    if (known.marker == marker && known.line == line && known.not_first.ranges() == not_first.ranges())
      return known.text;
  const GrammarRule rule = builder_.declare_rule();
  builder_.define(rule, new_text_until(marker, not_first, line));
  untils_.push_back({std::string(marker), not_first, std::string(line), builder_.call(rule)});
  return untils_.back().text;
}

GrammarExpression MarkerGrammar::new_text_until(std::string_view marker, const CharacterSet& not_first,
                                                std::string_view line) {
  if (!has_special(marker) && line.empty()) return troupe::text_until(builder_, marker, not_first);
  return builder_.sequence(
      {text_without(builder_, {std::string(marker)}, not_first), builder_.text(line), exact(marker)});
}

GrammarExpression MarkerGrammar::free_text_until(std::string_view marker) {
  if (!has_special(marker)) return troupe::free_text_until(builder_, marker);
  return builder_.sequence({free_text_without(builder_, {std::string(marker)}), exact(marker)});
}

bool MarkerGrammar::has_special(std::string_view marker) const {
  const auto tokens = tokenizer_.encode_with_specials(marker);
  return std::any_of(tokens.begin(), tokens.end(),
                     [&](TokenId token) { return tokenizer_.is_special(token); });
}

}  // namespace troupe
