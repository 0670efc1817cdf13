// SPDX-License-Identifier: Apache-2.0
#include "http/server/outbox.hpp"

namespace troupe {

void Outbox::put(Entry entry) {
  {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return;
    entries_.push_back(std::move(entry));
    if (is_rung_) return;
    is_rung_ = true;
    num_ringing_ += 1;
  }
  ring_();
  num_ringing_ -= 1;
  num_ringing_.notify_all();
}

bool Outbox::take(std::vector<Entry>& entries) {
  entries.clear();
  const std::lock_guard lock(mutex_);
  entries.swap(entries_);
  is_rung_ = !entries.empty();
  return is_rung_;
}

bool Outbox::arm() {
  const std::lock_guard lock(mutex_);
  is_rung_ = !entries_.empty();
  return !is_rung_;
}

void Outbox::close() {
  std::vector<Entry> dropped;  // destroyed outside the lock
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    dropped.swap(entries_);
  }
  for (int ringing = num_ringing_; ringing > 0; ringing = num_ringing_) num_ringing_.wait(ringing);
}

}  // namespace troupe
