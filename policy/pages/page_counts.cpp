// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/page_counts.hpp"

namespace troupe {

PageCounts& PageCounts::operator+=(const PageCounts& other) {
  total += other.total;
  free += other.free;
  cached += other.cached;
  running += other.running;
  host_total += other.host_total;
  host_free += other.host_free;
  disk_total += other.disk_total;
  disk_free += other.disk_free;
  return *this;
}

}  // namespace troupe
