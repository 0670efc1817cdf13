// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/gguf_header.hpp"

#include <algorithm>
#include <bit>
#include <set>
#include <stdexcept>
#include <utility>

namespace troupe {
namespace {

enum class ValueType : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::uint64_t kDefaultAlignment = 32;
// Bytes of the smallest key with its value, and of the smallest tensor's entry.
constexpr std::uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;
constexpr std::uint64_t kMinTensorBytes = 8 + 1 + 4 + 4 + 8;

[[noreturn]] void refuse(const std::string& reason) { throw std::runtime_error(reason); }

// The bytes that are left, each read once.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t num_left() const { return bytes_.size() - position_; }

  std::span<const std::byte> take(std::uint64_t count, const std::string& what) {
    if (count > num_left()) {
      refuse("is truncated: " + what + " needs " + std::to_string(count) + " bytes at byte " +
             std::to_string(position_) + ", " + std::to_string(num_left()) + " are left");
    }
    const auto taken = bytes_.subspan(position_, count);
    position_ += count;
    return taken;
  }

  template <class Number>
  Number number(const std::string& what) {
    Number value = 0;
    const auto bytes = take(sizeof(Number), what);
    for (std::size_t i = 0; i < sizeof(Number); ++i) {
      value = static_cast<Number>(value | static_cast<Number>(std::to_integer<Number>(bytes[i]) << (8 * i)));
    }
    return value;
  }

