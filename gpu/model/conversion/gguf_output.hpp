// SPDX-License-Identifier: Apache-2.0
// A GGUF file (version 3) that is being written: keys, the places of tensors, then their data. It
// has a temporary name until it is whole; what is given up leaves nothing behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/model/block_formats.hpp"

namespace troupe {

// Keys with their values, each of the type that readers of the format expect.
class GgufKeys {
 public:
  void add_count(std::string_view key, std::uint64_t value);  // u32; throws std::logic_error beyond it
  void add_number(std::string_view key, double value);        // f32
  void add_flag(std::string_view key, bool value);
  void add_text(std::string_view key, std::string_view text);
  void add_texts(std::string_view key, std::span<const std::string> texts);
  void add_numbers(std::string_view key, std::span<const double> values);         // f32
  void add_integers(std::string_view key, std::span<const std::int64_t> values);  // i32
  // As another file has it: its type and its value.
  void add_bytes(std::string_view key, std::span<const std::byte> type_and_value);

  std::uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, std::uint32_t type);
  void begin_array(std::string_view key, std::uint32_t type, std::size_t size);

  std::string bytes_;
  std::uint64_t count_ = 0;
};

struct GgufOutputTensor {
  std::string name;
  std::vector<std::uint64_t> dimensions;  // the contiguous one first
  BlockFormat format = BlockFormat::kF32;

  std::uint64_t num_rows() const;
  std::uint64_t row_bytes() const;
  std::uint64_t size_bytes() const { return num_rows() * row_bytes(); }
};

class GgufOutput {
 public:
  // Creates the temporary file beside `target`, reserves the space of all data and writes what is in
  // front of it. All methods throw std::runtime_error "<target>: <reason>".
  GgufOutput(std::filesystem::path target, const GgufKeys& keys, std::vector<GgufOutputTensor> tensors);
  ~GgufOutput();
  GgufOutput(const GgufOutput&) = delete;
  GgufOutput& operator=(const GgufOutput&) = delete;

  // Readers may open it at once: all but the data is there from the beginning.
  const std::filesystem::path& temporary() const { return temporary_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  // offset: in the data of the tensor with that index.
  void write(std::size_t tensor, std::uint64_t offset, std::span<const std::byte> bytes);
  // Brings everything to the disk and gives it its name. replaces: a file of that name may exist.
  void finish(bool replaces);

 private:
  [[noreturn]] void fail(int error) const;
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  void close() noexcept;

  std::filesystem::path target_, temporary_;
  std::vector<GgufOutputTensor> tensors_;
  std::vector<std::uint64_t> begins_;  // of the tensors' data in the file
  std::uint64_t size_bytes_ = 0;
  int descriptor_ = -1;
};

}  // namespace troupe
