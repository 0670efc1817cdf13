// SPDX-License-Identifier: Apache-2.0
// A token's sum of the rows of its choices (route_experts.hpp), each times its share, in the
// order of the experts, so that a sum depends on its token alone.
//
//   inputs {rows [choices, width], f32; places; shares}, outputs {sums [tokens, width], f32}
#pragma once

namespace troupe {

struct CombineExperts {};

}  // namespace troupe
