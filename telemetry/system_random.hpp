// SPDX-License-Identifier: Apache-2.0
// Numbers from the system's random source (getrandom). Each is drawn for
// itself: none says anything of another, so they may be shown to strangers.
#pragma once

#include <cstdint>

namespace troupe {

// Any thread; no lock, and a system call for every 64th number of a thread.
// Throws std::system_error if the system has no random source.
std::uint64_t system_random();

}  // namespace troupe
