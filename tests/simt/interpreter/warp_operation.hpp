// SPDX-License-Identifier: Apache-2.0
// What the lanes of a warp do together: shuffles, votes, matches. Every lane in
// the mask brings an operand; when all are there, each gets its result.
#pragma once

#include <array>
#include <cstdint>
#include <source_location>

namespace troupe::simt {

inline constexpr unsigned kWarpLanes = 32;

enum class WarpOperationKind : std::uint8_t {
  kSync,
  kShuffle,      // from lane `argument` of the segment
  kShuffleUp,    // from the lane `argument` below
  kShuffleDown,  // from the lane `argument` above
  kShuffleXor,   // from the lane whose number differs in the bits of `argument`
  kBallot,
  kAny,
  kAll,
  kMatchAny,
  kReduceAdd,
  kReduceMin,
  kReduceMax,
};

const char* name_of(WarpOperationKind kind);  // "__shfl_xor_sync"

struct WarpOperation {
  WarpOperationKind kind = WarpOperationKind::kSync;
  std::uint32_t mask = 0;
  std::uint64_t operand = 0;  // bits of the value, or the predicate
  std::uint32_t argument = 0;
  std::uint32_t width = kWarpLanes;  // of a shuffle's segments: a power of two
  std::source_location where;
};

// Lanes outside `mask` are not looked at. Throws KernelError when a lane reads
// from one that takes no part.
using WarpResults = std::array<std::uint64_t, kWarpLanes>;
WarpResults perform(std::uint32_t mask, const std::array<const WarpOperation*, kWarpLanes>& lanes);

}  // namespace troupe::simt
