// SPDX-License-Identifier: Apache-2.0
#include "telemetry/shipped_path.hpp"

#include <system_error>

namespace troupe {

namespace fs = std::filesystem;

fs::path find_above(const fs::path& start, const fs::path& relative) {
  std::error_code ignored;  // what can't be looked at is not there
  for (fs::path folder = start; !folder.empty(); folder = folder.parent_path()) {
    if (fs::exists(folder / relative, ignored)) return folder / relative;
    if (folder == folder.root_path()) break;
  }
  return {};
}

fs::path shipped_path(const fs::path& relative) {
  std::error_code ignored;
  if (fs::exists(relative, ignored)) return relative;
  const fs::path found = shipped_beside_program(relative);
  return found.empty() ? relative : found;
}

fs::path shipped_beside_program(const fs::path& relative) {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  for (const fs::path& place : {relative, "share/troupe" / relative})
    if (const fs::path found = find_above(program.parent_path(), place); !found.empty()) return found;
  return {};
}

}  // namespace troupe
