// SPDX-License-Identifier: Apache-2.0
// Facts that a fuzz target checks beyond "no fault". What require() throws is no
// std::exception: targets catch those that the code under test may throw, and no more.
#pragma once

#include <string>
#include <string_view>

namespace troupe::fuzz {

struct PropertyBroken {
  std::string sentence;
};

inline void require(bool holds, std::string_view sentence) {
  if (!holds) throw PropertyBroken{std::string(sentence)};
}

}  // namespace troupe::fuzz
