// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/character_set.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "text/utf8.hpp"

namespace troupe {
namespace {

constexpr char32_t kLastCharacter = 0x10FFFF;
constexpr char32_t kBelowSurrogates = 0xD7FF, kAboveSurrogates = 0xE000;

// Sorts, joins what touches, and leaves the surrogates out.
std::vector<CharacterRange> normalized(std::vector<CharacterRange> ranges) {
  std::vector<CharacterRange> parts;
  for (const CharacterRange& range : ranges) {
    if (range.first <= kBelowSurrogates)
      parts.push_back({range.first, std::min(range.last, kBelowSurrogates)});
    if (range.last >= kAboveSurrogates)
      parts.push_back({std::max(range.first, kAboveSurrogates), std::min(range.last, kLastCharacter)});
  }
  std::erase_if(parts, [](const CharacterRange& range) { return range.first > range.last; });
  std::sort(parts.begin(), parts.end(),
            [](const CharacterRange& a, const CharacterRange& b) { return a.first < b.first; });
  std::vector<CharacterRange> joined;
  for (const CharacterRange& range : parts) {
    if (!joined.empty() && range.first <= joined.back().last + 1)
      joined.back().last = std::max(joined.back().last, range.last);
    else
      joined.push_back(range);
  }
  return joined;
}

std::string utf8_of(char32_t character) {
  std::string text;
  append_utf8(text, character);
  return text;
}

std::uint8_t byte_at(const std::string& text, std::size_t i) { return static_cast<std::uint8_t>(text[i]); }

// Characters of one encoded length. They are cut until all bytes but the first that differs run freely.
void add_sequences(CharacterRange range, std::vector<Utf8Sequence>& out) {
  const std::string first = utf8_of(range.first), last = utf8_of(range.last);
  for (std::size_t num_free = 1; num_free < first.size(); ++num_free) {
    const char32_t free_bits = (char32_t{1} << (6 * num_free)) - 1;
    if ((range.first & ~free_bits) == (range.last & ~free_bits)) continue;
    if ((range.first & free_bits) != 0) {
      add_sequences({range.first, range.first | free_bits}, out);
      return add_sequences({(range.first | free_bits) + 1, range.last}, out);
    }
    if ((range.last & free_bits) != free_bits) {
      add_sequences({range.first, (range.last & ~free_bits) - 1}, out);
      return add_sequences({range.last & ~free_bits, range.last}, out);
    }
  }
  Utf8Sequence sequence;
  for (std::size_t i = 0; i < first.size(); ++i) sequence.push_back({byte_at(first, i), byte_at(last, i)});
  out.push_back(std::move(sequence));
}

}  // namespace

CharacterSet::CharacterSet(std::vector<CharacterRange> ranges) : ranges_(normalized(std::move(ranges))) {}

CharacterSet CharacterSet::complement() const {
  std::vector<CharacterRange> gaps;
  char32_t next = 0;
  for (const CharacterRange& range : ranges_) {
    if (range.first > next) gaps.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCharacter) gaps.push_back({next, kLastCharacter});
  return CharacterSet(std::move(gaps));
}

CharacterSet CharacterSet::united(const CharacterSet& other) const {
  std::vector<CharacterRange> both = ranges_;
  both.insert(both.end(), other.ranges_.begin(), other.ranges_.end());
  return CharacterSet(std::move(both));
}

CharacterSet CharacterSet::without(const CharacterSet& other) const {
  return complement().united(other).complement();
}

bool CharacterSet::contains(char32_t character) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const CharacterRange& range) {
    return range.first <= character && character <= range.last;
  });
}

std::vector<Utf8Sequence> utf8_sequences(const CharacterSet& set) {
  static constexpr std::array<CharacterRange, 4> kLengths{
      {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xFFFF}, {0x10000, kLastCharacter}}};
  std::vector<Utf8Sequence> sequences;
  for (const CharacterRange& range : set.ranges())
    for (const CharacterRange& length : kLengths) {
      const CharacterRange part{std::max(range.first, length.first), std::min(range.last, length.last)};
      if (part.first <= part.last) add_sequences(part, sequences);
    }
  return sequences;
}

GrammarExpression one_character(GrammarBuilder& builder, const CharacterSet& set) {
  ByteSet single;
  std::vector<GrammarExpression> choices;
  for (const Utf8Sequence& sequence : utf8_sequences(set)) {
    std::vector<GrammarExpression> bytes;
    for (const ByteRange range : sequence) {
      if (sequence.size() > 1) bytes.push_back(builder.byte_between(range.first, range.last));
      for (std::size_t byte = range.first; sequence.size() == 1 && byte <= range.last; ++byte)
        single.set(byte);
    }
    if (sequence.size() > 1) choices.push_back(builder.sequence(std::move(bytes)));
  }
  if (single.any()) choices.push_back(builder.byte_of(single));
  return builder.any_of(std::move(choices));
}

CharacterSet plain_json_characters() {
  return CharacterSet({{0, 0x1F}, {U'"', U'"'}, {U'\\', U'\\'}}).complement();
}

}  // namespace troupe
