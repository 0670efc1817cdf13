// SPDX-License-Identifier: Apache-2.0
// From decisions to the batch a device runs.
#pragma once

#include <cstdint>
#include <span>

#include "actors/sequence.hpp"
#include "gpu/batch.hpp"
#include "policy/sequence_progress.hpp"

namespace troupe {

// Appends the sequence's part: its query tokens, its pages as far as they are
// needed, what may not be drawn or is penalized. One slice, or one a token of a step
// that scores.
void add_slice(Batch& batch, const Sequence& sequence, const SequenceStep& step, std::uint32_t page_size);

}  // namespace troupe
