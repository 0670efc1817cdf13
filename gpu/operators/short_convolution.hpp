// SPDX-License-Identifier: Apache-2.0
// A convolution over the last tokens of a sequence, each channel by itself, between two gates (LFM2):
//
//   u = b * x;  y_t = c_t * (w[0] u_(t-n+1) + … + w[n-1] u_t), from left to right; u in front of the sequence
//   is 0
//
// Its state are the u of n - 1 tokens. They lie in the KV pages: page layers [layer, layer + num_layers) have
// u's channels in the place of a token's keys and values, 2 kv_heads * head_dim a page layer, behind the last
// one zeros. So whatever is done with pages (shared beginnings, preemption, tiers) is done with the state. u
// is always read from there, rounded to the pages' type: y does not depend on how a prompt is cut.
//
//   inputs {bcx [tokens, 3 width]: b, c and x, w [1, width * n]: a channel's beside each other}; outputs {y
//   [tokens, width]}
#pragma once

#include <cstdint>

namespace troupe {

struct ShortConvolution {
  std::uint32_t layer = 0;
  std::uint32_t num_layers = 1;
};

}  // namespace troupe
