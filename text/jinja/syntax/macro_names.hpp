// SPDX-License-Identifier: Apache-2.0
// The variables that only macros have: caller, varargs and kwargs. A piece of a template is asked which of
// them it reads before it sets them. A macro takes further arguments only where its body reads them.
#pragma once

#include <cstdint>
#include <string_view>

namespace troupe::jinja {

class MacroNames {
 public:
  void read(std::string_view name) { read_ |= bit_of(name) & ~set_; }
  void set(std::string_view name) { set_ |= bit_of(name); }
  bool is_read(std::string_view name) const { return (read_ & bit_of(name)) != 0; }
  // `inner` is a part of the piece, behind what has been seen of it.
  void add(const MacroNames& inner) {
    read_ |= inner.read_ & ~set_;
    set_ |= inner.set_;
  }

 private:
  static std::uint32_t bit_of(std::string_view name) {
    if (name == "caller") return 1;
    if (name == "varargs") return 2;
    return name == "kwargs" ? 4 : 0;
  }

  std::uint32_t read_ = 0;
  std::uint32_t set_ = 0;
};

}  // namespace troupe::jinja
