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

// Changes the seed where the first token of a draw may not be: the same number would not give the others as
// often as they are likely.
inline constexpr std::uint64_t kSeedOfSecondDraws = 0x9E3779B97F4A7C15U;

// Appends the sequence's part: its query tokens, its pages as far as they are
// needed, what may be drawn, is biased or penalized. One slice, or one a token of a step
// that scores.
void add_slice(Batch& batch, const Sequence& sequence, const SequenceStep& step,
               const DeviceDescription& device);

}  // namespace troupe
