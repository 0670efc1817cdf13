// SPDX-License-Identifier: Apache-2.0
// Reads what a damaged file of conversations still has: page by page, each
// response only if it is, by its checksum, what was written.
#pragma once

#include <cstdint>

#include "store/sqlite/sqlite.hpp"
#include "store/sqlite/sqlite_pages.hpp"

namespace troupe {

struct Salvaged {
  std::uint64_t num_responses = 0;  // whole
  std::uint64_t num_lost = 0;       // only the id was left, or a part that differs from what was written
};

// Into a new file, which has the tables and no rows. A response that is lost gets
// a row there (ResponseState::kLost), for a month from `now` (Unix seconds), so
// that a client asking for it is told. Throws SqliteError if the new file can't be
// written.
Salvaged salvage_responses(const SqlitePages& damaged, SqliteDatabase& fresh, std::int64_t now);

}  // namespace troupe
