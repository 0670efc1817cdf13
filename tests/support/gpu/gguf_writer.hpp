// SPDX-License-Identifier: Apache-2.0
// Writes GGUF files for tests: right ones, and ones that lie where a test wants it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/model/block_formats.hpp"

namespace troupe::test {

// The format's numbers of value types.
enum class GgufType : std::uint32_t {
  kU16 = 2,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9
};

// Little-endian, of so many bytes.
std::string gguf_number(std::uint64_t value, std::size_t num_bytes);
std::string gguf_text(std::string_view text);
std::string gguf_f32(float value);

class GgufWriter {
 public:
  std::uint32_t version = 3;
  std::uint32_t alignment = 32;  // of the data; whoever changes it adds general.alignment, too

  void add_value(std::string_view key, GgufType type, const std::string& bytes);
  void add(std::string_view key, std::uint32_t value) {
    add_value(key, GgufType::kU32, gguf_number(value, 4));
  }
  void add_float(std::string_view key, float value) { add_value(key, GgufType::kF32, gguf_f32(value)); }
  void add_bool(std::string_view key, bool value) {
    add_value(key, GgufType::kBool, gguf_number(value ? 1 : 0, 1));
  }
  void add_text(std::string_view key, std::string_view text) {
    add_value(key, GgufType::kString, gguf_text(text));
  }
  // elements: each as its type is written.
  void add_array(std::string_view key, GgufType element_type, const std::vector<std::string>& elements);
  void add_texts(std::string_view key, const std::vector<std::string>& texts);

  // dimensions: the contiguous one first. The data follows that of the tensor before.
  void add_tensor(std::string_view name, const std::vector<std::uint64_t>& dimensions, BlockFormat format,
                  const std::string& data);
  // Its entry alone, with any offset.
  void add_entry(std::string_view name, const std::vector<std::uint64_t>& dimensions, std::uint32_t type,
                 std::uint64_t offset);

  std::string file() const;
  std::string header() const;  // up to the padding

  // Stated counts, where they are not those of what was added.
  std::uint64_t num_extra_keys = 0;
  std::uint64_t num_extra_tensors = 0;

 private:
  std::string values_, entries_, data_;
  std::uint64_t num_values_ = 0, num_tensors_ = 0;
};

}  // namespace troupe::test
