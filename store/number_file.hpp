// SPDX-License-Identifier: Apache-2.0
// Files in the state directory that keep what was measured on this machine: numbers by all
// that they depend on, a row a number. Read as hostile input: a plain file that only its
// owner reads, no link, no foreign tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "store/state_directory.hpp"

namespace troupe {

// One kind of numbers, with the names that its file has for them.
struct NumberFile {
  const char* name;    // of the file
  const char* table;   // of the database
  const char* column;  // of the numbers
};

// Empty: none are kept for the key. Reads one more than at_most, which says that there are too
// many. Throws std::runtime_error if the file can't be read.
std::vector<std::int64_t> read_numbers(const StateDirectory& directory, const NumberFile& file,
                                       const std::string& key, std::size_t at_most);

// In place of those kept for the key before, in one step. A damaged file is begun anew. Throws
// std::runtime_error.
void write_numbers(const StateDirectory& directory, const NumberFile& file, const std::string& key,
                   std::span<const std::int64_t> numbers);

}  // namespace troupe
