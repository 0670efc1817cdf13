// SPDX-License-Identifier: Apache-2.0
// The tables of a file of conversations, to the letter.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "store/sqlite/sqlite.hpp"
#include "store/sqlite/sqlite_pages.hpp"

namespace troupe {

// It is no database, none of ours, or a damaged one. Its responses may be readable.
struct UnusableFile : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A later troupe wrote it. It is left alone.
struct NewerFile : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void create_schema(SqliteDatabase& database);
// Throws UnusableFile, or NewerFile.
void check_schema(const SqliteDatabase& database);
// Names the newest version in a file that an earlier troupe wrote, so that none of those writes into it
// again.
void upgrade_schema(SqliteDatabase& database);
// As far as the first page says it. Throws NewerFile.
void check_version(const SqlitePages& pages);

}  // namespace troupe
