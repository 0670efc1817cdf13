// SPDX-License-Identifier: Apache-2.0
#include "app/logging.hpp"

#include "telemetry/log.hpp"

namespace troupe {

void configure_logging_from(const Options& options) {
  configure_logging(parse_log_level(options.log_level).value_or(LogLevel::kInfo),
                    options.log_format == "json" ? LogFormat::kJson : LogFormat::kText);
}

}  // namespace troupe
