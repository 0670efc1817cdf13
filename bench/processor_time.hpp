// SPDX-License-Identifier: Apache-2.0
// Processor time of the calling thread, and how often it touched memory for the first time; reading either
// takes half a microsecond.
#pragma once

#include <sys/resource.h>
#include <time.h>

namespace troupe::bench {

inline double microseconds_used() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

inline long page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

}  // namespace troupe::bench
