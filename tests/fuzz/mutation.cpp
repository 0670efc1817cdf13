// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/mutation.hpp"

#include <algorithm>
#include <array>

namespace troupe::fuzz {
namespace {

// Values and signs at which readers of numbers, texts and structures turn.
constexpr std::array<std::string_view, 24> kPieces = {"0",
                                                      "-1",
                                                      "1e999",
                                                      "18446744073709551616",
                                                      "-9223372036854775809",
                                                      "0.5",
                                                      "null",
                                                      "true",
                                                      "\"",
                                                      "\\",
                                                      "\\u0000",
                                                      "\\ud800",
                                                      "{",
                                                      "}",
                                                      "[",
                                                      "]",
                                                      "{{",
                                                      "}}",
                                                      "\xC3\xA9",
                                                      "\xF0\x9F\x92",
                                                      "\r\n",
                                                      "\xFF",
                                                      ",",
                                                      ":"};

struct Span {
  std::size_t begin = 0, size = 0;
};

Span piece_of(std::string_view bytes, MutationRandom& random) {
  if (bytes.empty()) return {};
  const std::size_t begin = random.below(bytes.size());
  return {begin, 1 + random.below(std::min<std::size_t>(bytes.size() - begin, 64))};
}

void replace_byte(std::string& bytes, MutationRandom& random) {
  if (bytes.empty()) return;
  char& byte = bytes[random.below(bytes.size())];
  if (random.below(2) == 0) {
    byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1U << random.below(8)));
  } else {
    byte = static_cast<char>(random.below(256));
  }
}

// A run of digits becomes a number at a limit.
void replace_number(std::string& bytes, MutationRandom& random) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t begin =
      bytes.empty() ? std::string::npos : bytes.find_first_of(kDigits, random.below(bytes.size()));
  if (begin == std::string::npos) return;
  const std::size_t end = std::min(bytes.find_first_not_of(kDigits, begin), bytes.size());
  bytes.replace(begin, end - begin, kPieces[random.below(6)]);
}

void change(std::string& bytes, std::string_view other, MutationRandom& random) {
  const Span piece = piece_of(bytes, random);
  const std::size_t place = random.below(bytes.size() + 1);
  switch (random.below(8)) {
    case 0:
    case 1: return replace_byte(bytes, random);
    case 2: return replace_number(bytes, random);
    case 3: bytes.erase(piece.begin, piece.size); return;
    case 4: bytes.insert(place, bytes.substr(piece.begin, piece.size)); return;
    case 5: bytes.insert(place, kPieces[random.below(kPieces.size())]); return;
    case 6: {
      const Span taken = piece_of(other, random);
      bytes.insert(place, other.substr(taken.begin, taken.size));
      return;
    }
    default: {
      const std::string moved = bytes.substr(piece.begin, piece.size);
      bytes.erase(piece.begin, piece.size);
      bytes.insert(random.below(bytes.size() + 1), moved);
    }
  }
}

}  // namespace

std::size_t MutationRandom::below(std::size_t bound) {
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return static_cast<std::size_t>((state_ * 2685821657736338717ULL) >> 16) % bound;
}

std::string mutated(std::string bytes, std::string_view other, MutationRandom& random) {
  const std::size_t num_changes = 1 + random.below(8);
  for (std::size_t i = 0; i < num_changes; ++i) change(bytes, other, random);
  if (bytes.size() > kMaxMutatedBytes) bytes.resize(kMaxMutatedBytes);
  return bytes;
}

}  // namespace troupe::fuzz
