// SPDX-License-Identifier: Apache-2.0
// A token's row, copied to the place of each of its choices (route_experts.hpp).
//
//   inputs {x [tokens, K], places}, outputs {grouped [choices, K], of x's type}
#pragma once

namespace troupe {

struct GroupRows {};

}  // namespace troupe
