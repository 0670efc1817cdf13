// SPDX-License-Identifier: Apache-2.0
// How long the disk takes to give a KV page back, tried with a file of a few
// megabytes that no other process sees and that is gone afterwards.
#pragma once

#include <cstdint>

namespace troupe {

// Nanoseconds of reading so many bytes from a random place in the file system of
// `directory` (a descriptor): the median, with what the kernel keeps of the file
// in memory given up first, as far as it does so. Writes and syncs at most 8 MiB
// (or four pages): tens of milliseconds. Throws std::runtime_error.
double measure_read_time(int directory, std::uint64_t page_bytes);

}  // namespace troupe
