// SPDX-License-Identifier: Apache-2.0
#include "store/conversation_schema.hpp"

#include <array>
#include <set>
#include <string>

namespace troupe {
namespace {

constexpr std::int64_t kApplicationId = 0x74727570;  // "trup"
// 2: answers may have items, as messages of roles of their own. Files of version 1 are read as
// they are.
constexpr std::int64_t kSchemaVersion = 2;
constexpr std::int64_t kFirstVersion = 1;
constexpr std::int64_t kLastPossibleVersion = 1000;  // beyond is damage
// In the first page.
constexpr std::size_t kVersionOffset = 60;
constexpr std::size_t kApplicationIdOffset = 68;

// The file is what SQLite keeps of these texts, to the letter.
constexpr std::array<const char*, 4> kSchema = {
    "CREATE TABLE response(number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, "
    "previous INTEGER, created INTEGER NOT NULL, expires INTEGER NOT NULL, is_deleted INTEGER NOT NULL, "
    "model TEXT NOT NULL, instructions TEXT NOT NULL, settings TEXT NOT NULL, output TEXT NOT NULL, "
    "is_complete INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, "
    "cached_tokens INTEGER NOT NULL, vocabulary INTEGER NOT NULL, extends_previous INTEGER NOT NULL, "
    "tokens BLOB NOT NULL, checksum INTEGER NOT NULL)",
    "CREATE TABLE message(response INTEGER NOT NULL, position INTEGER NOT NULL, role TEXT NOT NULL, "
    "content TEXT NOT NULL, PRIMARY KEY(response, position)) WITHOUT ROWID",
    "CREATE INDEX response_previous ON response(previous)",
    "CREATE INDEX response_expires ON response(expires)",
};

void refuse_newer(std::int64_t version) {
  if (version <= kSchemaVersion || version > kLastPossibleVersion) return;
  throw NewerFile("conversations.sqlite was written by a later troupe (version " + std::to_string(version) +
                  ", this one reads " + std::to_string(kSchemaVersion) + ") and is left alone");
}

}  // namespace

void create_schema(SqliteDatabase& database) {
  SqliteTransaction transaction(database);
  for (const char* statement : kSchema) database.execute(statement);
  database.execute("PRAGMA application_id=" + std::to_string(kApplicationId));
  database.execute("PRAGMA user_version=" + std::to_string(kSchemaVersion));
  transaction.commit();
}

void check_schema(const SqliteDatabase& database) {
  const auto version = database.number("PRAGMA user_version");
  if (database.number("PRAGMA application_id") != kApplicationId)
    throw UnusableFile("it is not a file of troupe's");
  refuse_newer(version);
  if (version < kFirstVersion || version > kSchemaVersion)
    throw UnusableFile("it has version " + std::to_string(version));
  std::multiset<std::string> expected(kSchema.begin(), kSchema.end());
  std::multiset<std::string> found;
  SqliteStatement statement(database, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL");
  while (statement.step()) found.insert(statement.text(0));
  if (found != expected) throw UnusableFile("its tables are not those of troupe");
}

void upgrade_schema(SqliteDatabase& database) {
  if (database.number("PRAGMA user_version") == kSchemaVersion) return;
  database.execute("PRAGMA user_version=" + std::to_string(kSchemaVersion));
}

void check_version(const SqlitePages& pages) {
  const auto first = pages.read(1);
  if (!first || big_endian(&(*first)[kApplicationIdOffset], 4) != kApplicationId) return;
  refuse_newer(static_cast<std::int32_t>(big_endian(&(*first)[kVersionOffset], 4)));
}

}  // namespace troupe
