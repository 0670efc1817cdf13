// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/gguf_file.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace troupe {
namespace {

constexpr std::size_t kMaxParts = 1000;
constexpr std::string_view kExtension = ".gguf";
constexpr std::string_view kOf = "-of-";
constexpr std::size_t kDigits = 5;

// name-00001-of-00003.gguf
struct PartName {
  std::string stem;  // "name"
  std::size_t number = 1;
  std::size_t num_parts = 1;
};

std::optional<std::size_t> number_in(std::string_view digits) {
  std::size_t number = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    number = 10 * number + static_cast<std::size_t>(c - '0');
  }
  return number;
}

// nullopt: a name of another form, which belongs to a model of one file.
std::optional<PartName> split_name(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  constexpr std::size_t kSuffix = 1 + kDigits + kOf.size() + kDigits + kExtension.size();
  if (name.size() <= kSuffix || !name.ends_with(kExtension)) return std::nullopt;
  const std::string_view suffix = std::string_view(name).substr(name.size() - kSuffix);
  const auto number = number_in(suffix.substr(1, kDigits));
  const auto num_parts = number_in(suffix.substr(1 + kDigits + kOf.size(), kDigits));
  if (suffix.front() != '-' || suffix.substr(1 + kDigits, kOf.size()) != kOf || !number || !num_parts) {
    return std::nullopt;
  }
  return PartName{name.substr(0, name.size() - kSuffix), *number, *num_parts};
}

template <class Value>
Value required_type(const GgufFile& file, std::string_view key, const char* expected, Value value) {
  if (!value) file.refuse(std::string(key) + " is of another type, expected " + expected);
  return value;
}

void check_part(const GgufHeader& header, std::size_t number, std::size_t num_parts) {
  const auto has = [&](std::string_view key, std::size_t expected) {
    const GgufValue* value = header.find(key);
    return value != nullptr && value->as_unsigned() != nullptr && *value->as_unsigned() == expected;
  };
  if (!has("split.no", number) || !has("split.count", num_parts)) {
    throw std::runtime_error("is not part " + std::to_string(number + 1) + " of " +
                             std::to_string(num_parts) + ", as its name says");
  }
}

}  // namespace

bool is_gguf_path(const std::filesystem::path& model) {
  std::error_code failure;
  return std::filesystem::is_regular_file(model, failure);
}

bool begins_as_gguf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 4> letters{};
  return file.read(letters.data(), letters.size()) && std::string_view(letters.data(), 4) == "GGUF";
}

std::vector<std::filesystem::path> gguf_parts(const std::filesystem::path& first) {
  const auto name = split_name(first);
  if (!name || name->number != 1 || name->num_parts < 1) return {first};
  std::vector<std::filesystem::path> parts;
  for (std::size_t number = 1; number <= std::min(name->num_parts, kMaxParts); ++number) {
    char suffix[40];
    std::snprintf(suffix, sizeof suffix, "-%05zu-of-%05zu", number, name->num_parts);
    parts.push_back(first.parent_path() / (name->stem + suffix + std::string(kExtension)));
  }
  return parts;
}

GgufFile::GgufFile(const std::filesystem::path& first) {
  open_part(first, 0, 1);
  const std::uint64_t num_parts = find_unsigned("split.count").value_or(1);
  if (num_parts <= 1) return;
  const auto name = split_name(first);
  if (num_parts > kMaxParts)
    refuse("states " + std::to_string(num_parts) + " parts, at most 1000 are allowed");
  if (find_unsigned("split.no").value_or(0) != 0) {
    refuse("is not the first part of its model; give the one whose name ends in -00001-of-" +
           std::string(kDigits - std::to_string(num_parts).size(), '0') + std::to_string(num_parts) +
           ".gguf");
  }
  if (!name || name->number != 1 || name->num_parts != num_parts) {
    refuse("is the first of " + std::to_string(num_parts) +
           " parts, but its name does not end in -00001-of-N.gguf");
  }
  const auto paths = gguf_parts(first);
  for (std::size_t number = 1; number < num_parts; ++number) open_part(paths[number], number, num_parts);
  const auto num_tensors = find_unsigned("split.tensors.count");
  if (num_tensors && *num_tensors != tensors_.size()) {
    refuse("states " + std::to_string(*num_tensors) + " tensors in all parts, they have " +
           std::to_string(tensors_.size()));
  }
}

const std::string* GgufFile::find_text(std::string_view key) const {
  const GgufValue* value = find_value(key);
  return value == nullptr ? nullptr : required_type(*this, key, "a string", value->as_text());
}

std::optional<std::uint64_t> GgufFile::find_unsigned(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return std::nullopt;
  return *required_type(*this, key, "an integer that is not negative", value->as_unsigned());
}

std::optional<bool> GgufFile::find_bool(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return std::nullopt;
  return *required_type(*this, key, "a boolean", value->as_bool());
}

std::optional<double> GgufFile::find_number(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* integer = value->as_unsigned()) return static_cast<double>(*integer);
  if (const auto* integer = std::get_if<std::int64_t>(&value->value)) return static_cast<double>(*integer);
  return *required_type(*this, key, "a number", value->as_number());
}

const GgufValue::Array* GgufFile::find_array(std::string_view key) const {
  const GgufValue* value = find_value(key);
  return value == nullptr ? nullptr : required_type(*this, key, "an array", value->as_array());
}

const GgufFile::Tensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

void GgufFile::refuse(const std::string& reason) const {
  throw std::runtime_error(path().string() + ": " + reason);
}

void GgufFile::open_part(const std::filesystem::path& path, std::size_t number, std::size_t num_parts) {
  parts_.push_back(std::make_unique<MappedFile>(path));
  try {
    GgufHeader header = parse_gguf(parts_.back()->bytes());
    if (number > 0) check_part(header, number, num_parts);
    for (GgufTensor& entry : header.tensors) {
      const std::string name = entry.name;
      if (!tensors_.emplace(name, Tensor{std::move(entry), parts_.back().get()}).second) {
        throw std::runtime_error("the tensor " + shown_gguf_name(name) + " is in another part, too");
      }
    }
    header.tensors.clear();
    if (number == 0) header_ = std::move(header);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(path.string() + ": " + error.what());
  }
}

}  // namespace troupe
