// SPDX-License-Identifier: Apache-2.0
#include "tests/store/failing_vfs.hpp"

#include <sqlite3.h>

#include <mutex>
#include <new>
#include <string>

namespace troupe::test {
namespace {

static_assert(DiskFaults{}.code_of_reads == SQLITE_IOERR_READ);

struct FailingFile {
  sqlite3_file base;
  sqlite3_file* real;
};

sqlite3_vfs* real_vfs() {
  static sqlite3_vfs* const real = sqlite3_vfs_find(nullptr);
  return real;
}
sqlite3_file* real(sqlite3_file* file) { return reinterpret_cast<FailingFile*>(file)->real; }

struct SharedFaults {
  std::mutex mutex;
  DiskFaults faults;
};

SharedFaults& shared_faults() {
  static SharedFaults shared;
  return shared;
}

// The code to fail with, or 0 to go on.
int fault(int code) {
  auto& [mutex, faults] = shared_faults();
  const std::lock_guard lock(mutex);
  if (faults.only != 0 && faults.only != code) return SQLITE_OK;
  ++faults.num_operations;
  const bool is_due = faults.fail_at > 0 && (faults.num_operations == faults.fail_at ||
                                             (faults.for_ever && faults.num_operations > faults.fail_at));
  faults.was_hit = faults.was_hit || is_due;
  return is_due ? code : SQLITE_OK;
}

int close_file(sqlite3_file* file) { return real(file)->pMethods->xClose(real(file)); }
int read_file(sqlite3_file* file, void* data, int size, sqlite3_int64 offset) {
  if (const int code = fault(disk_faults().code_of_reads)) return code;
  return real(file)->pMethods->xRead(real(file), data, size, offset);
}
// A write that fails may have written a part.
int write_file(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
  if (const int code = fault(disk_faults().code)) {
    real(file)->pMethods->xWrite(real(file), data, size / 2, offset);
    return code;
  }
  return real(file)->pMethods->xWrite(real(file), data, size, offset);
}
int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
  if (const int code = fault(SQLITE_IOERR_TRUNCATE)) return code;
  return real(file)->pMethods->xTruncate(real(file), size);
}
int sync_file(sqlite3_file* file, int flags) {
  if (const int code = fault(SQLITE_IOERR_FSYNC)) return code;
  return real(file)->pMethods->xSync(real(file), flags);
}
int file_size(sqlite3_file* file, sqlite3_int64* size) {
  if (const int code = fault(SQLITE_IOERR_FSTAT)) return code;
  return real(file)->pMethods->xFileSize(real(file), size);
}
int lock_file(sqlite3_file* file, int level) { return real(file)->pMethods->xLock(real(file), level); }
int unlock_file(sqlite3_file* file, int level) { return real(file)->pMethods->xUnlock(real(file), level); }
int check_lock(sqlite3_file* file, int* result) {
  return real(file)->pMethods->xCheckReservedLock(real(file), result);
}
int control_file(sqlite3_file* file, int what, void* argument) {
  return real(file)->pMethods->xFileControl(real(file), what, argument);
}
int sector_size(sqlite3_file* file) { return real(file)->pMethods->xSectorSize(real(file)); }
int characteristics(sqlite3_file* file) { return real(file)->pMethods->xDeviceCharacteristics(real(file)); }

// Version 1: no shared memory, which an exclusively locked file does not need.
constexpr sqlite3_io_methods kMethods = {
    1,         close_file,  read_file,  write_file,   truncate_file, sync_file,       file_size,
    lock_file, unlock_file, check_lock, control_file, sector_size,   characteristics, nullptr,
    nullptr,   nullptr,     nullptr,    nullptr,      nullptr};

int open_file(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  auto* failing = reinterpret_cast<FailingFile*>(file);
  failing->base.pMethods = nullptr;
  if (const int code = fault(SQLITE_CANTOPEN)) return code;
  failing->real = reinterpret_cast<sqlite3_file*>(failing + 1);
  const int code = real_vfs()->xOpen(real_vfs(), name, failing->real, flags, out_flags);
  if (failing->real->pMethods != nullptr) failing->base.pMethods = &kMethods;
  return code;
}

int delete_file(sqlite3_vfs*, const char* name, int sync) {
  if (const int code = fault(SQLITE_IOERR_DELETE)) return code;
  return real_vfs()->xDelete(real_vfs(), name, sync);
}

}  // namespace

void set_disk_faults(const DiskFaults& faults) {
  const std::lock_guard lock(shared_faults().mutex);
  shared_faults().faults = faults;
}

DiskFaults disk_faults() {
  const std::lock_guard lock(shared_faults().mutex);
  return shared_faults().faults;
}

const char* failing_vfs(bool is_default) {
  static sqlite3_vfs vfs = [] {
    sqlite3_vfs copy = *real_vfs();
    copy.zName = "failing";
    copy.szOsFile = static_cast<int>(sizeof(FailingFile)) + real_vfs()->szOsFile;
    copy.xOpen = open_file;
    copy.xDelete = delete_file;
    copy.pNext = nullptr;
    return copy;
  }();
  sqlite3_vfs_register(&vfs, is_default ? 1 : 0);
  return vfs.zName;
}

}  // namespace troupe::test
