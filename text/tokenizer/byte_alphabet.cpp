// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/byte_alphabet.hpp"

#include <array>
#include <cstdint>

#include "text/utf8.hpp"

namespace troupe {
namespace {

// Printable Latin-1 stands for itself, the other 68 bytes for U+0100 and up.
constexpr bool is_printable(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr unsigned kNumOthers = 68;

struct Alphabet {
  std::array<char32_t, 256> character_of{};
  std::array<std::int16_t, 256 + kNumOthers> byte_of{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.byte_of.fill(-1);
  char32_t next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char32_t character = is_printable(byte) ? byte : next++;
    alphabet.character_of[byte] = character;
    alphabet.byte_of[character] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::optional<std::string> bytes_from_alphabet(std::string_view spelled) {
  std::string bytes;
  while (!spelled.empty()) {
    const Utf8Character character = next_utf8_character(spelled);
    if (character.kind != Utf8Character::Kind::kValid || character.code_point >= kAlphabet.byte_of.size() ||
        kAlphabet.byte_of[character.code_point] < 0) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(kAlphabet.byte_of[character.code_point]));
    spelled.remove_prefix(character.num_bytes);
  }
  return bytes;
}

std::string bytes_to_alphabet(std::string_view bytes) {
  std::string spelled;
  for (const char byte : bytes) {
    append_utf8(spelled, kAlphabet.character_of[static_cast<std::uint8_t>(byte)]);
  }
  return spelled;
}

}  // namespace troupe
