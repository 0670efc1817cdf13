// SPDX-License-Identifier: Apache-2.0
// Attention of every token to all tokens of its own slice, which is a whole sequence, but
// for padding at its end (SequenceSlice::num_padding); slices of any length side by side,
// scores scaled by 1 / sqrt(head_dim), softmax in f32. A row's bits do not depend on what else is in the
// batch.
//
//   inputs {qkv [tokens, 3 heads * head_dim]: q, k, v}, outputs {attended [tokens, heads *
//   head_dim]}
#pragma once

namespace troupe {

struct SelfAttention {};

}  // namespace troupe
