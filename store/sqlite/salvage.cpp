// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/salvage.hpp"

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/response_rows.hpp"
#include "store/sqlite/sqlite_records.hpp"

namespace troupe {
namespace {

constexpr std::int64_t kSecondsLostIsKnown = 30 * 24 * 3600;
constexpr std::uint32_t kPagesATransaction = 1024;
// The tables and indices of a file of ours begin on the pages behind the first,
// which has the schema only.
constexpr std::uint32_t kLastRootPage = 6;

// As the tables say, column by column; the indices that are not named here have
// nothing that the tables have not.
enum Shape : std::uint8_t { kResponse, kMessage, kIdIndex };
constexpr std::array<RecordShape, 3> kShapes = {{
    {.has_row = true, .columns = "nttoiiittttiiiiiibi"},
    {.has_row = false, .columns = "iitt"},
    {.has_row = false, .columns = "ti"},
}};
constexpr std::size_t kBlobColumn = 17;  // of a response: its tokens

void bind(SqliteStatement& statement, const SqliteValue& value, bool is_blob) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    statement.bind(*number);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    is_blob ? statement.bind_bytes(std::as_bytes(std::span(*text))) : statement.bind(*text);
  } else {
    statement.bind_null();
  }
}

// The first of two with the same key stays.
void insert_response(const SqliteDatabase& fresh, const SqliteRecord& record) {
  SqliteStatement statement(
      fresh,
      "INSERT OR IGNORE INTO response VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  statement.bind(record.row);
  for (std::size_t i = 1; i < record.values.size(); ++i) bind(statement, record.values[i], i == kBlobColumn);
  statement.run();
}

void insert_message(const SqliteDatabase& fresh, const SqliteRecord& record) {
  SqliteStatement statement(fresh, "INSERT OR IGNORE INTO message VALUES(?, ?, ?, ?)");
  for (const SqliteValue& value : record.values) bind(statement, value, false);
  statement.run();
}

// Where the index has an id and no row has it.
std::int64_t insert_lost(const SqliteDatabase& fresh, const SqliteRecord& record, std::int64_t until) {
  SqliteStatement statement(
      fresh,
      "INSERT OR IGNORE INTO response VALUES(?, ?, '', NULL, 0, ?, 2, '', '', '', '', 0, 0, 0, "
      "0, 0, 0, x'', 0)");
  bind(statement, record.values[1], false);
  bind(statement, record.values[0], false);
  statement.bind(until).run();
  return fresh.num_changes();
}

template <class Function>
void for_each_record(const SqlitePages& pages, SqliteDatabase& fresh, std::span<const RecordShape> shapes,
                     Function function) {
  SqliteRecords records(pages, shapes);
  for (std::uint32_t first = 2; first <= pages.num_pages(); first += kPagesATransaction) {
    SqliteTransaction transaction(fresh);
    for (std::uint32_t page = first; page < first + kPagesATransaction && page <= pages.num_pages(); ++page)
      for (const SqliteRecord& record : records.of_page(page, page <= kLastRootPage)) function(record);
    transaction.commit();
  }
}

std::vector<std::int64_t> kept_numbers(const SqliteDatabase& fresh) {
  SqliteStatement statement(fresh, "SELECT number FROM response WHERE is_deleted <> 2");
  std::vector<std::int64_t> numbers;
  while (statement.step()) numbers.push_back(statement.integer(0));
  return numbers;
}

bool is_what_was_written(const SqliteDatabase& fresh, std::int64_t number) {
  try {
    auto row = row_at(fresh, number);
    if (row) with_messages(fresh, std::move(*row));
    return row.has_value();
  } catch (const StoreRefusal&) {
    return false;
  }
}

void mark_lost(const SqliteDatabase& fresh, std::int64_t number, std::int64_t until) {
  SqliteStatement(
      fresh,
      "UPDATE response SET tenant = '', previous = NULL, expires = ?, is_deleted = 2, model = '', "
      "instructions = '', settings = '', output = '', tokens = x'', checksum = 0 WHERE number = ?")
      .bind(until)
      .bind(number)
      .run();
}

// Rows are judged with the ids of those that they continue, so all have to be there.
Salvaged check_rows(SqliteDatabase& fresh, std::int64_t until) {
  Salvaged salvaged;
  SqliteTransaction transaction(fresh);
  std::vector<std::int64_t> wrong;
  for (const std::int64_t number : kept_numbers(fresh))
    if (!is_what_was_written(fresh, number))
      wrong.push_back(number);
    else
      salvaged.num_responses += 1;
  for (const std::int64_t number : wrong) mark_lost(fresh, number, until);
  fresh.execute(
      "DELETE FROM message WHERE response NOT IN (SELECT number FROM response WHERE is_deleted <> 2)");
  transaction.commit();
  salvaged.num_lost = wrong.size();
  return salvaged;
}

}  // namespace

Salvaged salvage_responses(const SqlitePages& damaged, SqliteDatabase& fresh, std::int64_t now) {
  const std::int64_t until = now + kSecondsLostIsKnown;
  for_each_record(damaged, fresh, std::span(kShapes).first(2), [&](const SqliteRecord& record) {
    record.shape == kResponse ? insert_response(fresh, record) : insert_message(fresh, record);
  });
  std::int64_t num_without_row = 0;
  for_each_record(damaged, fresh, std::span(kShapes).subspan(kIdIndex),
                  [&](const SqliteRecord& record) { num_without_row += insert_lost(fresh, record, until); });
  Salvaged salvaged = check_rows(fresh, until);
  salvaged.num_lost += static_cast<std::uint64_t>(num_without_row);
  return salvaged;
}

}  // namespace troupe
