// SPDX-License-Identifier: Apache-2.0
// What the system knows of other processes, from /proc.
#pragma once

#include <sys/types.h>

#include <vector>

namespace troupe::test {

// Running or not yet reaped.
std::vector<pid_t> children_of(pid_t parent);

// Ended, and its parent has not asked how.
bool is_zombie(pid_t pid);

bool exists(pid_t pid);

// By SIGSTOP.
bool is_stopped(pid_t pid);

// Waits until it is gone, for ten seconds at most. A zombie is gone.
bool is_gone_soon(pid_t pid);

}  // namespace troupe::test
