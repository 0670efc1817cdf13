// SPDX-License-Identifier: Apache-2.0
// Reader of the GGUF format, versions 2 and 3: a header of typed keys and values
// and of tensors with their places, then the data. The file is hostile input:
// nothing is allocated or believed before it has been checked against the bytes
// that are left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gpu/model/block_formats.hpp"

namespace troupe {

struct GgufLimits {
  static constexpr std::uint64_t kMaxKeys = 65'536;
  static constexpr std::uint64_t kMaxTensors = 200'000;
  static constexpr std::uint64_t kMaxNameBytes = 512;
  static constexpr std::uint64_t kMaxStringBytes = std::uint64_t{16} << 20;
  static constexpr std::uint64_t kMaxArrayElements = std::uint64_t{8} << 20;  // of all arrays together
  static constexpr std::uint64_t kMaxDimensions = 4;
  static constexpr std::uint64_t kMaxAlignment = std::uint64_t{1} << 20;
};

// Integers are widened, f32 to double.
struct GgufValue {
  using Array = std::vector<GgufValue>;  // of one type, without arrays
  std::variant<bool, std::uint64_t, std::int64_t, double, std::string, Array> value;

  // Null: of another type. An integer that isn't negative is unsigned, however it was written.
  const bool* as_bool() const { return std::get_if<bool>(&value); }
  const std::uint64_t* as_unsigned() const { return std::get_if<std::uint64_t>(&value); }
  const double* as_number() const { return std::get_if<double>(&value); }
  const std::string* as_text() const { return std::get_if<std::string>(&value); }
  const Array* as_array() const { return std::get_if<Array>(&value); }
};

struct GgufTensor {
  std::string name;
  std::uint32_t type = 0;                 // ggml's number
  const BlockLayout* layout = nullptr;    // null: a type that is not read here
  std::vector<std::uint64_t> dimensions;  // the contiguous one first
  std::uint64_t begin = 0;                // bytes from the start of the file
  std::uint64_t size_bytes = 0;           // 0 where layout is null

  // As in safetensors: the contiguous dimension last.
  std::vector<std::uint64_t> shape() const { return {dimensions.rbegin(), dimensions.rend()}; }
  std::string type_name() const;
};

// Where a key's type and value are: bytes [begin, end) of the file.
struct GgufKey {
  std::string name;
  std::uint64_t begin = 0, end = 0;
};

struct GgufHeader {
  std::uint32_t version = 0;
  std::vector<GgufKey> keys;  // in the file's order
  std::map<std::string, GgufValue, std::less<>> values;
  std::vector<GgufTensor> tensors;  // in the file's order

  const GgufValue* find(std::string_view key) const;
};

// Throws std::runtime_error with the reason alone (the caller knows the file).
// Tensors don't overlap and end inside the file.
GgufHeader parse_gguf(std::span<const std::byte> file);

// Short, printable and in quotes, for error texts.
std::string shown_gguf_name(std::string_view name);

}  // namespace troupe
