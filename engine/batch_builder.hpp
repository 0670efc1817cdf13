// SPDX-License-Identifier: Apache-2.0
// From decisions to the batch a device runs.
#pragma once

#include <cstdint>
#include <span>

#include "engine/sequence.hpp"
#include "gpu/device.hpp"
#include "gpu/program/batch.hpp"
#include "policy/forming/sequence_progress.hpp"

namespace troupe {

// Appends the sequence's part: its query tokens, its pages as far as they are
// needed, what may be drawn, is biased or penalized. One slice, or one a token of a step
// that scores.
void add_slice(Batch& batch, const Sequence& sequence, const SequenceStep& step,
               const DeviceDescription& device);

}  // namespace troupe
