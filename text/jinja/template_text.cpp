// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/template_text.hpp"

#include <utf8proc.h>

#include <algorithm>

#include "text/utf8.hpp"

namespace troupe::jinja {
namespace {

bool is_continuation(char byte) { return (byte & 0xC0) == 0x80; }

std::size_t character_size(std::string_view text, std::size_t begin) {
  return next_utf8_character(text.substr(begin)).num_bytes;
}

std::size_t character_begin(std::string_view text, std::size_t end) {
  std::size_t begin = end - 1;
  while (begin > 0 && is_continuation(text[begin])) --begin;
  return begin;
}

char32_t code_point_at(std::string_view text, std::size_t begin) {
  return next_utf8_character(text.substr(begin)).code_point;
}

bool is_space_at(std::string_view text, std::size_t begin) {
  return is_unicode_space(code_point_at(text, begin));
}

// Calls map(code_point, index) for every character.
template <class Map>
MarkedString mapped(const MarkedString& string, Map map) {
  MarkedString result;
  const std::string_view text = string.text();
  std::size_t index = 0;
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Character character = next_utf8_character(text.substr(i));
    std::string changed;
    append_utf8(changed, map(character.code_point, index++));
    result.append(changed, string.is_input(i));
    i += character.num_bytes;
  }
  return result;
}

char32_t to_upper(char32_t c) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}
char32_t to_lower(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

}  // namespace

std::size_t num_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return !is_continuation(byte); }));
}

std::vector<std::size_t> character_offsets(std::string_view text) {
  std::vector<std::size_t> offsets;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!is_continuation(text[i])) offsets.push_back(i);
  }
  offsets.push_back(text.size());
  return offsets;
}

MarkedString stripped(const MarkedString& string, const std::optional<std::string>& characters, Ends ends) {
  const std::string_view text = string.text();
  const auto goes = [&](std::size_t begin, std::size_t end) {
    if (!characters) return is_space_at(text, begin);
    return characters->find(text.substr(begin, end - begin)) != std::string::npos;
  };
  std::size_t begin = 0;
  std::size_t end = text.size();
  while (ends != Ends::kRight && begin < end) {
    const std::size_t size = character_size(text, begin);
    if (!goes(begin, begin + size)) break;
    begin += size;
  }
  while (ends != Ends::kLeft && end > begin) {
    const std::size_t last = character_begin(text, end);
    if (!goes(last, end)) break;
    end = last;
  }
  return string.substring(begin, end);
}

std::vector<MarkedString> split(const MarkedString& string, const std::string& separator,
                                std::int64_t max_splits) {
  std::vector<MarkedString> parts;
  std::size_t begin = 0;
  while (max_splits < 0 || static_cast<std::int64_t>(parts.size()) < max_splits) {
    const std::size_t end = string.text().find(separator, begin);
    if (end == std::string::npos) break;
    parts.push_back(string.substring(begin, end));
    begin = end + separator.size();
  }
  parts.push_back(string.substring(begin, string.size()));
  return parts;
}