  std::string text(std::uint64_t max_bytes, const std::string& what) {
    const auto length = number<std::uint64_t>("the length of " + what);
    if (length > max_bytes) {
      refuse(what + " has " + std::to_string(length) + " bytes, at most " + std::to_string(max_bytes) +
             " are allowed");
    }
    const auto bytes = take(length, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::span<const std::byte> bytes_;
  std::uint64_t position_ = 0;
};

GgufValue integer(std::int64_t value) {
  if (value < 0) return {value};
  return {static_cast<std::uint64_t>(value)};
}

class HeaderReader {
 public:
  explicit HeaderReader(std::span<const std::byte> file) : cursor_(file) {}

  GgufHeader read() && {
    read_version();
    const auto num_tensors = cursor_.number<std::uint64_t>("the number of tensors");
    const auto num_keys = cursor_.number<std::uint64_t>("the number of keys");
    check_count(num_keys, "keys", GgufLimits::kMaxKeys, kMinKeyBytes);
    for (std::uint64_t i = 0; i < num_keys; ++i) read_key();
    check_count(num_tensors, "tensors", GgufLimits::kMaxTensors, kMinTensorBytes);
    header_.tensors.reserve(num_tensors);
    std::set<std::string> names;
    for (std::uint64_t i = 0; i < num_tensors; ++i) {
      read_tensor();
      const std::string& name = header_.tensors.back().name;
      if (!names.insert(name).second) refuse("the tensor " + shown_gguf_name(name) + " occurs twice");
    }
    place_tensors();
    return std::move(header_);
  }

 private:
  void read_version() {
    if (cursor_.num_left() < 4 || cursor_.number<std::uint32_t>("the magic number") != kMagic) {
      refuse("is not a GGUF file: it does not begin with \"GGUF\"");
    }
    header_.version = cursor_.number<std::uint32_t>("the version");
    if ((header_.version & 0xFFFFU) == 0 && header_.version != 0)
      refuse("is a big-endian GGUF file, which is not supported");
    if (header_.version != 2 && header_.version != 3) {
      refuse("is GGUF version " + std::to_string(header_.version) + ", which is not supported (2 and 3 are)");
    }
  }

  void check_count(std::uint64_t count, const std::string& what, std::uint64_t max, std::uint64_t min_bytes) {
    if (count > max) {
      refuse("states " + std::to_string(count) + " " + what + ", more than the " + std::to_string(max) +
             " allowed");
    }
    if (count * min_bytes > cursor_.num_left()) {
      refuse("is truncated: " + std::to_string(count) + " " + what + " can't be in the " +
             std::to_string(cursor_.num_left()) + " bytes that are left");
    }
  }

  void read_key() {
    std::string key = cursor_.text(GgufLimits::kMaxNameBytes, "a key");
    if (key.empty()) refuse("has a key without a name");
    const std::string what = "the value of " + shown_gguf_name(key);
    const std::uint64_t begin = cursor_.position();
    const auto type = cursor_.number<std::uint32_t>("the type of " + shown_gguf_name(key));
    GgufValue value =
        type == static_cast<std::uint32_t>(ValueType::kArray) ? read_array(what) : read_scalar(type, what);
    const auto [place, is_new] = header_.values.emplace(std::move(key), std::move(value));
    if (!is_new) refuse("has the key " + shown_gguf_name(place->first) + " twice");
    header_.keys.push_back({place->first, begin, cursor_.position()});
  }

  GgufValue read_array(const std::string& what) {
    const auto type = cursor_.number<std::uint32_t>("the element type of " + what);
    if (type == static_cast<std::uint32_t>(ValueType::kArray)) refuse(what + " is an array of arrays");
    const auto count = cursor_.number<std::uint64_t>("the length of " + what);
    if (count > num_array_elements_left_) {
      refuse(what + " has " + std::to_string(count) + " elements, all arrays together may have " +
             std::to_string(GgufLimits::kMaxArrayElements));
    }
    if (count > cursor_.num_left()) {
      refuse("is truncated: " + what + " states " + std::to_string(count) + " elements, " +
             std::to_string(cursor_.num_left()) + " bytes are left");
    }
    num_array_elements_left_ -= count;
    GgufValue::Array array;
    array.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) array.push_back(read_scalar(type, what));
    return {std::move(array)};
  }

  GgufValue read_scalar(std::uint32_t type, const std::string& what) {
    switch (static_cast<ValueType>(type)) {
      case ValueType::kU8: return {std::uint64_t{cursor_.number<std::uint8_t>(what)}};
      case ValueType::kU16: return {std::uint64_t{cursor_.number<std::uint16_t>(what)}};
      case ValueType::kU32: return {std::uint64_t{cursor_.number<std::uint32_t>(what)}};
      case ValueType::kU64: return {cursor_.number<std::uint64_t>(what)};
      case ValueType::kI8: return integer(static_cast<std::int8_t>(cursor_.number<std::uint8_t>(what)));
      case ValueType::kI16: return integer(static_cast<std::int16_t>(cursor_.number<std::uint16_t>(what)));
      case ValueType::kI32: return integer(static_cast<std::int32_t>(cursor_.number<std::uint32_t>(what)));
      case ValueType::kI64: return integer(static_cast<std::int64_t>(cursor_.number<std::uint64_t>(what)));
      case ValueType::kF32:
        return {static_cast<double>(std::bit_cast<float>(cursor_.number<std::uint32_t>(what)))};
      case ValueType::kF64: return {std::bit_cast<double>(cursor_.number<std::uint64_t>(what))};
      case ValueType::kBool: return read_bool(what);
      case ValueType::kString: return {cursor_.text(GgufLimits::kMaxStringBytes, what)};
      case ValueType::kArray: break;
    }
    refuse(what + " has the unknown type " + std::to_string(type));
  }

  GgufValue read_bool(const std::string& what) {
    const auto byte = cursor_.number<std::uint8_t>(what);
    if (byte > 1) refuse(what + " is the boolean " + std::to_string(byte) + ", expected 0 or 1");
    return {byte == 1};
  }

  void read_tensor() {
    GgufTensor tensor;
    tensor.name = cursor_.text(GgufLimits::kMaxNameBytes, "the name of a tensor");
    if (tensor.name.empty()) refuse("has a tensor without a name");
    const std::string what = "tensor " + shown_gguf_name(tensor.name);
    const auto num_dimensions = cursor_.number<std::uint32_t>("the dimensions of " + what);
    if (num_dimensions == 0 || num_dimensions > GgufLimits::kMaxDimensions) {
      refuse(what + " has " + std::to_string(num_dimensions) + " dimensions, expected 1 to 4");
    }
    for (std::uint32_t i = 0; i < num_dimensions; ++i) {
      tensor.dimensions.push_back(cursor_.number<std::uint64_t>("the dimensions of " + what));
    }
    tensor.type = cursor_.number<std::uint32_t>("the type of " + what);
    tensor.layout = find_block_layout(tensor.type);
    tensor.begin = cursor_.number<std::uint64_t>("the offset of " + what);  // relative until it is placed
    tensor.size_bytes = size_of_tensor(tensor, what);
    header_.tensors.push_back(std::move(tensor));
  }

  static std::uint64_t size_of_tensor(const GgufTensor& tensor, const std::string& what) {
    std::uint64_t num_elements = 1;
    for (const std::uint64_t dimension : tensor.dimensions) {
      if (dimension == 0) refuse(what + " has a dimension of 0");
      if (__builtin_mul_overflow(num_elements, dimension, &num_elements)) {
        refuse("the dimensions of " + what + " overflow 64 bits");
      }
    }
    if (tensor.layout == nullptr) {
      if (name_of_ggml_type(tensor.type).empty()) {
        refuse(what + " has the unknown type " + std::to_string(tensor.type));
      }
      return 0;
    }
    const BlockLayout& layout = *tensor.layout;
    if (tensor.dimensions.front() % layout.num_elements != 0) {
      refuse(what + " has rows of " + std::to_string(tensor.dimensions.front()) + " elements, " +
             std::string(layout.name) + " has blocks of " + std::to_string(layout.num_elements));
    }
    std::uint64_t size_bytes = 0;
    if (__builtin_mul_overflow(num_elements / layout.num_elements, std::uint64_t{layout.num_bytes},
                               &size_bytes)) {
      refuse("the dimensions of " + what + " overflow 64 bits");
    }
    return size_bytes;
  }

  std::uint64_t alignment() const {
    const GgufValue* value = header_.find("general.alignment");
    if (value == nullptr) return kDefaultAlignment;
    const std::uint64_t* alignment = value->as_unsigned();
    if (alignment == nullptr || !std::has_single_bit(*alignment) || *alignment > GgufLimits::kMaxAlignment) {
      refuse("general.alignment is not a power of two up to " + std::to_string(GgufLimits::kMaxAlignment));
    }
    return *alignment;
  }

  // From offsets in the data to bytes of the file.
  void place_tensors() {
    const std::uint64_t step = alignment();
    const std::uint64_t padding = (step - cursor_.position() % step) % step;
    if (padding > cursor_.num_left()) {  // a file without data need not be padded
      if (header_.tensors.empty()) return;
      refuse("is truncated: no data follows the header");
    }
    const std::uint64_t num_data_bytes = cursor_.num_left() - padding;
    for (GgufTensor& tensor : header_.tensors) {
      const std::string what = "tensor " + shown_gguf_name(tensor.name);
      if (tensor.begin % step != 0) {
        refuse("the offset " + std::to_string(tensor.begin) + " of " + what + " is no multiple of " +
               std::to_string(step));
      }
      if (tensor.begin > num_data_bytes || tensor.size_bytes > num_data_bytes - tensor.begin) {
        refuse("is truncated: " + what + " has " + std::to_string(tensor.size_bytes) +
               " bytes at data byte " + std::to_string(tensor.begin) + ", the file has " +
               std::to_string(num_data_bytes));
      }
      tensor.begin += cursor_.position() + padding;
    }
    check_overlaps();
  }

  void check_overlaps() const {
    std::vector<const GgufTensor*> by_place;
    for (const GgufTensor& tensor : header_.tensors) by_place.push_back(&tensor);
    std::sort(by_place.begin(), by_place.end(),
              [](const GgufTensor* a, const GgufTensor* b) { return a->begin < b->begin; });
    for (std::size_t i = 1; i < by_place.size(); ++i) {
      const GgufTensor& before = *by_place[i - 1];
      if (before.begin + std::max<std::uint64_t>(before.size_bytes, 1) > by_place[i]->begin) {
        refuse("tensor " + shown_gguf_name(by_place[i]->name) + " overlaps tensor " +
               shown_gguf_name(before.name));
      }
    }
  }

  Cursor cursor_;
  GgufHeader header_;
  std::uint64_t num_array_elements_left_ = GgufLimits::kMaxArrayElements;
};

}  // namespace

std::string shown_gguf_name(std::string_view name) {
  std::string text = "\"";
  for (const char c : name.substr(0, 64)) text += c >= 0x20 && c < 0x7F ? c : '?';
  return text + (name.size() > 64 ? "…\"" : "\"");
}

std::string GgufTensor::type_name() const {
  const std::string_view known = name_of_ggml_type(type);
  return known.empty() ? "type " + std::to_string(type) : std::string(known);
}

const GgufValue* GgufHeader::find(std::string_view key) const {
  const auto found = values.find(key);
  return found == values.end() ? nullptr : &found->second;
}

GgufHeader parse_gguf(std::span<const std::byte> file) { return HeaderReader(file).read(); }

}  // namespace troupe
