// SPDX-License-Identifier: Apache-2.0
// Reader of the safetensors format: 8 bytes little-endian header length N, N
// bytes of JSON {name: {dtype, shape, data_offsets: [begin, end]}}, the data.
// The file is hostile input: nothing is believed before it has been checked
// against the file's size, in checked 64-bit arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/data_type.hpp"
#include "gpu/model/mapped_file.hpp"

namespace troupe {

struct SafetensorsLimits {
  static constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
  static constexpr std::size_t kMaxTensors = 200'000;
  static constexpr std::size_t kMaxNameBytes = 512;
  static constexpr std::size_t kMaxDimensions = 8;
};

struct SafetensorsEntry {
  std::string name;
  std::string element_type;      // as in the file: "BF16", "I64", …
  std::optional<DataType> type;  // empty: a type that networks cannot use
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;  // bytes from the start of the file
  std::uint64_t size_bytes = 0;
};

// Entries by ascending name. Throws std::runtime_error with the reason alone
// (the caller knows the file): every rule of the format is checked, the
// tensors must cover the data exactly, without gap or overlap.
std::vector<SafetensorsEntry> parse_safetensors(std::span<const std::byte> file);

// A file and its entries. Throws std::runtime_error "<path>: <reason>".
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const MappedFile& mapped() const { return file_; }
  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  const SafetensorsEntry* find(std::string_view name) const;

  // The entry's elements; not necessarily aligned to their size.
  std::span<const std::byte> bytes_of(const SafetensorsEntry& entry) const {
    return file_.bytes().subspan(entry.begin, entry.size_bytes);
  }

 private:
  MappedFile file_;
  std::vector<SafetensorsEntry> entries_;
};

}  // namespace troupe
