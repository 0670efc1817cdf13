// SPDX-License-Identifier: Apache-2.0
// Overwrites clients' words with zeros before the blocks that hold them are freed: the next
// owner of a block may read what is in it. Zeros are synced before a file is cut or loses its
// name, since pages of the cache that belong to no file never reach the disk. A file system
// that does not write in place keeps words all the same.
//
// Errors are errno's; 0: done. All of this blocks on the disk.
#pragma once

#include <cstdint>

namespace troupe {

// Bytes [place, place + num_bytes), without a sync. Bytes behind those that the disk refuses are
// overwritten all the same, and the first refusal returned.
int write_zeros(int file, std::uint64_t place, std::uint64_t num_bytes);
// Overwrites the bytes from `place` on, but for holes, and syncs the file if there were any.
int overwrite_behind(int file, std::uint64_t place);
// The same, and then the file ends at `place`. After an error it is as long as before, so
// that a later call finds the words.
int cut_off(int file, std::uint64_t place);
// The same, but the file ends at `place` even where the disk refuses zeros, which is logged: what
// stands in front of damage is worth more than the blocks behind it.
int cut_off_damage(int file, std::uint64_t place);

}  // namespace troupe
