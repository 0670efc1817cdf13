// SPDX-License-Identifier: Apache-2.0
// How much of a file system KV leaves free: conversations are on it too, and can't
// be computed again.
#pragma once

#include <algorithm>
#include <cstdint>

namespace troupe {

// Bytes of a file system.
struct DiskSpace {
  std::uint64_t total = 0;
  std::uint64_t available = 0;
};

constexpr std::uint64_t kMostReserved = 256ULL << 20;
constexpr std::uint64_t kReservedPart = 10;  // of a small file system: one of so many

constexpr std::uint64_t disk_reserve(const DiskSpace& space) {
  return std::min(kMostReserved, space.total / kReservedPart);
}

// May a file for KV grow by so much?
constexpr bool has_room_for(const DiskSpace& space, std::uint64_t bytes) {
  const std::uint64_t reserve = disk_reserve(space);
  return space.available >= reserve && space.available - reserve >= bytes;
}

// May the file of turns grow by so much? It is small, and KV is found by it: it has half of what
// KV leaves free.
constexpr bool has_room_for_turns(const DiskSpace& space, std::uint64_t bytes) {
  return space.available >= disk_reserve(space) / 2 + bytes;
}

// The bytes that KV has to give back.
constexpr std::uint64_t lacking_space(const DiskSpace& space) {
  const std::uint64_t reserve = disk_reserve(space);
  return reserve - std::min(reserve, space.available);
}

}  // namespace troupe
