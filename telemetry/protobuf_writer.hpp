// SPDX-License-Identifier: Apache-2.0
// Writes protobuf's wire format, the few types of it that the messages of Prometheus
// and OTLP use. A message is written into a string of its own and copied into the
// one around it. Fields are left out where they have their default.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace troupe {

class ProtobufWriter {
 public:
  void add_uint64(std::uint32_t field, std::uint64_t value);
  void add_int32(std::uint32_t field, std::int32_t value);   // also enumerations
  void add_sint32(std::uint32_t field, std::int32_t value);  // zigzag
  void add_fixed32(std::uint32_t field, std::uint32_t value);
  void add_fixed64(std::uint32_t field, std::uint64_t value);
  void add_double(std::uint32_t field, double value);
  void add_string(std::uint32_t field, std::string_view text);
  void add_bytes(std::uint32_t field, std::string_view bytes) { add_string(field, bytes); }
  void add_packed_sint64(std::uint32_t field, std::span<const std::int64_t> values);
  // Present even if it is empty.
  void add_message(std::uint32_t field, const ProtobufWriter& message);

  // Members of a oneof: present whatever their value, for that says which it is.
  void add_choice(std::uint32_t field, bool value);
  void add_choice(std::uint32_t field, std::int64_t value);
  void add_choice(std::uint32_t field, double value);
  void add_choice(std::uint32_t field, const std::string& text);

  const std::string& bytes() const { return bytes_; }
  // Its length in front, as in a stream of messages.
  void append_delimited_to(std::string& out) const;

 private:
  void append_delimited(std::uint32_t field, std::string_view bytes);

  std::string bytes_;
};

}  // namespace troupe
