// SPDX-License-Identifier: Apache-2.0
// The records in the pages of a SQLite file that is damaged: cell by cell, with
// no use of the tree above them. A record counts only if its columns have the
// types that are looked for and its lengths add up to the byte.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "store/sqlite/sqlite_pages.hpp"

namespace troupe {

// NULL, a number, or text or bytes.
using SqliteValue = std::variant<std::monostate, std::int64_t, std::string>;

struct SqliteRecord {
  std::size_t shape = 0;  // which of those looked for
  std::int64_t row = 0;   // its rowid, in a table that has them
  std::vector<SqliteValue> values;
};

// Where records of a shape are, and the types of their columns, a letter each:
// i number, t text, b bytes, n NULL, o number or NULL.
struct RecordShape {
  bool has_row = false;  // in a table with rowids; else in an index, or a table without
  std::string_view columns;
};

class SqliteRecords {
 public:
  // Both must outlive this.
  SqliteRecords(const SqlitePages& pages, std::span<const RecordShape> shapes);

  // The records of one page. The byte that says how a page is laid out may be damaged
  // like any other: if it leads to no record, the other layouts are tried, but not
  // where it is 0 as in a page of overflowing text (clients choose what is in
  // these), unless the page is known to be no such one.
  std::vector<SqliteRecord> of_page(std::uint32_t number, bool is_known_to_hold_cells);

 private:
  enum class Layout : std::uint8_t { kIndexInterior = 0x02, kIndexLeaf = 0x0a, kTableLeaf = 0x0d };

  std::vector<SqliteRecord> read_cells(const SqlitePages::Page& page, Layout layout);
  bool read_cell(const SqlitePages::Page& page, Layout layout, std::size_t at, SqliteRecord& record);
  bool read_overflow(std::uint32_t first, std::size_t size, std::string& payload);

  const SqlitePages& pages_;
  std::span<const RecordShape> shapes_;
  std::uint64_t overflow_pages_left_;  // a file made to be read for ever is not
};

}  // namespace troupe
