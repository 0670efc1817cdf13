// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/in_flight_depth.hpp"

#include <algorithm>

namespace troupe::cuda {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kKernelTime{2000};  // launched by a graph, with next to nothing to do
// Two messages between processes, four threads that are woken and a decision of 8 us; a paced iteration of
// one stream takes 167 us of the host's cores (docs/results/engine.md).
constexpr nanoseconds kHostTurn{200'000};
constexpr nanoseconds::rep kFewest = 2, kMost = 4;

}  // namespace

nanoseconds least_time(const DecodeStep& step) {
  nanoseconds reading{0};
  if (step.bytes_per_second > 0)
    reading = nanoseconds(static_cast<nanoseconds::rep>(1e9 * static_cast<double>(step.weight_bytes) /
                                                        static_cast<double>(step.bytes_per_second)));
  return std::max(step.num_kernels * kKernelTime, reading);
}

std::uint32_t in_flight_depth(nanoseconds least_step_time) {
  const nanoseconds::rep step = std::max(least_step_time, nanoseconds(1)).count();
  const nanoseconds::rep waiting = (kHostTurn.count() + step - 1) / step;
  return static_cast<std::uint32_t>(std::clamp(1 + waiting, kFewest, kMost));
}

}  // namespace troupe::cuda
