# SPDX-License-Identifier: Apache-2.0
"""Takes files out of the kernel's page cache, so that reading them reads the disk."""
import os
import sys

STEP = 1 << 20  # bytes between two looks at a file


def drop(folder):
    """All files of more than a MiB below the folder; the benchmark ends if the kernel keeps one, as a file system in memory does."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size > STEP):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)  # what is not yet written can't be dropped
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            kept = kept_bytes(descriptor)
        finally:
            os.close(descriptor)
        if kept > os.stat(path).st_blocks * 512 // 10:
            sys.exit(f"{path}: the kernel keeps {kept >> 20} MiB of it in memory, so nothing is read from a disk; "
                     "TMPDIR names a folder on one")


def kept_bytes(descriptor):
    """About so many bytes are in memory: a read that may not wait finds them."""
    size, kept, offset = os.fstat(descriptor).st_size, 0, 0
    while offset < size:
        try:
            offset = os.lseek(descriptor, offset, os.SEEK_DATA)
        except OSError:  # only holes follow
            break
        kept += STEP if is_in_memory(descriptor, offset) else 0
        offset += STEP
    return min(kept, size)


def is_in_memory(descriptor, offset):
    try:
        return os.preadv(descriptor, [bytearray(1)], offset, os.RWF_NOWAIT) > 0
    except BlockingIOError:
        return False
    except OSError:  # the file system has no such read: it may be in memory
        return True
