// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/otlp_answer.hpp"

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace troupe {
namespace {

using nlohmann::json;

// {"partialSuccess":{"rejectedSpans":"3"}}
std::uint64_t rejected_in_json(std::string_view body) {
  const auto parsed = json::parse(body, nullptr, false);
  const auto at = json::json_pointer("/partialSuccess/rejectedSpans");
  if (!parsed.is_object() || !parsed.contains(at)) return 0;
  const auto& rejected = parsed.at(at);
  if (rejected.is_number_unsigned()) return rejected.get<std::uint64_t>();
  if (!rejected.is_string()) return 0;
  const auto& digits = rejected.get_ref<const std::string&>();
  std::uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

std::optional<std::uint64_t> take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// One field of a message.
struct WireField {
  std::uint64_t tag = 0;     // number << 3 | wire type
  std::uint64_t number = 0;  // of a varint
  std::string_view bytes;    // of what has a length
};

// nullopt at the end, and where the bytes are no message.
std::optional<WireField> take_field(std::string_view& bytes) {
  const auto tag = take_varint(bytes);
  if (!tag) return std::nullopt;
  const auto take_bytes = [&](std::uint64_t size) -> std::optional<WireField> {
    if (size > bytes.size()) return std::nullopt;
    const WireField field{.tag = *tag, .bytes = bytes.substr(0, size)};
    bytes.remove_prefix(size);
    return field;
  };
  switch (*tag & 7) {
    case 0: {
      const auto number = take_varint(bytes);
      return number ? std::optional(WireField{.tag = *tag, .number = *number, .bytes = {}}) : std::nullopt;
    }
    case 1: return take_bytes(8);
    case 2: {
      const auto size = take_varint(bytes);
      return size ? take_bytes(*size) : std::nullopt;
    }
    case 5: return take_bytes(4);
    default: return std::nullopt;
  }
}

// ExportTraceServiceResponse.partial_success = 1, ExportTracePartialSuccess.rejected_spans = 1
std::uint64_t rejected_in_protobuf(std::string_view body) {
  constexpr std::uint64_t kPartialSuccess = (1 << 3) | 2;
  constexpr std::uint64_t kRejectedSpans = 1 << 3;
  std::uint64_t rejected = 0;
  while (const auto outer = take_field(body)) {
    if (outer->tag != kPartialSuccess) continue;
    std::string_view partial_success = outer->bytes;
    while (const auto inner = take_field(partial_success))
      if (inner->tag == kRejectedSpans) rejected = inner->number;
  }
  return rejected;
}

}  // namespace

std::uint64_t count_rejected_spans(std::string_view body) {
  // No field of the message begins with this byte.
  return body.starts_with('{') ? rejected_in_json(body) : rejected_in_protobuf(body);
}

}  // namespace troupe
