// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gpu/gguf_writer.hpp"

#include <bit>

namespace troupe::test {
namespace {

void pad(std::string& bytes, std::size_t alignment) {
  while (alignment > 0 && bytes.size() % alignment != 0) bytes += '\0';
}

}  // namespace

std::string gguf_number(std::uint64_t value, std::size_t num_bytes) {
  std::string bytes;
  for (std::size_t i = 0; i < num_bytes; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}

std::string gguf_text(std::string_view text) { return gguf_number(text.size(), 8).append(text); }

std::string gguf_f32(float value) { return gguf_number(std::bit_cast<std::uint32_t>(value), 4); }

void GgufWriter::add_value(std::string_view key, GgufType type, const std::string& bytes) {
  values_ += gguf_text(key) + gguf_number(static_cast<std::uint32_t>(type), 4) + bytes;
  ++num_values_;
}

void GgufWriter::add_array(std::string_view key, GgufType element_type,
                           const std::vector<std::string>& elements) {
  std::string bytes = gguf_number(static_cast<std::uint32_t>(element_type), 4);
  bytes += gguf_number(elements.size(), 8);
  for (const auto& element : elements) bytes += element;
  add_value(key, GgufType::kArray, bytes);
}

void GgufWriter::add_texts(std::string_view key, const std::vector<std::string>& texts) {
  std::vector<std::string> elements;
  for (const auto& text : texts) elements.push_back(gguf_text(text));
  add_array(key, GgufType::kString, elements);
}

void GgufWriter::add_tensor(std::string_view name, const std::vector<std::uint64_t>& dimensions,
                            BlockFormat format, const std::string& data) {
  pad(data_, alignment);
  add_entry(name, dimensions, static_cast<std::uint32_t>(format), data_.size());
  data_ += data;
}

void GgufWriter::add_entry(std::string_view name, const std::vector<std::uint64_t>& dimensions,
                           std::uint32_t type, std::uint64_t offset) {
  entries_ += gguf_text(name) + gguf_number(dimensions.size(), 4);
  for (const auto dimension : dimensions) entries_ += gguf_number(dimension, 8);
  entries_ += gguf_number(type, 4) + gguf_number(offset, 8);
  ++num_tensors_;
}

std::string GgufWriter::header() const {
  std::string bytes = "GGUF" + gguf_number(version, 4);
  bytes += gguf_number(num_tensors_ + num_extra_tensors, 8) + gguf_number(num_values_ + num_extra_keys, 8);
  return bytes + values_ + entries_;
}

std::string GgufWriter::file() const {
  std::string bytes = header();
  pad(bytes, alignment);
  bytes += data_;
  pad(bytes, alignment);
  return bytes;
}

}  // namespace troupe::test
