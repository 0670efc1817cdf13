// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.hpp"

#include <algorithm>
#include <cstring>

namespace troupe {
namespace {

// The range the second byte must lie in (Unicode table 3-7); the first decides.
struct SecondByteRange {
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
};

SecondByteRange second_byte_range(std::uint8_t lead) {
  switch (lead) {
    case 0xE0: return {0xA0, 0xBF};
    case 0xED: return {0x80, 0x9F};
    case 0xF0: return {0x90, 0xBF};
    case 0xF4: return {0x80, 0x8F};
    default: return {};
  }
}

std::size_t sequence_length(std::uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

}  // namespace

Utf8Character next_utf8_character(std::string_view text) {
  using Kind = Utf8Character::Kind;
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::size_t length = sequence_length(byte(0));
  if (length == 0) return {Kind::kInvalid, 1, 0};
  if (length == 1) return {Kind::kValid, 1, byte(0)};
  char32_t code_point = byte(0) & (0xFFu >> (length + 1));
  SecondByteRange range = second_byte_range(byte(0));
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Kind::kIncomplete, i, 0};
    if (byte(i) < range.low || byte(i) > range.high) return {Kind::kInvalid, i, 0};
    code_point = (code_point << 6) | (byte(i) & 0x3Fu);
    range = {};
  }
  return {Kind::kValid, length, code_point};
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t position = 0;
  while (position < text.size()) {
    // Eight ASCII characters at once: most text is.
    std::uint64_t word = 0;
    if (text.size() - position >= sizeof word) {
      std::memcpy(&word, text.data() + position, sizeof word);
      if ((word & 0x8080808080808080u) == 0) {
        position += sizeof word;
        continue;
      }
    }
    const Utf8Character character = next_utf8_character(text.substr(position));
    if (character.kind != Utf8Character::Kind::kValid) break;
    position += character.num_bytes;
  }
  return position;
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

std::u32string characters_of(std::string_view text) {
  std::u32string characters;
  while (!text.empty()) {
    const Utf8Character next = next_utf8_character(text);
    characters += next.code_point;
    text.remove_prefix(next.num_bytes);
  }
  return characters;
}

bool is_unicode_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

void Utf8Assembler::push(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!pending_.empty()) {
    joined = std::move(pending_);
    pending_.clear();
    joined += bytes;
    bytes = joined;
  }
  while (!bytes.empty()) {
    const std::size_t valid = valid_utf8_prefix(bytes);
    out += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) return;
    const Utf8Character character = next_utf8_character(bytes);
    if (character.kind == Utf8Character::Kind::kIncomplete) {
      pending_ = bytes;
      return;
    }
    out += kReplacementCharacter;
    bytes.remove_prefix(character.num_bytes);
  }
}

void Utf8Assembler::finish(std::string& out) {
  if (!pending_.empty()) out += kReplacementCharacter;
  pending_.clear();
}

}  // namespace troupe
