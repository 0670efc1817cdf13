// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace troupe {

// A client's grammar, pattern or schema that can't be enforced. The sentence names the place and the
// construct.
class GrammarError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

}  // namespace troupe
