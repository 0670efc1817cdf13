// SPDX-License-Identifier: Apache-2.0
// Control groups that bound what this process may take of the machine, of version 1 or 2. All of those above
// a process count, up to the root that a container sees.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string_view>
#include <vector>

namespace troupe {

// The groups of this process that have the controller. Groups that are not there have no files. root: of /sys
// and /proc.
std::vector<std::filesystem::path> control_groups(const std::filesystem::path& root,
                                                  std::string_view controller);

struct GrantedMemory {
  std::uint64_t limit_bytes = 0;  // the tightest; 0: no bound
  // Below its limit, of the group that has least left, copies of files counted as left; the largest number:
  // no bound.
  std::uint64_t left_bytes = std::numeric_limits<std::uint64_t>::max();
};
GrantedMemory memory_granted(const std::filesystem::path& root);

}  // namespace troupe
