// SPDX-License-Identifier: Apache-2.0
// Plain structs as bytes and back. Both ends run on one machine, so numbers are
// as they are in memory; lists and texts have a count of 32 bits in front.
//
// The reader takes every byte for hostile: a count must be covered by the bytes
// that are left, so nothing is allocated beyond a small multiple of them; an
// enumeration, a flag or bytes left over that cannot be are refused.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "gpu/child/fields.hpp"

namespace troupe::child {

// The other side said what can't be.
struct ProtocolError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;
template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsDuration = false;
template <class Count, class Period>
inline constexpr bool kIsDuration<std::chrono::duration<Count, Period>> = true;

// Fewest bytes that a value of the type takes.
template <class T>
constexpr std::size_t wire_bytes_at_least() {
  if constexpr (Fields<T>::kAreListed) {
    return []<class... F>(std::type_identity<std::tuple<F&...>>) {
      return (wire_bytes_at_least<F>() + ... + 0);
    }(std::type_identity<decltype(Fields<T>::tie(std::declval<T&>()))>());
  } else if constexpr (kIsList<T> || std::is_same_v<T, std::string>) {
    return sizeof(std::uint32_t);
  } else if constexpr (kIsOptional<T>) {
    return 1;
  } else {
    return sizeof(T);
  }
}

class WireWriter {
 public:
  template <class T>
  void write(const T& value) {
    if constexpr (Fields<T>::kAreListed) {
      std::apply([this](const auto&... field) { (this->write(field), ...); }, Fields<T>::tie(value));
    } else if constexpr (kIsList<T> || std::is_same_v<T, std::string>) {
      write_list(value);
    } else if constexpr (kIsOptional<T>) {
      write(value.has_value());
      if (value) write(*value);
    } else if constexpr (kIsDuration<T>) {
      write(value.count());
    } else {
      static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>, "not listed in fields.hpp");
      append(&value, sizeof value);
    }
  }

  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  template <class List>
  void write_list(const List& list) {
    using Element = typename List::value_type;
    if (list.size() > std::numeric_limits<std::uint32_t>::max())
      throw ProtocolError("a list is too long to be sent");
    write(static_cast<std::uint32_t>(list.size()));
    if constexpr (std::is_arithmetic_v<Element>) {
      append(list.data(), list.size() * sizeof(Element));
    } else {
      for (const auto& element : list) write(element);
    }
  }

  void append(const void* data, std::size_t size) {
    if (size == 0) return;
    const std::size_t begin = bytes_.size();
    bytes_.resize(begin + size);
    std::memcpy(bytes_.data() + begin, data, size);
  }

  std::vector<std::byte> bytes_;
};

// Its methods throw ProtocolError.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
  void read(T& value) {
    if constexpr (Fields<T>::kAreListed) {
      std::apply([this](auto&... field) { (this->read(field), ...); }, Fields<T>::tie(value));
    } else if constexpr (kIsList<T> || std::is_same_v<T, std::string>) {
      read_list(value);
    } else if constexpr (kIsOptional<T>) {
      value.reset();
      if (read_flag()) read(value.emplace());
    } else if constexpr (kIsDuration<T>) {
      typename T::rep count{};
      read(count);
      value = T(count);
    } else if constexpr (std::is_same_v<T, bool>) {
      value = read_flag();
    } else if constexpr (std::is_enum_v<T>) {
      static_assert(kLast<T> != T{}, "its largest value is not in fields.hpp");
      std::underlying_type_t<T> number{};
      read(number);
      if (number > static_cast<std::underlying_type_t<T>>(kLast<T>))
        throw ProtocolError("an enumeration has no value " + std::to_string(number));
      value = static_cast<T>(number);
    } else {
      static_assert(std::is_arithmetic_v<T>, "not listed in fields.hpp");
      take(&value, sizeof value);
    }
  }

  void expect_end() const {
    if (!rest_.empty()) throw ProtocolError(std::to_string(rest_.size()) + " bytes are left of a message");
  }

 private:
  bool read_flag() {
    std::uint8_t byte = 0;
    read(byte);
    if (byte > 1) throw ProtocolError("a flag is " + std::to_string(byte));
    return byte == 1;
  }

  template <class List>
  void read_list(List& list) {
    using Element = typename List::value_type;
    std::uint32_t count = 0;
    read(count);
    if (count > rest_.size() / wire_bytes_at_least<Element>())
      throw ProtocolError("a list of " + std::to_string(count) + " in " + std::to_string(rest_.size()) +
                          " bytes");
    list.resize(count);
    if constexpr (std::is_arithmetic_v<Element>) {
      take(list.data(), count * sizeof(Element));
    } else {
      for (auto& element : list) read(element);
    }
  }

  void take(void* data, std::size_t size) {
    if (size > rest_.size())
      throw ProtocolError("a message ends " + std::to_string(size - rest_.size()) + " bytes too early");
    if (size > 0) std::memcpy(data, rest_.data(), size);
    rest_ = rest_.subspan(size);
  }

  std::span<const std::byte> rest_;
};

}  // namespace troupe::child
