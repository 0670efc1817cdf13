// SPDX-License-Identifier: Apache-2.0
// A model in one GGUF file, or in several of them (`name-00001-of-00003.gguf`):
// mapped, with the keys of the first part and the tensors of all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/model/gguf_header.hpp"
#include "gpu/model/mapped_file.hpp"

namespace troupe {

// A model is given as a directory or as a GGUF file: any regular file counts as one.
bool is_gguf_path(const std::filesystem::path& model);

// True if the file can be read and begins with the format's four letters.
bool begins_as_gguf(const std::filesystem::path& path);

// The files of a model whose first is given, by their names alone.
std::vector<std::filesystem::path> gguf_parts(const std::filesystem::path& first);

class GgufFile {
 public:
  // Throws std::runtime_error "<path>: <reason>".
  explicit GgufFile(const std::filesystem::path& first);

  const std::filesystem::path& path() const { return parts_.front()->path(); }
  std::uint32_t version() const { return header_.version; }
  // Null: there is no such key.
  const GgufValue* find_value(std::string_view key) const { return header_.find(key); }
  // Null: absent. Throws std::runtime_error if it is of another type.
  const std::string* find_text(std::string_view key) const;
  std::optional<std::uint64_t> find_unsigned(std::string_view key) const;
  std::optional<bool> find_bool(std::string_view key) const;
  // Integers, too.
  std::optional<double> find_number(std::string_view key) const;
  const GgufValue::Array* find_array(std::string_view key) const;
  const std::vector<GgufKey>& keys() const { return header_.keys; }
  // A key's type and value as the file has them.
  std::span<const std::byte> bytes_of(const GgufKey& key) const {
    return parts_.front()->bytes().subspan(key.begin, key.end - key.begin);
  }

  struct Tensor {
    GgufTensor entry;
    const MappedFile* part = nullptr;

    std::span<const std::byte> bytes() const { return part->bytes().subspan(entry.begin, entry.size_bytes); }
  };
  const std::map<std::string, Tensor, std::less<>>& tensors() const { return tensors_; }
  const Tensor* find_tensor(std::string_view name) const;
  const std::vector<std::unique_ptr<MappedFile>>& parts() const { return parts_; }

  // Throws "<path>: <reason>".
  [[noreturn]] void refuse(const std::string& reason) const;

 private:
  void open_part(const std::filesystem::path& path, std::size_t number, std::size_t num_parts);

  std::vector<std::unique_ptr<MappedFile>> parts_;
  GgufHeader header_;  // of the first part; its tensors are in tensors_
  std::map<std::string, Tensor, std::less<>> tensors_;
};

}  // namespace troupe
