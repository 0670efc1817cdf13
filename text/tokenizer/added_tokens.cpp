// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/added_tokens.hpp"

#include <utf8proc.h>

#include <algorithm>

#include "text/utf8.hpp"

namespace troupe {
namespace {

// What a regular expression calls \w.
bool is_word_character(char32_t code_point) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_PC: return true;
    default: return false;
  }
}

// The character before `end`, which is the border of one. Zero at the beginning.
Utf8Character character_before(std::string_view text, std::size_t end) {
  for (std::size_t length = 1; length <= 4 && length <= end; ++length) {
    const Utf8Character character = next_utf8_character(text.substr(end - length, length));
    if (character.kind == Utf8Character::Kind::kValid && character.num_bytes == length) {
      return character;
    }
  }
  return {};
}

bool is_word_at(std::string_view text, std::size_t begin) {
  return begin < text.size() && is_word_character(next_utf8_character(text.substr(begin)).code_point);
}

std::size_t skip_space_left(std::string_view text, std::size_t from, std::size_t begin) {
  while (begin > from) {
    const Utf8Character character = character_before(text, begin);
    if (character.num_bytes == 0 || begin - character.num_bytes < from ||
        !is_unicode_space(character.code_point)) {
      break;
    }
    begin -= character.num_bytes;
  }
  return begin;
}

std::size_t skip_space_right(std::string_view text, std::size_t end) {
  while (end < text.size()) {
    const Utf8Character character = next_utf8_character(text.substr(end));
    if (character.kind != Utf8Character::Kind::kValid || !is_unicode_space(character.code_point)) {
      break;
    }
    end += character.num_bytes;
  }
  return end;
}

bool is_inside(TextRange range, std::span<const TextRange> trusted) {
  const auto behind =
      std::upper_bound(trusted.begin(), trusted.end(), range.begin,
                       [](std::size_t begin, const TextRange& candidate) { return begin < candidate.begin; });
  return behind != trusted.begin() && range.end <= std::prev(behind)->end;
}

}  // namespace

bool AddedToken::needs_trust() const {
  constexpr std::string_view kFullWidthBar = "\xEF\xBD\x9C";
  const std::string_view text = content;
  const auto is_fenced = [&](std::string_view bar) {
    return text.size() > 2 + 2 * bar.size() && text.starts_with('<') && text.ends_with('>') &&
           text.substr(1).starts_with(bar) && text.substr(0, text.size() - 1).ends_with(bar);
  };
  return is_special || is_fenced("|") || is_fenced(kFullWidthBar);
}

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)), nodes_(1) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) add(i);
}

std::optional<AddedTokenMatch> AddedTokenMatcher::find(std::string_view text, std::size_t from,
                                                       std::span<const TextRange> trusted) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!first_bytes_[static_cast<std::uint8_t>(text[begin])]) continue;
    const AddedToken* token = longest_at(text, begin, trusted);
    if (token == nullptr) continue;
    TextRange range{begin, begin + token->content.size()};
    if (token->strips_left) range.begin = skip_space_left(text, from, range.begin);
    if (token->strips_right) range.end = skip_space_right(text, range.end);
    return AddedTokenMatch{range, token->token};
  }
  return std::nullopt;
}

void AddedTokenMatcher::add(std::size_t index) {
  const std::string& content = tokens_[index].content;
  first_bytes_.set(static_cast<std::uint8_t>(content[0]));
  std::uint32_t node = 0;
  for (const char byte : content) {
    std::optional<std::uint32_t> next = child(node, byte);
    if (!next) {
      next = static_cast<std::uint32_t>(nodes_.size());
      nodes_.emplace_back();
      nodes_[node].children.emplace_back(byte, *next);
    }
    node = *next;
  }
  nodes_[node].token = static_cast<std::int32_t>(index);
}

std::optional<std::uint32_t> AddedTokenMatcher::child(std::uint32_t node, char byte) const {
  for (const auto& [edge, next] : nodes_[node].children) {
    if (edge == byte) return next;
  }
  return std::nullopt;
}

const AddedToken* AddedTokenMatcher::longest_at(std::string_view text, std::size_t begin,
                                                std::span<const TextRange> trusted) const {
  const AddedToken* longest = nullptr;
  std::uint32_t node = 0;
  for (std::size_t end = begin; end < text.size();) {
    const std::optional<std::uint32_t> next = child(node, text[end]);
    if (!next) break;
    node = *next;
    ++end;
    if (nodes_[node].token < 0) continue;
    const AddedToken& token = tokens_[static_cast<std::size_t>(nodes_[node].token)];
    if (token.needs_trust() && !is_inside({begin, end}, trusted)) continue;
    if (token.is_single_word &&
        (is_word_character(character_before(text, begin).code_point) || is_word_at(text, end))) {
      continue;
    }
    longest = &token;
  }
  return longest;
}

}  // namespace troupe
