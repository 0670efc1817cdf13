// SPDX-License-Identifier: Apache-2.0
#include "http/event_framer.hpp"

#include <string_view>

namespace troupe {
namespace {

// The length of a chunk is written after its content is known; six digits are
// set aside and leading zeros are legal: chunk-size = 1*HEXDIG.
constexpr std::string_view kChunkSizePlaceholder = "000000\r\n";
constexpr std::size_t kChunkSizeDigits = 6;

}  // namespace

std::size_t EventFramer::begin(std::string& out) const {
  const std::size_t start = out.size();
  if (framing_ == EventFraming::kChunked) out += kChunkSizePlaceholder;
  return start;
}

void EventFramer::end(std::string& out, std::size_t start) const {
  if (framing_ != EventFraming::kChunked) return;
  constexpr std::string_view kHex = "0123456789abcdef";
  std::size_t size = out.size() - start - kChunkSizePlaceholder.size();
  for (std::size_t digit = kChunkSizeDigits; digit > 0; --digit, size >>= 4) {
    out[start + digit - 1] = kHex[size & 15];
  }
  out += "\r\n";
}

void EventFramer::end_body(std::string& out) const {
  if (framing_ == EventFraming::kChunked) out += "0\r\n\r\n";
}

void EventFramer::heartbeat(std::string& out) const {
  const std::size_t start = begin(out);
  out += ": ping\n\n";
  end(out, start);
}

}  // namespace troupe
