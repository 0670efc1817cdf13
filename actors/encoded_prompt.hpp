// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace troupe {

struct EncodedPrompt {
  std::vector<std::int32_t> tokens;
  // So many of the first are those of the conversation that is continued, as
  // they were run; 0 if it was encoded anew.
  std::size_t num_inherited = 0;
};

}  // namespace troupe
