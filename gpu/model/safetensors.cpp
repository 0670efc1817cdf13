// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/safetensors.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

namespace troupe {
namespace {

constexpr std::size_t kLengthBytes = 8;

struct ElementType {
  std::string_view name;
  std::uint64_t size_bytes;
  std::optional<DataType> type;
};

constexpr std::array kElementTypes = {
    ElementType{"F32", 4, DataType::kF32},
    ElementType{"F16", 2, DataType::kF16},
    ElementType{"BF16", 2, DataType::kBF16},
    ElementType{"I32", 4, DataType::kI32},
    ElementType{"BOOL", 1, {}},
    ElementType{"U8", 1, {}},
    ElementType{"I8", 1, {}},
    ElementType{"U16", 2, {}},
    ElementType{"I16", 2, {}},
    ElementType{"U32", 4, {}},
    ElementType{"U64", 8, {}},
    ElementType{"I64", 8, {}},
    ElementType{"F64", 8, {}},
    ElementType{"F8_E4M3", 1, {}},
    ElementType{"F8_E5M2", 1, {}},
};

// Quotes a name from the file for an error text: short and printable.
std::string in_quotes(std::string_view name) {
  std::string text = "\"";
  for (const char c : name.substr(0, 64)) {
    text += (c < 0x20 || c == 0x7F) ? '?' : c;
  }
  return text + (name.size() > 64 ? "…\"" : "\"");
}

[[noreturn]] void refuse(const std::string& reason) { throw std::runtime_error(reason); }

// An entry as the header states it, before anything has been checked.
struct HeaderEntry {
  std::string name;
  std::string element_type;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> offsets;
  bool has_type = false;
  bool has_shape = false;
  bool has_offsets = false;
};

// Reads the header's JSON event by event; only the exact structure of the
// format passes. No tree is built, so a hostile header costs its own size.
//
//   kDocument --{--> kTensors --name--> kTensor --{--> kField --key--> value or array
//                       |__ "__metadata__" --> kMetadata --{--> strings only
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<HeaderEntry> take_entries() { return std::move(entries_); }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return unexpected("a number that is not an integer");
  }
  bool binary(binary_t&) override { return unexpected("binary"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::kShape) {
      if (entries_.back().shape.size() == SafetensorsLimits::kMaxDimensions) {
        refuse("tensor " + in_quotes(entries_.back().name) + " has more than 8 dimensions");
      }
      entries_.back().shape.push_back(value);
      return true;
    }
    if (state_ == State::kOffsets) {
      if (entries_.back().offsets.size() == 2) {
        refuse("tensor " + in_quotes(entries_.back().name) + " has more than two data_offsets");
      }
      entries_.back().offsets.push_back(value);
      return true;
    }
    return unexpected("a number");
  }

  bool string(string_t& value) override {
    if (state_ == State::kMetadata && metadata_key_) {
      metadata_key_ = false;
      return true;
    }
    if (state_ != State::kTypeValue) return unexpected("a string");
    entries_.back().element_type = value.substr(0, SafetensorsLimits::kMaxNameBytes);
    state_ = State::kField;
    return true;
  }

  bool start_object(std::size_t) override {
    switch (state_) {
      case State::kDocument: state_ = State::kTensors; return true;
      case State::kTensor: state_ = State::kField; return true;
      case State::kMetadataStart: state_ = State::kMetadata; return true;
      default: return unexpected("an object");
    }
  }

  bool key(string_t& name) override {
    switch (state_) {
      case State::kTensors: return start_tensor(name);
      case State::kField: return start_field(name);
      case State::kMetadata: metadata_key_ = true; return true;
      default: return unexpected("a key");
    }
  }

