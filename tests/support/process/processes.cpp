// SPDX-License-Identifier: Apache-2.0
#include "tests/support/process/processes.hpp"
#include "tests/support/eventually.hpp"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace troupe::test {
namespace {

struct Status {
  char state = '?';
  pid_t parent = 0;
};

// Empty: there is no such process.
std::optional<Status> status_of(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  // The name before it is in brackets and may hold anything.
  std::istringstream rest(line.substr(line.rfind(')') + 1));
  Status status;
  rest >> status.state >> status.parent;
  return status;
}

}  // namespace

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc{}) continue;
    const auto status = status_of(name);
    if (status && status->parent == parent) children.push_back(pid);
  }
  return children;
}

bool is_zombie(pid_t pid) {
  const auto status = status_of(std::to_string(pid));
  return status && status->state == 'Z';
}

bool exists(pid_t pid) { return status_of(std::to_string(pid)).has_value(); }

bool is_stopped(pid_t pid) {
  const auto status = status_of(std::to_string(pid));
  return status && status->state == 'T';
}

bool is_gone_soon(pid_t pid) {
  return eventually([pid] { return !exists(pid) || is_zombie(pid); });
}

}  // namespace troupe::test
