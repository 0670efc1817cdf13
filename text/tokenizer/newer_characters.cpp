// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/newer_characters.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <system_error>

#include "text/utf8.hpp"

namespace troupe {
namespace {

// scripts/unicode/make_newer_characters writes the rows.
constexpr auto kNewerCharacters = std::to_array<NewerCharacters>({
    {0x897, 0x897, 0x8D4},       {0xCF3, 0xCF3, 0xCD6},       {0xECE, 0xECE, 0xECC},
    {0x180E, 0x180E, 0x200B},    {0x1B4E, 0x1B4F, 0x1B5A},    {0x1B7F, 0x1B7F, 0x1B7E},
    {0x1C89, 0x1C89, 0x13F5},    {0x1C8A, 0x1C8A, 0x1C88},    {0x2427, 0x2429, 0x2426},
    {0x2FFC, 0x2FFF, 0x2FFB},    {0x31E4, 0x31E5, 0x2FFB},    {0x31EF, 0x31EF, 0x2FFB},
    {0xA7CB, 0xA7CC, 0xA7C9},    {0xA7CD, 0xA7CD, 0xA7CA},    {0xA7DA, 0xA7DA, 0xA7D8},
    {0xA7DB, 0xA7DB, 0xA7D9},    {0xA7DC, 0xA7DC, 0xA7D8},    {0x105C0, 0x105F3, 0x10600},
    {0x10D40, 0x10D49, 0x10D39}, {0x10D4A, 0x10D4D, 0x10D23}, {0x10D4E, 0x10D4E, 0x16B40},
    {0x10D4F, 0x10D4F, 0x10D23}, {0x10D50, 0x10D65, 0x10CB2}, {0x10D69, 0x10D69, 0x10D27},
    {0x10D6A, 0x10D6D, 0x10F46}, {0x10D6E, 0x10D6E, 0x10EAD}, {0x10D6F, 0x10D6F, 0x16B40},
    {0x10D70, 0x10D85, 0x10CF2}, {0x10D8E, 0x10D8F, 0x1D6C1}, {0x10EC2, 0x10EC4, 0x1EE00},
    {0x10EFC, 0x10EFC, 0x10EAC}, {0x10EFD, 0x10EFF, 0x10F46}, {0x1123F, 0x11240, 0x1122B},
    {0x11241, 0x11241, 0x1123E}, {0x11380, 0x11389, 0x11361}, {0x1138B, 0x1138B, 0x11361},
    {0x1138E, 0x1138E, 0x11361}, {0x11390, 0x113B5, 0x11361}, {0x113B7, 0x113B7, 0x11400},
    {0x113B8, 0x113BA, 0x11363}, {0x113BB, 0x113C0, 0x11340}, {0x113C2, 0x113C2, 0x11363},
    {0x113C5, 0x113C5, 0x11363}, {0x113C7, 0x113CA, 0x11363}, {0x113CC, 0x113CD, 0x11363},
    {0x113CE, 0x113CE, 0x11374}, {0x113CF, 0x113CF, 0x1134D}, {0x113D0, 0x113D0, 0x11374},
    {0x113D1, 0x113D1, 0x11400}, {0x113D2, 0x113D2, 0x11374}, {0x113D3, 0x113D3, 0x11400},
    {0x113D4, 0x113D5, 0x1144B}, {0x113D7, 0x113D8, 0x1144B}, {0x113E1, 0x113E2, 0x11442},
    {0x116D0, 0x116E3, 0x116C9}, {0x1171E, 0x1171E, 0x11720}, {0x11B00, 0x11B09, 0x11AA2},
    {0x11BC0, 0x11BE0, 0x11C00}, {0x11BE1, 0x11BE1, 0x11C41}, {0x11BF0, 0x11BF9, 0x11C50},
    {0x11F00, 0x11F01, 0x11EF4}, {0x11F02, 0x11F02, 0x11EF2}, {0x11F03, 0x11F03, 0x11EF6},
    {0x11F04, 0x11F10, 0x11EF2}, {0x11F12, 0x11F33, 0x11EF2}, {0x11F34, 0x11F35, 0x11EF6},
    {0x11F36, 0x11F3A, 0x11EF4}, {0x11F3E, 0x11F3F, 0x11EF6}, {0x11F40, 0x11F40, 0x11EF4},
    {0x11F41, 0x11F41, 0x1193D}, {0x11F42, 0x11F42, 0x11D97}, {0x11F43, 0x11F4F, 0x11EF8},
    {0x11F50, 0x11F59, 0x11DA9}, {0x11F5A, 0x11F5A, 0x11D97}, {0x1342F, 0x1342F, 0x1342E},
    {0x13439, 0x1343F, 0x13438}, {0x13440, 0x13440, 0x11D97}, {0x13441, 0x13446, 0x1342E},
    {0x13447, 0x13455, 0x11D97}, {0x13460, 0x143FA, 0x1342E}, {0x16100, 0x1611D, 0x16800},
    {0x1611E, 0x16129, 0x16F4F}, {0x1612A, 0x1612C, 0x16F51}, {0x1612D, 0x1612E, 0x16F4F},
    {0x1612F, 0x1612F, 0x16AF0}, {0x16130, 0x16139, 0x16A60}, {0x16D40, 0x16D42, 0x16B43},
    {0x16D43, 0x16D6A, 0x16B8F}, {0x16D6B, 0x16D6C, 0x16B43}, {0x16D6D, 0x16D6F, 0x16E97},
    {0x16D70, 0x16D79, 0x16B59}, {0x18CFF, 0x18CFF, 0x18D00}, {0x1B132, 0x1B132, 0x1B11F},
    {0x1B155, 0x1B155, 0x1B164}, {0x1CC00, 0x1CCEF, 0x1CF50}, {0x1CCF0, 0x1CCF9, 0x1D7CE},
    {0x1CD00, 0x1CEB3, 0x1CF50}, {0x1D2C0, 0x1D2D3, 0x1D2E0}, {0x1DF25, 0x1DF2A, 0x1DF1E},
    {0x1E030, 0x1E06D, 0x1E137}, {0x1E08F, 0x1E08F, 0x1E02A}, {0x1E4D0, 0x1E4EA, 0x1E2EB},
    {0x1E4EB, 0x1E4EB, 0x1E13D}, {0x1E4EC, 0x1E4EF, 0x1E2EF}, {0x1E4F0, 0x1E4F9, 0x1E2F9},
    {0x1E5D0, 0x1E5ED, 0x1E800}, {0x1E5EE, 0x1E5EF, 0x1E8D0}, {0x1E5F0, 0x1E5F0, 0x1E800},
    {0x1E5F1, 0x1E5FA, 0x1E2F9}, {0x1E5FF, 0x1E5FF, 0x1E95E}, {0x1F6DC, 0x1F6DC, 0x1F6DD},
    {0x1F774, 0x1F776, 0x1F773}, {0x1F77B, 0x1F77F, 0x1F780}, {0x1F7D9, 0x1F7D9, 0x1F7D8},
    {0x1F8B2, 0x1F8BB, 0x1F8B1}, {0x1F8C0, 0x1F8C1, 0x1F8B1}, {0x1FA75, 0x1FA77, 0x1FA74},
    {0x1FA87, 0x1FA89, 0x1FA86}, {0x1FA8F, 0x1FA8F, 0x1FA90}, {0x1FAAD, 0x1FAAF, 0x1FAAC},
    {0x1FABB, 0x1FABF, 0x1FABA}, {0x1FAC6, 0x1FAC6, 0x1FAC5}, {0x1FACE, 0x1FACF, 0x1FAD0},
    {0x1FADA, 0x1FADC, 0x1FAD9}, {0x1FADF, 0x1FADF, 0x1FAE0}, {0x1FAE8, 0x1FAE9, 0x1FAE7},
    {0x1FAF7, 0x1FAF8, 0x1FAF6}, {0x1FBCB, 0x1FBEF, 0x1FBCA}, {0x2B739, 0x2B739, 0x2B738},
    {0x2EBF0, 0x2EE5D, 0x2EBE0}, {0x31350, 0x323AF, 0x3134A},
});

// The shortest UTF-8 of a newer character has three bytes, which begin with this.
constexpr std::uint8_t kFirstLead = 0xE0;
constexpr std::size_t kNumLeads = 0x100 - kFirstLead;
constexpr std::size_t kNumTrails = 64;
// Bytes that are looked at before it is asked whether to go on.
constexpr std::size_t kPortionBytes = 64 * 1024;

static_assert(kNewerCharacters.front().first >= 0x800);

constexpr std::size_t block_of(std::uint8_t lead, std::uint8_t trail) {
  return (lead - kFirstLead) * kNumTrails + (trail & 0x3Fu);
}

constexpr std::size_t block_of(char32_t code_point) {
  if (code_point < 0x10000)
    return block_of(static_cast<std::uint8_t>(0xE0 | (code_point >> 12)),
                    static_cast<std::uint8_t>(code_point >> 6));
  return block_of(static_cast<std::uint8_t>(0xF0 | (code_point >> 18)),
                  static_cast<std::uint8_t>(code_point >> 12));
}

// True where characters with these two first bytes may be newer ones.
constexpr auto kHasNewer = [] {
  std::array<bool, kNumLeads * kNumTrails> has{};
  for (const NewerCharacters& range : kNewerCharacters)
    for (std::size_t block = block_of(range.first); block <= block_of(range.last); ++block) has[block] = true;
  return has;
}();

std::optional<char32_t> stand_in_of(char32_t code_point) {
  const auto* behind =
      std::upper_bound(kNewerCharacters.begin(), kNewerCharacters.end(), code_point,
                       [](char32_t c, const NewerCharacters& range) { return c < range.first; });
  if (behind == kNewerCharacters.begin() || code_point > std::prev(behind)->last) return std::nullopt;
  return std::prev(behind)->stand_in;
}

bool is_ascii(const char* eight_bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, eight_bytes, sizeof word);
  return (word & 0x8080808080808080u) == 0;
}

// Calls take(offset, stand-in) for each newer character that begins in [begin, end).
template <class Take>
void for_each_newer(std::string_view text, std::size_t begin, std::size_t end, Take take) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  for (std::size_t at = begin; at < end; ++at) {
    while (at + sizeof(std::uint64_t) <= end && is_ascii(text.data() + at)) at += sizeof(std::uint64_t);
    if (at + 1 >= text.size()) return;
    if (at >= end || byte(at) < kFirstLead || !kHasNewer[block_of(byte(at), byte(at + 1))]) continue;
    const Utf8Character character = next_utf8_character(text.substr(at));
    if (const auto stand_in = stand_in_of(character.code_point)) take(at, *stand_in);
  }
}

