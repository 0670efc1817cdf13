// SPDX-License-Identifier: Apache-2.0
// Many streams from a running server at once, read as cheaply as can be: the
// client of benchmarks that measure the server.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace troupe::bench {

// CPU time a process has used, all its threads.
double cpu_seconds(pid_t pid);

// Asks for a streamed chat answer of so many tokens; the connection's descriptor.
int open_stream(std::uint16_t port, int num_tokens);

// Reads all streams to their end; the number of events seen.
long drain_streams(const std::vector<int>& streams);

}  // namespace troupe::bench
