// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/normalizer/unicode_form.hpp"

#include <doctest/doctest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "text/utf8.hpp"

namespace troupe {
namespace {

constexpr std::size_t kAny = EncodingBudget::kUnlimited;

std::string form_of(const std::string& text, UnicodeForm form) {
  EncodingBudget budget;
  return normal_form(text, form, kAny, budget);
}

std::string by_utf8proc(const std::string& text, UnicodeForm form) {
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> mapped(
      [&] {
        const auto* c_text = reinterpret_cast<const utf8proc_uint8_t*>(text.c_str());
        switch (form) {
          case UnicodeForm::kNfc: return utf8proc_NFC(c_text);
          case UnicodeForm::kNfd: return utf8proc_NFD(c_text);
          case UnicodeForm::kNfkc: return utf8proc_NFKC(c_text);
          case UnicodeForm::kNfkd: break;
        }
        return utf8proc_NFKD(c_text);
      }(),
      &std::free);
  return reinterpret_cast<const char*>(mapped.get());
}

std::string random_text(std::mt19937& random) {
  // Beginnings of blocks with marks, compositions and compatibility characters.
  static const std::vector<char32_t> kBlocks = {'a',    0xC0,   0x300,  0x340,  0x591,   0xF71,
                                                0x1100, 0x1161, 0x11A8, 0x1E00, 0x1F80,  0x2460,
                                                0xAC00, 0xFB00, 0xFDFA, 0xFF21, 0x1D15E, 0x1D400};
  std::string text;
  for (std::size_t n = random() % 40; n > 0; --n)
    append_utf8(text, kBlocks[random() % kBlocks.size()] + static_cast<char32_t>(random() % 24));
  return text;
}

}  // namespace

TEST_CASE("unicode form: all four forms are those of utf8proc") {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    const std::string text = random_text(random);
    for (const auto form : {UnicodeForm::kNfc, UnicodeForm::kNfd, UnicodeForm::kNfkc, UnicodeForm::kNfkd})
      REQUIRE(form_of(text, form) == by_utf8proc(text, form));
  }
  CHECK(form_of("", UnicodeForm::kNfc).empty());
}

// utf8proc itself would take some 10^11 exchanges of neighbours.
TEST_CASE("unicode form: half a million marks in the wrong order are sorted") {
  constexpr std::size_t kCount = 1 << 19;
  std::string marks = "a";
  for (std::size_t i = 0; i < kCount; ++i) marks += i < kCount / 2 ? "\u0301" : "\u0316";
  const std::string ordered = form_of(marks, UnicodeForm::kNfd);
  REQUIRE(ordered.size() == marks.size());
  CHECK(ordered.substr(1, 2) == "\u0316");
  CHECK(ordered.substr(kCount - 1, 4) == "\u0316\u0301");
  CHECK(ordered.substr(marks.size() - 2) == "\u0301");
}

TEST_CASE("unicode form: text that grows beyond its limit is refused") {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "\uFDFA";  // 3 bytes that become 33
  EncodingBudget budget;
  CHECK(normal_form(text, UnicodeForm::kNfkc, 40'000, budget).size() > 30'000);
  CHECK_THROWS_AS(normal_form(text, UnicodeForm::kNfkc, 20'000, budget), EncodingStopped);
}

}  // namespace troupe
