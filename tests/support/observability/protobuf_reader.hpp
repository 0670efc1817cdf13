// SPDX-License-Identifier: Apache-2.0
// Reads protobuf's wire format back, by field numbers: what our writer is
// checked against. Throws std::runtime_error on bytes that are no message.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::test {

inline std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (bytes.empty()) throw std::runtime_error("protobuf: a number is cut off");
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  throw std::runtime_error("protobuf: a number has too many bytes");
}

inline std::string_view take_bytes(std::string_view& bytes, std::uint64_t size) {
  if (bytes.size() < size) throw std::runtime_error("protobuf: a field is cut off");
  const auto part = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return part;
}

inline std::uint64_t take_fixed(std::string_view& bytes, std::uint64_t size) {
  std::uint64_t value = 0;
  int shift = 0;
  for (const char c : take_bytes(bytes, size)) {
    value |= std::uint64_t{static_cast<unsigned char>(c)} << shift;
    shift += 8;
  }
  return value;
}

inline std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

class ProtobufMessage {
 public:
  explicit ProtobufMessage(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::uint64_t tag = take_varint(bytes);
      const auto field = static_cast<int>(tag >> 3);
      switch (tag & 7) {
        case 0: numbers_[field].push_back(take_varint(bytes)); break;
        case 1: fixed_[field].push_back(take_fixed(bytes, 8)); break;
        case 2: strings_[field].emplace_back(take_bytes(bytes, take_varint(bytes))); break;
        case 5: fixed_[field].push_back(take_fixed(bytes, 4)); break;
        default: throw std::runtime_error("protobuf: a wire type that nobody uses");
      }
    }
  }

  bool has(int field) const {
    return numbers_.contains(field) || fixed_.contains(field) || strings_.contains(field);
  }
  // Absent fields have their default.
  std::uint64_t number(int field) const { return numbers_.contains(field) ? numbers_.at(field).back() : 0; }
  std::uint64_t fixed(int field) const { return fixed_.contains(field) ? fixed_.at(field).back() : 0; }
  double real(int field) const { return std::bit_cast<double>(fixed(field)); }
  std::string text(int field) const { return strings_.contains(field) ? strings_.at(field).back() : ""; }
  std::vector<ProtobufMessage> messages(int field) const {
    std::vector<ProtobufMessage> parts;
    if (strings_.contains(field))
      for (const auto& bytes : strings_.at(field)) parts.emplace_back(bytes);
    return parts;
  }
  std::vector<std::int64_t> packed_sint64(int field) const {
    std::vector<std::int64_t> values;
    const std::string packed = text(field);
    for (std::string_view rest = packed; !rest.empty();) values.push_back(unzigzag(take_varint(rest)));
    return values;
  }

 private:
  std::map<int, std::vector<std::uint64_t>> numbers_;
  std::map<int, std::vector<std::uint64_t>> fixed_;  // of four or eight bytes
  std::map<int, std::vector<std::string>> strings_;
};

inline std::vector<ProtobufMessage> delimited_messages(std::string_view bytes) {
  std::vector<ProtobufMessage> messages;
  while (!bytes.empty()) messages.emplace_back(take_bytes(bytes, take_varint(bytes)));
  return messages;
}

}  // namespace troupe::test