std::vector<MarkedString> split_from_right(const MarkedString& string, const std::string& separator,
                                           std::int64_t max_splits) {
  std::vector<MarkedString> parts;
  std::size_t end = string.size();
  while (max_splits < 0 || static_cast<std::int64_t>(parts.size()) < max_splits) {
    if (end < separator.size()) break;
    const std::size_t begin = string.text().rfind(separator, end - separator.size());
    if (begin == std::string::npos) break;
    parts.push_back(string.substring(begin + separator.size(), end));
    end = begin;
  }
  parts.push_back(string.substring(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<MarkedString> split_at_space(const MarkedString& string, std::int64_t max_splits) {
  const std::string_view text = string.text();
  std::vector<MarkedString> parts;
  std::size_t i = 0;
  while (true) {
    while (i < text.size() && is_space_at(text, i)) i += character_size(text, i);
    if (i == text.size()) return parts;
    const std::size_t begin = i;
    if (max_splits >= 0 && static_cast<std::int64_t>(parts.size()) == max_splits) {
      parts.push_back(string.substring(begin, text.size()));
      return parts;
    }
    while (i < text.size() && !is_space_at(text, i)) i += character_size(text, i);
    parts.push_back(string.substring(begin, i));
  }
}

std::vector<MarkedString> split_lines(const MarkedString& string, bool keeps_ends) {
  const std::string_view text = string.text();
  const auto is_line_end = [&](std::size_t i) {
    const char32_t c = code_point_at(text, i);
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
  };
  std::vector<MarkedString> lines;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t size = character_size(text, i);
    if (!is_line_end(i)) {
      i += size;
      continue;
    }
    const bool is_pair = text.substr(i, 2) == "\r\n";
    const std::size_t end = i + (is_pair ? 2 : size);
    lines.push_back(string.substring(begin, keeps_ends ? end : i));
    begin = i = end;
  }
  if (begin < text.size()) lines.push_back(string.substring(begin, text.size()));
  return lines;
}

MarkedString replaced(const MarkedString& string, const std::string& from, const MarkedString& to,
                      std::int64_t max_count) {
  MarkedString result;
  std::size_t begin = 0;
  for (std::int64_t count = 0; max_count < 0 || count < max_count; ++count) {
    const std::size_t end = string.text().find(from, begin);
    if (end == std::string::npos) break;
    result.append(string, begin, end);
    result.append(to);
    begin = end + from.size();
  }
  result.append(string, begin, string.size());
  return result;
}

MarkedString upper(const MarkedString& string) {
  return mapped(string, [](char32_t c, std::size_t) { return to_upper(c); });
}

MarkedString lower(const MarkedString& string) {
  return mapped(string, [](char32_t c, std::size_t) { return to_lower(c); });
}

MarkedString capitalized(const MarkedString& string) {
  return mapped(string, [](char32_t c, std::size_t index) { return index == 0 ? to_upper(c) : to_lower(c); });
}

// As Jinja: after white space and opening or dashing characters.
MarkedString titled(const MarkedString& string) {
  bool begins = true;
  return mapped(string, [&](char32_t c, std::size_t) {
    const char32_t result = begins ? to_upper(c) : to_lower(c);
    begins = is_unicode_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    return result;
  });
}

bool consists_of(std::string_view text, CharacterClass wanted) {
  bool has_case = false;
  for (std::size_t i = 0; i < text.size(); i += character_size(text, i)) {
    const char32_t c = code_point_at(text, i);
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
    const bool is_alpha = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
    const bool is_digit = category == UTF8PROC_CATEGORY_ND;
    switch (wanted) {
      case CharacterClass::kAlpha:
        if (!is_alpha) return false;
        break;
      case CharacterClass::kDigit:
        if (!is_digit) return false;
        break;
      case CharacterClass::kAlnum:
        if (!is_alpha && !is_digit) return false;
        break;
      case CharacterClass::kSpace:
        if (!is_unicode_space(c)) return false;
        break;
      case CharacterClass::kUpper:
        if (category == UTF8PROC_CATEGORY_LL) return false;
        has_case = has_case || category == UTF8PROC_CATEGORY_LU;
        break;
      case CharacterClass::kLower:
        if (category == UTF8PROC_CATEGORY_LU) return false;
        has_case = has_case || category == UTF8PROC_CATEGORY_LL;
        break;
    }
  }
  const bool asks_case = wanted == CharacterClass::kUpper || wanted == CharacterClass::kLower;
  return asks_case ? has_case : !text.empty();
}

MarkedString indented(const MarkedString& string, const MarkedString& prefix, bool indents_first,
                      bool indents_blank) {
  // Jinja adds a line end, so that a text that ends with one keeps it.
  MarkedString source = string;
  source.append("\n", false);
  const std::vector<MarkedString> lines = split_lines(source, false);
  MarkedString result;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) result.append("\n", false);
    const bool indents = i == 0 ? indents_first : (indents_blank || !lines[i].empty());
    if (indents) result.append(prefix);
    result.append(lines[i]);
  }
  return result;
}

}  // namespace troupe::jinja
