// SPDX-License-Identifier: Apache-2.0
// Draws one token a row. Biases, penalties and masks first; then temperature 0 is the arg
// max, ties to the lowest id. Otherwise, as vLLM does it: divide by the temperature; keep
// the top_k highest (ties to the lowest id); of the softmax of those, the smallest set
// that reaches top_p; of those, what is at least min_p times the highest; renormalise and
// draw. The uniform number is Philox4x32-10 of (seed, position): the same draw on every
// device and restart, given the same logits. Log-probabilities are those of the logits as
// they came. A NaN or +Inf among the logits, or nothing left to draw, gives no token.
//
//   inputs {logits [output rows, vocabulary]}, f32; outputs none: to the batch's result
//   and the sequence's slot
#pragma once

namespace troupe {

struct Sample {};

}  // namespace troupe
