// SPDX-License-Identifier: Apache-2.0
#include "app/descriptor_limit.hpp"

#include <sys/resource.h>

#include <cerrno>
#include <system_error>

#include "telemetry/log.hpp"

namespace troupe {

std::uint64_t descriptor_limit() {
  rlimit files{};
  return ::getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_max : 0;
}

void raise_descriptor_limit() {
  rlimit files{};
  bool is_done = ::getrlimit(RLIMIT_NOFILE, &files) == 0;
  files.rlim_cur = files.rlim_max;
  is_done = is_done && ::setrlimit(RLIMIT_NOFILE, &files) == 0;
  if (!is_done)
    log(LogLevel::kWarning, "the limit of open files can't be raised",
        {{"reason", std::generic_category().message(errno)}});
}

}  // namespace troupe
