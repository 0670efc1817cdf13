// SPDX-License-Identifier: Apache-2.0
// Why the store could not do what it was asked, as a value.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

enum class StoreFault : std::uint8_t {
  kNotFound,  // not there, deleted, expired, or another tenant's: clients can't tell which
  kTooLong,   // more turns than are read
  kDamaged,   // this response, or one that it continues, is not what was written
  kFull,      // the disk, or the limit on the file
  kBusy,      // another program has locked the file
  kReadOnly,  // a sync has failed: of what is written now, nothing is certain
  kUnusable,  // cannot be written or read, or could not be opened
};

struct StoreError {
  StoreFault fault = StoreFault::kUnusable;
  std::string message;  // for the log; paths and SQLite's words, no contents
};

}  // namespace troupe
