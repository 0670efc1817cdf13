// SPDX-License-Identifier: Apache-2.0
// OpenSSL makes room for as much as a client's first message claims to be long: 131 KB for
// ten bytes on the wire, until the handshake's time is up. This looks at those bytes on their way
// and says when a message claims too much. Pure: bytes in, values out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe {

class HelloGuard {
 public:
  // Bytes of a handshake message in the clear, its head of 4 not counted. The hellos of clients
  // have less than 2 KB; other messages in the clear are shorter.
  static constexpr std::size_t kMaxMessageBytes = 16 * 1024;

  // The next bytes that the client sent, in any pieces. can_repeat: a second hello may still come, as in
  // TLS 1.3; else all is ciphered behind the message that says so (ChangeCipherSpec). False: a message claims
  // more than kMaxMessageBytes.
  bool admits(std::string_view bytes, bool can_repeat);

 private:
  void take_record_header(unsigned char byte, bool can_repeat);
  bool take_message_byte(unsigned char byte);

  std::array<unsigned char, 5> record_header_{};
  std::size_t num_header_bytes_ = 0;
  std::size_t record_left_ = 0;   // bytes
  std::size_t message_left_ = 0;  // of its body
  std::size_t num_message_header_bytes_ = 0;
  std::uint32_t claimed_ = 0;  // of the message whose header is being taken: its length
  bool is_over_ = false;       // the rest is ciphered, or no TLS
};

}  // namespace troupe