bool is_stand_in(char32_t code_point) {
  return std::any_of(kNewerCharacters.begin(), kNewerCharacters.end(),
                     [=](const NewerCharacters& range) { return range.stand_in == code_point; });
}

// The code point of an escape such as "\\x{1D2CA}" that the text begins with.
std::optional<char32_t> escaped_code_point(std::string_view text) {
  if (!text.starts_with("\\x{")) return std::nullopt;
  text.remove_prefix(3);
  std::uint32_t code_point = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), code_point, 16);
  if (error != std::errc() || end == text.data() + text.size() || *end != '}') return std::nullopt;
  return code_point;
}

}  // namespace

bool names_newer_characters(std::string_view expression) {
  while (!expression.empty()) {
    const Utf8Character literal = next_utf8_character(expression);
    const char32_t code_point = escaped_code_point(expression).value_or(literal.code_point);
    if (stand_in_of(code_point) || is_stand_in(code_point)) return true;
    expression.remove_prefix(literal.num_bytes);
  }
  return false;
}

std::span<const NewerCharacters> newer_characters() { return kNewerCharacters; }

std::string_view with_stand_ins(std::string_view text, std::string& copy, const EncodingBudget& budget) {
  bool is_copied = false;
  std::string bytes;
  for (std::size_t begin = 0; begin < text.size(); begin += kPortionBytes) {
    if (begin > 0) budget.ask();
    for_each_newer(text, begin, std::min(text.size(), begin + kPortionBytes),
                   [&](std::size_t at, char32_t stand_in) {
                     if (!is_copied) copy = text;
                     is_copied = true;
                     bytes.clear();
                     append_utf8(bytes, stand_in);
                     copy.replace(at, bytes.size(), bytes);
                   });
  }
  return is_copied ? std::string_view(copy) : text;
}

}  // namespace troupe
