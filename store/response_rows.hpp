// SPDX-License-Identifier: Apache-2.0
// A response as rows of the file of conversations: written, found, and read only
// if it is what was written. SqliteError if the file fails.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/sqlite/sqlite.hpp"
#include "store/store_error.hpp"
#include "store/stored_response.hpp"

namespace troupe {

// Thrown: the response asked for can't be had; the database itself is well.
struct StoreRefusal {
  StoreError error;
};
[[noreturn]] void refuse(StoreFault fault, std::string message);
[[noreturn]] void refuse_damaged(const std::string& what);

// The column is_deleted.
enum class ResponseState : std::uint8_t {
  kKept = 0,
  kDeleted = 1,  // by its owner, and kept since another continues it
  kLost = 2,     // of a damaged file only its id was left; to anybody that it is damaged
};

struct ResponseRow {
  std::int64_t number = 0;
  std::optional<std::int64_t> previous;
  std::uint64_t checksum = 0;
  StoredResponse response;  // its input only from with_messages()
};

// One that may be shown to this tenant now, or is lost, which throws StoreRefusal.
std::optional<ResponseRow> find_row(const SqliteDatabase& database, std::string_view tenant,
                                    std::string_view id, std::int64_t now);
std::optional<ResponseRow> row_at(const SqliteDatabase& database, std::int64_t number);

// With its messages. Throws StoreRefusal unless it is what was written.
ResponseRow with_messages(const SqliteDatabase& database, ResponseRow row);

// Throws StoreRefusal if the response that it continues is not there.
void insert_response(const SqliteDatabase& database, const StoredResponse& response);

}  // namespace troupe
