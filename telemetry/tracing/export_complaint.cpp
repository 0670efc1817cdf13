// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/export_complaint.hpp"

#include <utility>

#include "telemetry/log.hpp"

namespace troupe {

void ExportComplaint::note_failure(const std::string& reason) {
  if (std::exchange(is_failing_, true)) return;
  log(LogLevel::kWarning, "traces are being lost", {{"to", destination_}, {"reason", reason}});
}

void ExportComplaint::note_success() {
  if (!std::exchange(is_failing_, false)) return;
  log(LogLevel::kInfo, "traces arrive again", {{"to", destination_}});
}

}  // namespace troupe