  bool end_object() override {
    if (state_ == State::kTensors) {
      state_ = State::kEnd;
    } else {
      if (state_ == State::kField) check_complete(entries_.back());
      state_ = State::kTensors;
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ == State::kShapeStart) {
      state_ = State::kShape;
    } else if (state_ == State::kOffsetsStart) {
      state_ = State::kOffsets;
    } else {
      return unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    state_ = State::kField;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    refuse("the header is not valid JSON (at byte " + std::to_string(position) + ")");
  }

 private:
  enum class State {
    kDocument,
    kTensors,
    kTensor,
    kField,
    kTypeValue,
    kShapeStart,
    kShape,
    kOffsetsStart,
    kOffsets,
    kMetadataStart,
    kMetadata,
    kEnd
  };

  [[noreturn]] bool unexpected(const std::string& what) const {
    std::string where;
    if (state_ == State::kDocument || state_ == State::kEnd) {
      where = " at its top level";
    } else if (state_ == State::kMetadata || state_ == State::kMetadataStart) {
      where = " in __metadata__";
    } else if (!entries_.empty()) {
      where = " in tensor " + in_quotes(entries_.back().name);
    }
    refuse("the header has " + what + where + ", which the format does not allow");
  }

  bool start_tensor(const std::string& name) {
    if (name == "__metadata__") {
      if (std::exchange(has_metadata_, true)) refuse("the header has __metadata__ twice");
      state_ = State::kMetadataStart;
      return true;
    }
    if (name.empty() || name.size() > SafetensorsLimits::kMaxNameBytes) {
      refuse("a tensor name has " + std::to_string(name.size()) + " bytes, 1 to 512 are allowed");
    }
    if (std::any_of(name.begin(), name.end(), [](char c) { return (c >= 0 && c < 0x20) || c == 0x7F; })) {
      refuse("the tensor name " + in_quotes(name) + " has control characters");
    }
    if (entries_.size() == SafetensorsLimits::kMaxTensors) refuse("more than 200000 tensors");
    entries_.push_back({.name = name, .element_type = {}, .shape = {}, .offsets = {}});
    state_ = State::kTensor;
    return true;
  }

  bool start_field(const std::string& field) {
    HeaderEntry& entry = entries_.back();
    bool* seen = nullptr;
    if (field == "dtype") {
      seen = &entry.has_type;
      state_ = State::kTypeValue;
    } else if (field == "shape") {
      seen = &entry.has_shape;
      state_ = State::kShapeStart;
    } else if (field == "data_offsets") {
      seen = &entry.has_offsets;
      state_ = State::kOffsetsStart;
    } else {
      refuse("tensor " + in_quotes(entry.name) + " has the unknown field " + in_quotes(field));
    }
    if (std::exchange(*seen, true)) {
      refuse("tensor " + in_quotes(entry.name) + " has " + field + " twice");
    }
    return true;
  }

  static void check_complete(const HeaderEntry& entry) {
    if (!entry.has_type) refuse("tensor " + in_quotes(entry.name) + " has no dtype");
    if (!entry.has_shape) refuse("tensor " + in_quotes(entry.name) + " has no shape");
    if (!entry.has_offsets || entry.offsets.size() != 2) {
      refuse("tensor " + in_quotes(entry.name) + " has no pair of data_offsets");
    }
  }

  State state_ = State::kDocument;
  bool metadata_key_ = false;
  bool has_metadata_ = false;
  std::vector<HeaderEntry> entries_;
};

std::uint64_t read_header_length(std::span<const std::byte> file) {
  if (file.size() < kLengthBytes) {
    refuse("is truncated: " + std::to_string(file.size()) + " bytes cannot hold the 8-byte header length");
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
  }
  if (length > SafetensorsLimits::kMaxHeaderBytes) {
    refuse("states a header of " + std::to_string(length) + " bytes, more than the 100000000 allowed");
  }
  if (length > file.size() - kLengthBytes) {
    refuse("is truncated: the header needs " + std::to_string(length) + " bytes, the file has " +
           std::to_string(file.size() - kLengthBytes));
  }
  return length;
}

// Type and extent of one entry; begin is still relative to the data.
SafetensorsEntry check_entry(HeaderEntry&& stated, std::uint64_t num_data_bytes) {
  const auto type = std::find_if(kElementTypes.begin(), kElementTypes.end(),
                                 [&](const auto& t) { return t.name == stated.element_type; });
  if (type == kElementTypes.end()) {
    refuse("tensor " + in_quotes(stated.name) + " has the unknown dtype " + in_quotes(stated.element_type));
  }
  std::uint64_t size_bytes = type->size_bytes;
  for (const std::uint64_t dimension : stated.shape) {
    if (__builtin_mul_overflow(size_bytes, dimension, &size_bytes)) {
      refuse("the shape of tensor " + in_quotes(stated.name) + " overflows 64 bits");
    }
  }
  const std::uint64_t begin = stated.offsets[0];
  const std::uint64_t end = stated.offsets[1];
  if (begin > end) refuse("the data_offsets of tensor " + in_quotes(stated.name) + " are reversed");
  if (end > num_data_bytes) {
    refuse("is truncated: tensor " + in_quotes(stated.name) + " ends at data byte " + std::to_string(end) +
           ", the file has " + std::to_string(num_data_bytes));
  }
  if (end - begin != size_bytes) {
    refuse("tensor " + in_quotes(stated.name) + " needs " + std::to_string(size_bytes) +
           " bytes for its shape, its data_offsets span " + std::to_string(end - begin));
  }
  return {.name = std::move(stated.name),
          .element_type = std::move(stated.element_type),
          .type = type->type,
          .shape = std::move(stated.shape),
          .begin = begin,
          .size_bytes = size_bytes};
}

// Every data byte belongs to exactly one tensor.
void check_coverage(std::vector<SafetensorsEntry>& entries, std::uint64_t num_data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.size_bytes) < std::pair(b.begin, b.size_bytes);
  });
  std::uint64_t covered = 0;
  for (const auto& entry : entries) {
    if (entry.begin < covered) refuse("tensor " + in_quotes(entry.name) + " overlaps another one");
    if (entry.begin > covered) {
      refuse("there is a gap of " + std::to_string(entry.begin - covered) + " bytes before tensor " +
             in_quotes(entry.name));
    }
    covered += entry.size_bytes;  // cannot overflow: bounded by num_data_bytes
  }
  if (covered != num_data_bytes) {
    refuse("has " + std::to_string(num_data_bytes - covered) + " bytes of data that belong to no tensor");
  }
}

}  // namespace

