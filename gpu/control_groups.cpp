// SPDX-License-Identifier: Apache-2.0
#include "gpu/control_groups.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace troupe {
namespace {

namespace fs = std::filesystem;

// Names of a group's files: version 2 has one tree for all, version 1 one for each controller.
struct Hierarchy {
  fs::path root;      // of its groups, as they are mounted
  std::string group;  // of this process, as that tree names it
};

bool has_controller(const std::string& list, std::string_view name) {
  std::istringstream names(list);
  for (std::string each; std::getline(names, each, ',');)
    if (each == name) return true;
  return false;
}

// Lines are "id:controllers:group"; without controllers it is version 2.
std::vector<Hierarchy> hierarchies(const fs::path& root, std::string_view controller) {
  const fs::path all = root / "sys/fs/cgroup";
  std::vector<Hierarchy> found = {{.root = all, .group = "/"}};  // as a container sees it
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      found.push_back({.root = all, .group = group});
      found.push_back({.root = all / "unified", .group = group});  // beside version 1
    } else if (has_controller(controllers, controller)) {
      found.push_back({.root = all / controllers, .group = group});
      found.push_back({.root = all / controller, .group = group});
    }
  }
  return found;
}

// "max" is none.
std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream stream(file);
  std::uint64_t number = 0;
  if (stream >> number) return number;
  return std::nullopt;
}

// Copies of files, which go as soon as memory is wanted. A group counts them as used: a model that has just
// been fetched would else leave no room for itself.
std::uint64_t file_cache_bytes(const fs::path& stat, std::string_view inactive, std::string_view active) {
  std::ifstream stream(stat);
  std::uint64_t sum = 0, number = 0;
  for (std::string name; stream >> name >> number;)
    if (name == inactive || name == active) sum += number;
  return sum;
}

}  // namespace

std::vector<fs::path> control_groups(const fs::path& root, std::string_view controller) {
  std::vector<fs::path> groups;
  for (const Hierarchy& hierarchy : hierarchies(root, controller)) {
    fs::path group = hierarchy.root;
    groups.push_back(group);
    for (const auto& part : fs::path(hierarchy.group).relative_path()) groups.push_back(group /= part);
  }
  return groups;
}

GrantedMemory memory_granted(const fs::path& root) {
  // Version 1 has a number where there is no bound, too: the largest that is a multiple of a page.
  constexpr std::uint64_t kNoBound = std::uint64_t{1} << 62;
  struct Names {
    const char *limit, *used, *inactive_file, *active_file;
  };
  constexpr Names kVersions[] = {
      {"memory.max", "memory.current", "inactive_file", "active_file"},
      {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"}};
  GrantedMemory granted;
  for (const auto& group : control_groups(root, "memory")) {
    for (const Names& names : kVersions) {
      const auto limit = number_in(group / names.limit);
      if (!limit || *limit >= kNoBound || *limit == 0) continue;
      const std::uint64_t counted = number_in(group / names.used).value_or(0);
      const std::uint64_t used =
          counted -
          std::min(counted, file_cache_bytes(group / "memory.stat", names.inactive_file, names.active_file));
      granted.limit_bytes = granted.limit_bytes == 0 ? *limit : std::min(granted.limit_bytes, *limit);
      granted.left_bytes = std::min(granted.left_bytes, *limit - std::min(*limit, used));
    }
  }
  return granted;
}

}  // namespace troupe
