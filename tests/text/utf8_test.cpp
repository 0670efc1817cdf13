// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>

namespace troupe {
namespace {

std::string assembled(std::string_view bytes) {
  std::string out;
  Utf8Assembler assembler;
  assembler.push(bytes, out);
  assembler.finish(out);
  return out;
}

const std::string kBad(kReplacementCharacter);

}  // namespace

TEST_CASE("utf8: valid text stays as it is") {
  for (const char* text : {"", "a", "\u00e9", "\u20ac", "\U0001F600", "\U0010FFFF", "a\u0300b"}) {
    CHECK(assembled(text) == text);
    CHECK(valid_utf8_prefix(text) == std::string(text).size());
  }
}

TEST_CASE("utf8: each maximal part of a broken character becomes one U+FFFD") {
  CHECK(assembled("\x80") == kBad);
  CHECK(assembled("a\xE2\x82z") == "a" + kBad + "z");
  CHECK(assembled("\xC0\xAF") == kBad + kBad);             // overlong
  CHECK(assembled("\xED\xA0\x80") == kBad + kBad + kBad);  // surrogate
  CHECK(assembled("\xF4\x90\x80\x80") == kBad + kBad + kBad + kBad);
  CHECK(assembled("\xF0\x9F\x98") == kBad);
  CHECK(assembled("\xF0\x9F\xF0\x9F\x98\x80") == kBad + "\U0001F600");
}

TEST_CASE("utf8: the assembler says the same however the bytes are cut") {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    const std::string_view alphabet("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xED\xA0\xFF", 14);
    for (int i = 0; i < 12; ++i) bytes += alphabet[random() % alphabet.size()];
    Utf8Assembler assembler;
    std::string joined;
    for (std::size_t i = 0; i < bytes.size();) {
      const std::size_t length = 1 + random() % 3;
      std::string piece;
      assembler.push(std::string_view(bytes).substr(i, length), piece);
      CHECK(valid_utf8_prefix(piece) == piece.size());
      joined += piece;
      i += length;
    }
    assembler.finish(joined);
    CHECK(joined == assembled(bytes));
  }
}

TEST_CASE("utf8: code points survive being written and read") {
  for (char32_t code_point = 1; code_point < 0x110000; code_point += 37) {
    if (code_point >= 0xD800 && code_point < 0xE000) continue;
    std::string text;
    append_utf8(text, code_point);
    const Utf8Character character = next_utf8_character(text);
    REQUIRE(character.kind == Utf8Character::Kind::kValid);
    REQUIRE(character.code_point == code_point);
    REQUIRE(character.num_bytes == text.size());
  }
}

}  // namespace troupe