std::vector<SafetensorsEntry> parse_safetensors(std::span<const std::byte> file) {
  const std::uint64_t header_bytes = read_header_length(file);
  const auto header = file.subspan(kLengthBytes, header_bytes);
  const std::uint64_t num_data_bytes = file.size() - kLengthBytes - header_bytes;
  if (header.empty() || std::to_integer<char>(header[0]) != '{') {
    refuse("the header does not start with '{'");
  }
  // The JSON parser takes a zero byte for the end of its input.
  if (std::find(header.begin(), header.end(), std::byte{0}) != header.end()) {
    refuse("the header has a zero byte");
  }
  HeaderReader reader;
  const auto* text = reinterpret_cast<const char*>(header.data());
  nlohmann::json::sax_parse(text, text + header.size(), &reader);

  std::vector<SafetensorsEntry> entries;
  auto stated = reader.take_entries();
  entries.reserve(stated.size());
  for (auto& entry : stated) entries.push_back(check_entry(std::move(entry), num_data_bytes));
  check_coverage(entries, num_data_bytes);

  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i > 0 && entries[i].name == entries[i - 1].name) {
      refuse("the tensor " + in_quotes(entries[i].name) + " occurs twice");
    }
    entries[i].begin += kLengthBytes + header_bytes;
  }
  return entries;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  try {
    entries_ = parse_safetensors(file_.bytes());
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(path.string() + ": " + error.what());
  }
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::lower_bound(entries_.begin(), entries_.end(), name,
                                      [](const auto& entry, std::string_view n) { return entry.name < n; });
  return found != entries_.end() && found->name == name ? &*found : nullptr;
}

}  // namespace troupe
