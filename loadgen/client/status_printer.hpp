// SPDX-License-Identifier: Apache-2.0
// Shows how a run goes: one line that is overwritten each time on a terminal,
// elsewhere a line every ten seconds.
#pragma once

#include <chrono>
#include <cstdio>

#include "loadgen/client/live_status.hpp"

namespace troupe::loadgen {

class StatusPrinter {
 public:
  explicit StatusPrinter(std::FILE* out);

  void print(const LiveStatus& status);
  // The line stays, what comes next begins below it.
  void finish();

 private:
  std::FILE* out_;
  bool is_terminal_;
  bool has_line_ = false;
  std::chrono::nanoseconds next_{0};
};

}  // namespace troupe::loadgen
