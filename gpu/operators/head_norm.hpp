// SPDX-License-Identifier: Apache-2.0
// RMS norm of each query head and each key head of a token, in place: all query heads
// share one weight, all key heads another. Values stay as they are.
//
//   inputs {qkv [tokens, (heads + 2 kv_heads) * head_dim], query weight [1, head_dim],
//   key weight [1, head_dim]}
#pragma once

namespace troupe {

struct HeadNorm {
  float epsilon = 1e-6F;
};

}  // namespace troupe
