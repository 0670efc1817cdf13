// SPDX-License-Identifier: Apache-2.0
#include "http/tls/hello_guard.hpp"

namespace troupe {
namespace {

// Kinds of records.
constexpr unsigned char kChangeCipherSpec = 20;
constexpr unsigned char kHandshake = 22;

constexpr std::size_t kMessageHeaderBytes = 4;  // a kind, and the length in three

}  // namespace

bool HelloGuard::admits(std::string_view bytes, bool can_repeat) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_over_) return true;
    if (record_left_ == 0) {
      take_record_header(byte, can_repeat);
      continue;
    }
    --record_left_;
    if (record_header_[0] == kHandshake && !take_message_byte(byte)) return false;
  }
  return true;
}

void HelloGuard::take_record_header(unsigned char byte, bool can_repeat) {
  record_header_[num_header_bytes_++] = byte;
  const unsigned char kind = record_header_[0];
  is_over_ = kind < kChangeCipherSpec || kind > kHandshake || (kind == kChangeCipherSpec && !can_repeat);
  if (num_header_bytes_ < record_header_.size()) return;
  num_header_bytes_ = 0;
  record_left_ = (std::size_t{record_header_[3]} << 8U) | record_header_[4];
}

bool HelloGuard::take_message_byte(unsigned char byte) {
  if (message_left_ > 0) {
    --message_left_;
    return true;
  }
  // The kind, which comes first, is shifted out by the length's three.
  claimed_ = ((claimed_ << 8U) | byte) & 0xffffffU;
  if (++num_message_header_bytes_ < kMessageHeaderBytes) return true;
  num_message_header_bytes_ = 0;
  message_left_ = claimed_;
  return claimed_ <= kMaxMessageBytes;
}

}  // namespace troupe
