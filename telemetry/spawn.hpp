// SPDX-License-Identifier: Apache-2.0
// Starts a program as a process group of its own: Ctrl-C on a terminal reaches the program
// that started it alone. It has no signal blocked or ignored, nothing to read, and nothing
// open but what is named here. Waiting for its end is the caller's.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace troupe {

struct SpawnCommand {
  std::string program;                                  // a path, or a name that is searched in PATH
  std::vector<std::string> arguments;                   // [0]: as what it is shown
  std::map<std::string, std::string> environment = {};  // on top of ours
  std::string output_file = {};  // for stdout and stderr; is overwritten. Empty: our stderr is both
  int descriptor = -1;           // becomes its kSpawnedDescriptor; -1: none
};

inline constexpr int kSpawnedDescriptor = 3;

// Returns an error number, or 0 and the process in `pid`. Any thread.
int spawn(const SpawnCommand& command, pid_t& pid);

}  // namespace troupe
