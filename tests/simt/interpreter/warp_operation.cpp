// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/interpreter/warp_operation.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "tests/simt/interpreter/kernel_error.hpp"

namespace troupe::simt {
namespace {

using Lanes = std::array<const WarpOperation*, kWarpLanes>;

bool is_in(std::uint32_t mask, unsigned lane) { return (mask >> lane & 1U) != 0; }

// The lane a shuffle reads, after the CUDA C++ Programming Guide, "Warp Shuffle
// Functions": a segment of `width` lanes, numbered from 0; what would come from
// outside of it is the lane's own value.
unsigned source_of(const WarpOperation& operation, unsigned lane) {
  const unsigned width = operation.width;
  const unsigned segment = lane / width * width;
  const unsigned own = lane % width;
  switch (operation.kind) {
    case WarpOperationKind::kShuffle: return segment + operation.argument % width;
    case WarpOperationKind::kShuffleUp: return operation.argument > own ? lane : lane - operation.argument;
    case WarpOperationKind::kShuffleDown:
      return operation.argument >= width - own ? lane : lane + operation.argument;
    default: {
      // A later segment may not be read, an earlier one may.
      const unsigned other = lane ^ operation.argument;
      return other >= segment + width ? lane : other;
    }
  }
}

std::uint64_t shuffled(std::uint32_t mask, const Lanes& lanes, unsigned lane) {
  const WarpOperation& operation = *lanes[lane];
  const unsigned source = source_of(operation, lane);
  if (source >= kWarpLanes || !is_in(mask, source)) {
    throw KernelError(std::string(name_of(operation.kind)) + " at " + text_of(operation.where) + ": lane " +
                      std::to_string(lane) + " reads lane " + std::to_string(source) +
                      ", which takes no part");
  }
  return lanes[source]->operand;
}

template <typename Predicate>
std::uint32_t lanes_where(std::uint32_t mask, const Lanes& lanes, Predicate predicate) {
  std::uint32_t found = 0;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    if (is_in(mask, lane) && predicate(*lanes[lane])) found |= 1U << lane;
  }
  return found;
}

std::uint64_t reduced(std::uint32_t mask, const Lanes& lanes, WarpOperationKind kind) {
  std::int64_t result = 0;
  bool is_first = true;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    if (!is_in(mask, lane)) continue;
    const auto value = static_cast<std::int64_t>(lanes[lane]->operand);
    if (is_first || kind == WarpOperationKind::kReduceAdd) {
      result += value;
    } else {
      result = kind == WarpOperationKind::kReduceMin ? std::min(result, value) : std::max(result, value);
    }
    is_first = false;
  }
  return static_cast<std::uint64_t>(result);
}

std::uint64_t result_of(std::uint32_t mask, const Lanes& lanes, unsigned lane) {
  const auto is_true = [](const WarpOperation& other) { return other.operand != 0; };
  switch (lanes[lane]->kind) {
    case WarpOperationKind::kSync: return 0;
    case WarpOperationKind::kShuffle:
    case WarpOperationKind::kShuffleUp:
    case WarpOperationKind::kShuffleDown:
    case WarpOperationKind::kShuffleXor: return shuffled(mask, lanes, lane);
    case WarpOperationKind::kBallot: return lanes_where(mask, lanes, is_true);
    case WarpOperationKind::kAny: return lanes_where(mask, lanes, is_true) != 0 ? 1 : 0;
    case WarpOperationKind::kAll: return lanes_where(mask, lanes, is_true) == mask ? 1 : 0;
    case WarpOperationKind::kMatchAny:
      return lanes_where(mask, lanes,
                         [&](const WarpOperation& other) { return other.operand == lanes[lane]->operand; });
    case WarpOperationKind::kReduceAdd:
    case WarpOperationKind::kReduceMin:
    case WarpOperationKind::kReduceMax: return reduced(mask, lanes, lanes[lane]->kind);
  }
  return 0;
}

bool is_same_for_all(WarpOperationKind kind) {
  switch (kind) {
    case WarpOperationKind::kSync:
    case WarpOperationKind::kBallot:
    case WarpOperationKind::kAny:
    case WarpOperationKind::kAll:
    case WarpOperationKind::kReduceAdd:
    case WarpOperationKind::kReduceMin:
    case WarpOperationKind::kReduceMax: return true;
    default: return false;
  }
}

}  // namespace

const char* name_of(WarpOperationKind kind) {
  switch (kind) {
    case WarpOperationKind::kSync: return "__syncwarp";
    case WarpOperationKind::kShuffle: return "__shfl_sync";
    case WarpOperationKind::kShuffleUp: return "__shfl_up_sync";
    case WarpOperationKind::kShuffleDown: return "__shfl_down_sync";
    case WarpOperationKind::kShuffleXor: return "__shfl_xor_sync";
    case WarpOperationKind::kBallot: return "__ballot_sync";
    case WarpOperationKind::kAny: return "__any_sync";
    case WarpOperationKind::kAll: return "__all_sync";
    case WarpOperationKind::kMatchAny: return "__match_any_sync";
    case WarpOperationKind::kReduceAdd: return "__reduce_add_sync";
    case WarpOperationKind::kReduceMin: return "__reduce_min_sync";
    case WarpOperationKind::kReduceMax: return "__reduce_max_sync";
  }
  return "?";
}

WarpResults perform(std::uint32_t mask, const Lanes& lanes) {
  WarpResults results{};
  const auto first = static_cast<unsigned>(std::countr_zero(mask));
  if (first < kWarpLanes && is_same_for_all(lanes[first]->kind)) {
    results.fill(result_of(mask, lanes, first));
    return results;
  }
  for (unsigned lane = first; lane < kWarpLanes; ++lane) {
    if (is_in(mask, lane)) results[lane] = result_of(mask, lanes, lane);
  }
  return results;
}

}  // namespace troupe::simt
