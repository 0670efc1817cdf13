// SPDX-License-Identifier: Apache-2.0
// Log-probabilities of one row of logits as sampling leaves them on the device
// and the signalling kernel brings them to the host: TokenLogprobs without
// memory of its own.
#pragma once

#include <cstdint>

#include "gpu/program/batch.hpp"

namespace troupe::cuda {

struct RowLogprobs {
  float logprob = 0.0F;       // of the token that was drawn
  std::uint32_t num_top = 0;  // as many as asked for, or the whole vocabulary
  RankedToken top[kMaxTopLogprobs];
};

}  // namespace troupe::cuda
