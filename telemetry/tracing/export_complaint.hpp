// SPDX-License-Identifier: Apache-2.0
// Says in the log when spans begin to get lost and when they arrive again, not
// every time: a collector that is down for a night leaves two lines.
#pragma once

#include <string>

namespace troupe {

// One thread.
class ExportComplaint {
 public:
  explicit ExportComplaint(std::string destination) : destination_(std::move(destination)) {}

  void note_failure(const std::string& reason);
  void note_success();

 private:
  std::string destination_;
  bool is_failing_ = false;
};

}  // namespace troupe
