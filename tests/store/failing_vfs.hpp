// SPDX-License-Identifier: Apache-2.0
// SQLite's own way to the disk with a fault in it: the n-th operation fails,
// alone or with all that follow.
#pragma once

#include <cstdint>

namespace troupe::test {

struct DiskFaults {
  std::uint64_t fail_at = 0;  // counts from 1; 0: never
  bool for_ever = false;
  int only = 0;             // not 0: operations that fail with this code are counted and fail, no others
  int code = 0;             // SQLITE_IOERR_WRITE, SQLITE_FULL …; of writes, others fail as themselves
  int code_of_reads = 266;  // SQLITE_IOERR_READ
  std::uint64_t num_operations = 0;
  bool was_hit = false;
};

// The name to open files by, or what is opened without a name goes this way, too.
const char* failing_vfs(bool is_default = false);

// The faults of all these files; any thread, also while a store works.
void set_disk_faults(const DiskFaults& faults);
// The faults as they were set, with what was counted and hit since.
DiskFaults disk_faults();

}  // namespace troupe::test
