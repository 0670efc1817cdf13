// SPDX-License-Identifier: Apache-2.0
#include "telemetry/protobuf_writer.hpp"

#include <bit>

namespace troupe {
namespace {

enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  out += static_cast<char>(value);
}

void append_tag(std::string& out, std::uint32_t field, WireType type) {
  append_varint(out, (std::uint64_t{field} << 3) | type);
}

void append_fixed(std::string& out, std::uint64_t value, int num_bytes) {
  for (int byte = 0; byte < num_bytes; ++byte, value >>= 8) out += static_cast<char>(value & 0xFF);
}

// Small numbers stay short, whatever their sign.
std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}

}  // namespace

void ProtobufWriter::add_uint64(std::uint32_t field, std::uint64_t value) {
  if (value == 0) return;
  append_tag(bytes_, field, kVarint);
  append_varint(bytes_, value);
}

void ProtobufWriter::add_int32(std::uint32_t field, std::int32_t value) {
  add_uint64(field, static_cast<std::uint64_t>(std::int64_t{value}));
}

void ProtobufWriter::add_sint32(std::uint32_t field, std::int32_t value) { add_uint64(field, zigzag(value)); }

void ProtobufWriter::add_fixed32(std::uint32_t field, std::uint32_t value) {
  if (value == 0) return;
  append_tag(bytes_, field, kFixed32);
  append_fixed(bytes_, value, 4);
}

void ProtobufWriter::add_fixed64(std::uint32_t field, std::uint64_t value) {
  if (value == 0) return;
  append_tag(bytes_, field, kFixed64);
  append_fixed(bytes_, value, 8);
}

void ProtobufWriter::add_double(std::uint32_t field, double value) {
  add_fixed64(field, std::bit_cast<std::uint64_t>(value));
}

void ProtobufWriter::add_string(std::uint32_t field, std::string_view text) {
  if (!text.empty()) append_delimited(field, text);
}

void ProtobufWriter::add_packed_sint64(std::uint32_t field, std::span<const std::int64_t> values) {
  if (values.empty()) return;
  std::string packed;
  for (const std::int64_t value : values) append_varint(packed, zigzag(value));
  append_delimited(field, packed);
}

void ProtobufWriter::add_message(std::uint32_t field, const ProtobufWriter& message) {
  append_delimited(field, message.bytes_);
}

void ProtobufWriter::add_choice(std::uint32_t field, bool value) { add_choice(field, std::int64_t{value}); }

void ProtobufWriter::add_choice(std::uint32_t field, std::int64_t value) {
  append_tag(bytes_, field, kVarint);
  append_varint(bytes_, static_cast<std::uint64_t>(value));
}

void ProtobufWriter::add_choice(std::uint32_t field, double value) {
  append_tag(bytes_, field, kFixed64);
  append_fixed(bytes_, std::bit_cast<std::uint64_t>(value), 8);
}

void ProtobufWriter::add_choice(std::uint32_t field, const std::string& text) {
  append_delimited(field, text);
}

void ProtobufWriter::append_delimited_to(std::string& out) const {
  append_varint(out, bytes_.size());
  out += bytes_;
}

void ProtobufWriter::append_delimited(std::uint32_t field, std::string_view bytes) {
  append_tag(bytes_, field, kLengthDelimited);
  append_varint(bytes_, bytes.size());
  bytes_ += bytes;
}

}  // namespace troupe
