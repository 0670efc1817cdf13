// SPDX-License-Identifier: Apache-2.0
// Chooses experts for each token, those of the highest logits, ties to the lower index, and
// sorts all choices by expert. "Choices" are rows, so many for each token. A token's experts
// and shares depend on its own logits alone; only the places of its rows depend on the batch.
//
//   inputs {logits [tokens, experts], f32}
//   outputs {shares [tokens, choices of a token], f32, of softmax;
//            places [tokens, choices of a token], i32: of a token's choices among all, its
//                   experts in ascending order;
//            bounds [1, experts + 1], i32: those of expert e have the places [bounds[e], bounds[e + 1])}
#pragma once

namespace troupe {

struct RouteExperts {
  bool normalizes = true;  // shares sum to 1: softmax is over those chosen; else over all experts
};

}  // namespace troupe
