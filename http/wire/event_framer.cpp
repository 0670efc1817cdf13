// SPDX-License-Identifier: Apache-2.0
#include "http/wire/event_framer.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace troupe {
namespace {

// The length of a chunk is written after its content is known; six digits are
// set aside, leading zeros are legal (chunk-size = 1*HEXDIG), and longer ones
// make themselves room.
constexpr std::string_view kChunkSizePlaceholder = "000000\r\n";
constexpr std::size_t kChunkSizeDigits = 6;
constexpr unsigned kBitsOfDigit = 4;

std::size_t num_hex_digits(std::size_t number) {
  std::size_t num = 1;
  while (number >>= kBitsOfDigit) ++num;
  return num;
}

}  // namespace

std::size_t EventFramer::begin(std::string& out) const {
  const std::size_t start = out.size();
  if (framing_ == EventFraming::kChunked) out += kChunkSizePlaceholder;
  return start;
}

void EventFramer::end(std::string& out, std::size_t start) const {
  if (framing_ != EventFraming::kChunked) return;
  // A chunk of nothing would end the body.
  if (out.size() == start + kChunkSizePlaceholder.size()) return out.resize(start);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::size_t size = out.size() - start - kChunkSizePlaceholder.size();
  const std::size_t num_digits = std::max(kChunkSizeDigits, num_hex_digits(size));
  out.insert(start, num_digits - kChunkSizeDigits, '0');
  for (std::size_t digit = num_digits; digit > 0; --digit, size >>= kBitsOfDigit) {
    out[start + digit - 1] = kHex[size & 15];
  }
  out += "\r\n";
}

void EventFramer::end_body(std::string& out) const {
  if (framing_ == EventFraming::kChunked) out += "0\r\n\r\n";
}

std::optional<LongEvent> EventFramer::end(std::string& out, std::size_t start, AnswerJson& json,
                                          std::shared_ptr<const void> owner, bool is_last) const {
  if (json.has_gaps()) {
    LongEvent event{.answer = json.take(std::move(owner)), .framing = framing_, .is_last = is_last};
    out.resize(start);
    return event;
  }
  end(out, start);
  if (is_last) end_body(out);
  return std::nullopt;
}

void EventFramer::heartbeat(std::string& out) const {
  const std::size_t start = begin(out);
  out += ": ping\n\n";
  end(out, start);
}

}  // namespace troupe
