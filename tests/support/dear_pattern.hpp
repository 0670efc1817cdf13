// SPDX-License-Identifier: Apache-2.0
// A regular expression that can be followed for two letters: behind the third there are more ways to read on
// than a state of a grammar may have, so that the mask of what may be the third is empty.
#pragma once

#include <string>

namespace troupe::test {

inline std::string dear_pattern() {
  std::string ways;
  for (int number = 0; number < 17'000; ++number) ways += "a?";
  return "^aaa" + ways + "b$";
}

}  // namespace troupe::test
