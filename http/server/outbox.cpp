// SPDX-License-Identifier: Apache-2.0
#include "http/server/outbox.hpp"

namespace troupe {

void Outbox::put(Entry entry) {
  const std::lock_guard lock(mutex_);
  if (is_closed_) return;
  entries_.push_back(std::move(entry));
  if (is_rung_) return;
  is_rung_ = true;
  ring_();  // under the lock: after close() the bell may be gone
}

bool Outbox::take(std::vector<Entry>& entries) {
  entries.clear();
  const std::lock_guard lock(mutex_);
  entries.swap(entries_);
  is_rung_ = !entries.empty();
  return is_rung_;
}

void Outbox::close() {
  std::vector<Entry> dropped;  // destroyed outside the lock
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  dropped.swap(entries_);
}

}  // namespace troupe
