// SPDX-License-Identifier: Apache-2.0
// Rotates query and key heads by their token's position (element i is paired with
// i + rotary_dim / 2) and appends keys and values to the KV pages of `layer`. Queries
// are rotated in place; no two tokens of a batch share a place.
//
//   inputs {qkv [tokens, (heads + 2 kv_heads) * head_dim]}, or without queries {kv [tokens,
//          2 kv_heads * head_dim]}
#pragma once

#include <cstdint>

namespace troupe {

struct RotaryAppendKv {
  std::uint32_t layer = 0;
  bool rotates = true;    // false: the layer has no positions
  bool is_local = false;  // by ModelShapes::local_rotary
  bool has_queries = true;
};

}  // namespace troupe
