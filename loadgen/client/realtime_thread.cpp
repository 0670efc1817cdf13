// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/realtime_thread.hpp"

namespace troupe::loadgen {

constexpr pid_t kThisThread = 0;

RealtimeThread::RealtimeThread() : policy_before_(::sched_getscheduler(kThisThread)) {
  ::sched_getparam(kThisThread, &param_before_);
  if (policy_before_ != SCHED_OTHER) return;  // somebody has chosen
  // Not for threads and programs that it starts.
  const sched_param lowest{.sched_priority = ::sched_get_priority_min(SCHED_RR)};
  is_realtime_ = ::sched_setscheduler(kThisThread, SCHED_RR | SCHED_RESET_ON_FORK, &lowest) == 0;
}

RealtimeThread::~RealtimeThread() {
  if (is_realtime_) ::sched_setscheduler(kThisThread, policy_before_, &param_before_);
}

}  // namespace troupe::loadgen
