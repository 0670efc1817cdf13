// SPDX-License-Identifier: Apache-2.0
#include "app/start_extension.hpp"

#include <sys/resource.h>

#include <condition_variable>
#include <mutex>
#include <stop_token>

namespace troupe {
namespace {

constexpr std::chrono::seconds kBetweenLooks{10};
// What is asked for each time: a machine that is slow may let a look come late.
constexpr std::chrono::seconds kMoreTime{60};
constexpr std::chrono::microseconds kLeastCpuTime{100'000};

std::chrono::microseconds time_of(const timeval& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

void extend(const std::stop_token& stop, const ServiceManager& manager) {
  std::mutex mutex;
  std::condition_variable_any is_stopped;
  std::unique_lock lock(mutex);
  manager.extend_start(kMoreTime);
  for (ProcessUse before = process_use(); !stop.stop_requested();) {
    is_stopped.wait_for(lock, stop, kBetweenLooks, [] { return false; });
    const ProcessUse now = process_use();
    if (stop.stop_requested() || !has_got_on(before, now)) continue;
    manager.extend_start(kMoreTime);
    before = now;
  }
}

}  // namespace

ProcessUse process_use() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  return {.cpu_time = time_of(use.ru_utime) + time_of(use.ru_stime),
          .num_blocks_read = static_cast<std::uint64_t>(use.ru_inblock),
          .num_faults_read = static_cast<std::uint64_t>(use.ru_majflt)};
}

bool has_got_on(const ProcessUse& before, const ProcessUse& now) {
  return now.cpu_time - before.cpu_time >= kLeastCpuTime || now.num_blocks_read > before.num_blocks_read ||
         now.num_faults_read > before.num_faults_read;
}

StartExtension::StartExtension(const ServiceManager& manager)
    : thread_([&manager](const std::stop_token& stop) { extend(stop, manager); }) {}

}  // namespace troupe
