// SPDX-License-Identifier: Apache-2.0
// Numbers and texts as bytes behind each other, in the order of this machine, and back.
// take() reads what may be damaged: false where too little is there.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace troupe {

template <class T>
void put(std::string& out, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

inline void put_text(std::string& out, std::string_view text) {
  put(out, std::uint64_t{text.size()});
  out.append(text);
}

template <class T>
void put_list(std::string& out, const std::vector<T>& list) {
  static_assert(std::is_trivially_copyable_v<T>);
  put(out, std::uint64_t{list.size()});
  out.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(T));
}

template <class T>
bool take(std::string_view& in, T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (in.size() < sizeof(T)) return false;
  std::memcpy(&value, in.data(), sizeof(T));
  in.remove_prefix(sizeof(T));
  return true;
}

inline bool take_text(std::string_view& in, std::string& text) {
  std::uint64_t size = 0;
  if (!take(in, size) || size > in.size()) return false;
  text = in.substr(0, size);
  in.remove_prefix(size);
  return true;
}

template <class T>
bool take_list(std::string_view& in, std::vector<T>& list) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::uint64_t size = 0;
  if (!take(in, size) || size > in.size() / sizeof(T)) return false;
  list.resize(size);
  if (size > 0) std::memcpy(list.data(), in.data(), size * sizeof(T));
  in.remove_prefix(size * sizeof(T));
  return true;
}

}  // namespace troupe
