// SPDX-License-Identifier: Apache-2.0
#include "store/conversation_store.hpp"

#include <doctest/doctest.h>

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <random>
#include <string>

#include "telemetry/log.hpp"
#include "tests/store/failing_vfs.hpp"
#include "tests/store/stored_conversations.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr std::int64_t kNow = 1'000'000;

struct Fixture {
  explicit Fixture(ConversationStoreOptions options_ = {}) : options(options_) { open(); }

  void open() {
    store.reset();
    store.emplace(directory, options);
  }
  // An outcome by its fault; nothing if it went well.
  template <class Result>
  static std::optional<StoreFault> fault(const Result& result) {
    if (const auto* error = std::get_if<StoreError>(&result)) return error->fault;
    return std::nullopt;
  }
  std::optional<StoreFault> found(const std::string& id, const std::string& tenant = "",
                                  std::int64_t now = kNow) {
    return fault(store->find(tenant, id, now));
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(root.path()))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  TemporaryDirectory root;
  StateDirectory directory{root.path()};
  ConversationStoreOptions options;
  std::optional<ConversationStore> store;
};

std::filesystem::path file_of(const Fixture& fixture) { return fixture.root.path() / kConversationFileName; }

void write_at(const std::filesystem::path& file, std::uint64_t offset, char byte) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(static_cast<std::streamoff>(offset));
  stream.put(byte);
}

constexpr auto kNotFound = std::optional(StoreFault::kNotFound);

}  // namespace

TEST_CASE("conversation store: what was saved is found as it was, also after it was opened again") {
  Fixture fixture;
  const auto response = some_response("a", "", {1, 2, 3});
  REQUIRE_FALSE(fixture.store->save(response));
  for (int round = 0; round < 2; ++round) {
    CHECK(std::get<StoredResponse>(fixture.store->find("", "a", kNow)) == response);
    fixture.open();
  }
  fixture.store.reset();
  CHECK(fixture.files().size() == 1);  // the log was written back
}

TEST_CASE("conversation store: a conversation is all its turns and the tokens beyond each other") {
  Fixture fixture;
  REQUIRE_FALSE(fixture.store->save(some_response("a", "", {1, 2})));
  REQUIRE_FALSE(fixture.store->save(some_response("b", "a", {3}, true)));
  REQUIRE_FALSE(fixture.store->save(some_response("c", "b", {4, 5}, true)));
  REQUIRE_FALSE(fixture.store->save(some_response("other", "b", {9}, true)));  // a branch
  const auto read = std::get<Conversation>(fixture.store->read_conversation("", "c", kNow));
  CHECK(read.tokens == std::vector<std::int32_t>{1, 2, 3, 4, 5});
  REQUIRE(read.messages.size() == 6);
  CHECK(read.messages[0] == StoredMessage{"user", "question a"});
  CHECK(read.messages[1] == StoredMessage{"assistant", "answer a"});
  CHECK(read.messages[5] == StoredMessage{"assistant", "answer c"});
  CHECK(std::get<Conversation>(fixture.store->read_conversation("", "other", kNow)).tokens ==
        std::vector<std::int32_t>{1, 2, 3, 9});
}

TEST_CASE("conversation store: tokens of a turn that was encoded anew replace those before") {
  Fixture fixture;
  REQUIRE_FALSE(fixture.store->save(some_response("a", "", {1, 2})));
  REQUIRE_FALSE(fixture.store->save(some_response("b", "a", {7, 8})));
  REQUIRE_FALSE(fixture.store->save(some_response("c", "b", {9}, true)));
  const auto read = std::get<Conversation>(fixture.store->read_conversation("", "c", kNow));
  CHECK(read.tokens == std::vector<std::int32_t>{7, 8, 9});
  CHECK(read.messages.size() == 6);
}

TEST_CASE("conversation store: unknown, expired and other tenants' responses can't be told apart") {
  Fixture fixture;
  auto response = some_response("a", "", {1});
  response.tenant = "alice";
  REQUIRE_FALSE(fixture.store->save(response));
  CHECK_FALSE(fixture.found("a", "alice"));
  CHECK(fixture.found("b", "alice") == kNotFound);
  CHECK(fixture.found("a", "bob") == kNotFound);
  CHECK(fixture.found("a", "") == kNotFound);
  CHECK(fixture.found("a", "alice", response.expires) == kNotFound);
  CHECK(Fixture::fault(fixture.store->read_conversation("bob", "a", kNow)) == kNotFound);
  CHECK(Fixture::fault(fixture.store->remove("bob", "a", kNow)) == kNotFound);
  auto stolen = some_response("c", "a", {1}, true);
  stolen.tenant = "bob";
  CHECK(fixture.store->save(stolen)->fault == StoreFault::kNotFound);
}

TEST_CASE("conversation store: what is deleted is gone, but what continues it goes on") {
  Fixture fixture;
  for (const auto& [id, previous] : {std::pair{"a", ""}, {"b", "a"}, {"c", "b"}})
    REQUIRE_FALSE(fixture.store->save(some_response(id, previous, {1}, *previous != 0)));
  REQUIRE_FALSE(Fixture::fault(fixture.store->remove("", "a", kNow)));
  REQUIRE_FALSE(Fixture::fault(fixture.store->remove("", "b", kNow)));
  CHECK(fixture.found("a") == kNotFound);
  CHECK(Fixture::fault(fixture.store->remove("", "a", kNow)) == kNotFound);
  CHECK(std::get<Conversation>(fixture.store->read_conversation("", "c", kNow)).messages.size() == 6);
  CHECK(num_rows(fixture.directory, fixture.store) == 3);
  REQUIRE_FALSE(Fixture::fault(fixture.store->remove("", "c", kNow)));
  CHECK(num_rows(fixture.directory, fixture.store) == 0);
}

TEST_CASE("conversation store: what has expired is purged, unless something continues it") {
  Fixture fixture;
  auto old = some_response("a", "", {1});
  old.expires = kNow - 1;
  auto alone = some_response("alone", "", {1});
  alone.expires = kNow - 1;
  REQUIRE_FALSE(fixture.store->save(old));
  REQUIRE_FALSE(fixture.store->save(alone));
  REQUIRE_FALSE(fixture.store->save(some_response("b", "a", {2}, true)));
  CHECK(std::get<std::size_t>(fixture.store->purge(kNow, 10)) == 1);
  CHECK(std::get<Conversation>(fixture.store->read_conversation("", "b", kNow)).tokens.size() == 2);
  CHECK(std::get<std::size_t>(fixture.store->purge(kNow + 1'000'000'000, 10)) == 2);
  CHECK(std::get<std::size_t>(fixture.store->purge(kNow + 1'000'000'000, 10)) == 0);
}

TEST_CASE("conversation store: more turns than the limit are refused, not read") {
  Fixture fixture({.file = {}, .max_turns = 3});
  std::string previous;
  for (int i = 0; i < 4; ++i) {
    const auto id = "r" + std::to_string(i);
    REQUIRE_FALSE(fixture.store->save(some_response(id, previous, {i}, i > 0)));
    previous = id;
  }
  CHECK_FALSE(Fixture::fault(fixture.store->read_conversation("", "r2", kNow)));
  CHECK(Fixture::fault(fixture.store->read_conversation("", "r3", kNow)) == StoreFault::kTooLong);
}

TEST_CASE("conversation store: a full file refuses what is new and still shows what is old") {
  Fixture fixture({.file = {.max_bytes = 128 * 1024}});
  int num_saved = 0;
  auto response = some_response("r0", "", std::vector<std::int32_t>(2000, 1));
  while (!fixture.store->save(response) && num_saved < 100) response.id = "r" + std::to_string(++num_saved);
  CHECK(num_saved > 5);
  CHECK(num_saved < 100);
  CHECK(fixture.store->save(response)->fault == StoreFault::kFull);
  CHECK_FALSE(fixture.found("r0"));
  CHECK(fixture.found(response.id) == kNotFound);
  REQUIRE_FALSE(Fixture::fault(fixture.store->remove("", "r0", kNow)));
  CHECK_FALSE(fixture.store->save(response));
}

TEST_CASE("conversation store: a file that another program has locked is left alone") {
  Fixture fixture({.file = {.busy_timeout = std::chrono::milliseconds(1)}});
  fixture.store.reset();
  {
    SqliteDatabase other(file_of(fixture));
    other.execute("PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE;");
    CHECK_THROWS_WITH_AS(fixture.open(), "database is locked", SqliteError);
    other.execute("COMMIT");
  }
  CHECK(fixture.files().size() == 1);  // nothing was put aside
  CHECK_NOTHROW(fixture.open());
}

TEST_CASE("conversation store: a response changed behind our back is refused, the others are not") {
  Fixture fixture;
  for (const auto* id : {"a", "b", "c"}) REQUIRE_FALSE(fixture.store->save(some_response(id, "", {1, 2})));
  fixture.store.reset();
  SqliteDatabase(file_of(fixture)).execute("UPDATE response SET tokens = x'0100000009000000' WHERE id = 'a'");
  SqliteDatabase(file_of(fixture)).execute("UPDATE message SET content = 'x' WHERE response = 2");
  fixture.open();
  CHECK(fixture.found("a") == StoreFault::kDamaged);
  CHECK(fixture.found("b") == StoreFault::kDamaged);
  CHECK_FALSE(fixture.found("c"));
  CHECK_FALSE(fixture.store->is_broken());
}

TEST_CASE("conversation store: with bytes flipped anywhere, what is served is what was saved") {
  configure_logging(LogLevel::kOff, LogFormat::kText);
  Fixture fixture;
  std::vector<StoredResponse> saved;
  for (int i = 0; i < 20; ++i) {
    saved.push_back(some_response("r" + std::to_string(i), i == 0 ? "" : "r" + std::to_string(i - 1),
                                  std::vector<std::int32_t>(200, i), i > 0));
    REQUIRE_FALSE(fixture.store->save(saved.back()));
  }
  fixture.store.reset();
  const auto intact = test::file_text(file_of(fixture));
  std::mt19937_64 random(5);
  int num_lost = 0;
  for (int round = 0; round < 200; ++round) {
    std::ofstream(file_of(fixture), std::ios::binary | std::ios::trunc) << intact;
    for (std::uint64_t i = random() % 4; i != UINT64_MAX; --i)
      write_at(file_of(fixture), random() % intact.size(), static_cast<char>(random()));
    fixture.open();
    for (const auto& response : saved) {
      const auto found = fixture.store->find("", response.id, kNow);
      if (const auto* whole = std::get_if<StoredResponse>(&found)) CHECK(*whole == response);
      num_lost += std::holds_alternative<StoreError>(found) ? 1 : 0;
      const auto read = fixture.store->read_conversation("", response.id, kNow);
      if (const auto* whole = std::get_if<Conversation>(&read))
        CHECK(whole->tokens.back() == response.tokens.back());
    }
    fixture.store.reset();
  }
  CHECK(num_lost > 0);
}

TEST_CASE("conversation store: copied at any moment or its log cut anywhere, it has whole responses only") {
  Fixture fixture;
  std::vector<StoredResponse> saved;
  for (int i = 0; i < 30; ++i) {
    saved.push_back(some_response("r" + std::to_string(i), "", std::vector<std::int32_t>(300, i)));
    REQUIRE_FALSE(fixture.store->save(saved.back()));
  }
  const auto log = test::file_text(file_of(fixture).string() + "-wal");
  const auto database = test::file_text(file_of(fixture));
  std::mt19937_64 random(6);
  for (int round = 0; round < 40; ++round) {
    const auto size = round == 0 ? log.size() : random() % log.size();
    const TemporaryDirectory copy;
    std::ofstream(copy.path() / kConversationFileName, std::ios::binary) << database;
    std::ofstream(copy.path() / (std::string(kConversationFileName) + "-wal"), std::ios::binary)
        << log.substr(0, size);
    const StateDirectory directory(copy.path());
    ConversationStore store(directory, {});
    bool is_gone = false;
    std::size_t num_found = 0;
    for (const auto& response : saved) {
      const auto found = store.find("", response.id, kNow);
      const auto* whole = std::get_if<StoredResponse>(&found);
      is_gone = is_gone || whole == nullptr;
      CHECK((whole == nullptr) == is_gone);  // the newest go first
      if (whole != nullptr) CHECK(*whole == response);
      num_found += whole != nullptr ? 1 : 0;
    }
    if (round == 0) CHECK(num_found == saved.size());
  }
}

TEST_CASE(
    "conversation store: after a sync that failed it is read and not written, until it is opened again") {
  configure_logging(LogLevel::kOff, LogFormat::kText);
  Fixture fixture({.file = {.vfs = failing_vfs()}});
  REQUIRE_FALSE(fixture.store->save(some_response("before", "", {1})));
  set_disk_faults({.fail_at = 1, .only = SQLITE_IOERR_FSYNC});
  CHECK(fixture.store->save(some_response("during", "", {1})).has_value());
  CHECK(disk_faults().was_hit);
  set_disk_faults({});  // the disk says that all is well again
  CHECK(fixture.store->is_read_only());
  CHECK(fixture.store->save(some_response("after", "", {1}))->fault == StoreFault::kReadOnly);
  CHECK(Fixture::fault(fixture.store->remove("", "before", kNow)) == StoreFault::kReadOnly);
  CHECK(Fixture::fault(fixture.store->purge(kNow, 10)) == StoreFault::kReadOnly);
  CHECK_FALSE(fixture.found("before"));
  CHECK(fixture.found("after") == kNotFound);
  fixture.open();
  CHECK_FALSE(fixture.store->is_read_only());
  CHECK_FALSE(fixture.store->save(some_response("after", "", {1})));
}

TEST_CASE("conversation store: opened after a crash with a sync that fails it is read and not written") {
  configure_logging(LogLevel::kOff, LogFormat::kText);
  int num_hit = 0;
  bool was_hit = true;
  for (std::uint64_t n = 1; was_hit; ++n) {
    CAPTURE(n);
    Fixture fixture;
    REQUIRE_FALSE(fixture.store->save(some_response("before", "", {1})));
    const TemporaryDirectory copy;  // as a process leaves it that is killed, with its log
    for (const auto& name : fixture.files())
      std::filesystem::copy_file(fixture.root.path() / name, copy.path() / name);
    const StateDirectory directory(copy.path());
    set_disk_faults({.fail_at = n, .only = SQLITE_IOERR_FSYNC});
    ConversationStore store(directory, {.file = {.vfs = failing_vfs()}});
    was_hit = disk_faults().was_hit;
    set_disk_faults({});
    num_hit += was_hit ? 1 : 0;
    CHECK(store.is_read_only() == was_hit);
    CHECK(store.save(some_response("after", "", {1})).has_value() == was_hit);
    CHECK(std::holds_alternative<StoredResponse>(store.find("", "before", kNow)));
  }
  CHECK(num_hit == 2);  // the log, and the file
}

TEST_CASE("conversation store: nothing of what was removed is in the files once it is overwritten") {
  Fixture fixture;
  const auto needle = [](int i) { return "needle-" + std::to_string(i) + "-in-the-haystack"; };
  std::mt19937_64 random(9);
  const int num_responses = 150;
  for (int i = 0; i < num_responses; ++i) {
    auto response = some_response("r" + std::to_string(i), "", std::vector<std::int32_t>(random() % 300, i));
    response.output = needle(i) + std::string(random() % 9000, '.') + needle(i);
    response.input = {{"user", std::string(random() % 2000, '-') + needle(i)}};
    REQUIRE_FALSE(fixture.store->save(response));
  }
  std::vector<int> order(num_responses);
  for (int i = 0; i < num_responses; ++i) order[static_cast<std::size_t>(i)] = i;
  std::shuffle(order.begin(), order.end(), random);
  order.resize(100);
  for (const int i : order)
    REQUIRE_FALSE(Fixture::fault(fixture.store->remove("", "r" + std::to_string(i), kNow)));
  REQUIRE_FALSE(fixture.store->overwrite_removed());
  std::string all;
  for (const auto& name : fixture.files()) all += test::file_text(fixture.root.path() / name);
  int num_found = 0;
  for (const int i : order) num_found += all.find(needle(i)) != std::string::npos ? 1 : 0;
  CHECK(num_found == 0);
  for (int i = 0; i < num_responses; ++i)
    if (std::find(order.begin(), order.end(), i) == order.end())
      CHECK(all.find(needle(i)) != std::string::npos);
}

TEST_CASE("conversation store: what is removed says which tokens nothing has any more") {
  Fixture fixture;
  REQUIRE_FALSE(fixture.store->save(some_response("a", "", {1, 2})));
  REQUIRE_FALSE(fixture.store->save(some_response("b", "a", {3}, true)));
  REQUIRE_FALSE(fixture.store->save(some_response("c", "b", {4, 5}, true)));
  const auto removed = [&](const std::string& id) {
    return std::get<RemovedResponse>(fixture.store->remove("", id, kNow));
  };
  CHECK(removed("b").runs.empty());  // c has them still
  const auto last = removed("c");    // and with it the one that was kept for its sake
  REQUIRE(last.runs.size() == 1);
  CHECK(last.runs[0].tokens == std::vector<std::int32_t>{1, 2, 3, 4, 5});
  CHECK(last.runs[0].num_kept == 2);
  CHECK(removed("a").runs.at(0).num_kept == 0);
}

TEST_CASE("conversation store: what is removed names the tokens of each turn that extended none") {
  Fixture fixture;
  REQUIRE_FALSE(fixture.store->save(some_response("a", "", {1, 2})));
  REQUIRE_FALSE(fixture.store->save(some_response("b", "a", {3}, true)));
  REQUIRE_FALSE(fixture.store->save(some_response("c", "b", {7, 8}, false)));  // other instructions
  REQUIRE_FALSE(fixture.store->save(some_response("d", "c", {9}, true)));
  REQUIRE_FALSE(fixture.store->save(some_response("e", "a", {5}, true)));
  const auto removed = [&](const std::string& id) {
    return std::get<RemovedResponse>(fixture.store->remove("", id, kNow)).runs;
  };
  for (const char* id : {"a", "b", "c"}) CHECK(removed(id).empty());
  const auto runs = removed("d");
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].tokens == std::vector<std::int32_t>{7, 8, 9});
  CHECK(runs[0].num_kept == 0);
  CHECK(runs[1].tokens == std::vector<std::int32_t>{1, 2, 3});
  CHECK(runs[1].num_kept == 2);  // e continues a
}

TEST_CASE("conversation store: its files are for the owner only, whatever they were") {
  Fixture fixture;
  const auto log = file_of(fixture).string() + "-wal";
  const auto mode = [](const std::filesystem::path& path) {
    return static_cast<unsigned>(std::filesystem::status(path).permissions()) & 0777U;
  };
  REQUIRE_FALSE(fixture.store->save(some_response("a", "", {1})));
  CHECK(mode(file_of(fixture)) == 0600);
  CHECK(mode(log) == 0600);
  // As a process left them that was killed and wrote them for all to read.
  const TemporaryDirectory copy;
  for (const auto& name : fixture.files()) {
    std::filesystem::copy_file(fixture.root.path() / name, copy.path() / name);
    std::filesystem::permissions(copy.path() / name, std::filesystem::perms(0644));
  }
  const StateDirectory directory(copy.path());
  ConversationStore store(directory, {});
  REQUIRE_FALSE(store.save(some_response("b", "", {1})));
  for (const auto& entry : std::filesystem::directory_iterator(copy.path()))
    CHECK(mode(entry.path()) == 0600);
  CHECK(std::holds_alternative<StoredResponse>(store.find("", "a", kNow)));
}

TEST_CASE("conversation store: whichever disk operation fails, nothing that was acknowledged is lost") {
  configure_logging(LogLevel::kOff, LogFormat::kText);
  struct Kind {
    int code;
    bool for_ever;
  };
  for (const Kind kind : {Kind{SQLITE_IOERR_WRITE, false},
                          {SQLITE_IOERR_WRITE, true},
                          {SQLITE_FULL, false},
                          {SQLITE_FULL, true}}) {
    bool was_hit = true;
    for (std::uint64_t n = 1; was_hit; ++n) {
      CAPTURE(kind.code);
      CAPTURE(n);
      const TemporaryDirectory root;
      const StateDirectory directory(root.path());
      REQUIRE_FALSE(ConversationStore(directory, {}).save(some_response("before", "", {1, 2, 3})));
      const auto acknowledged =
          save_with_faults(directory, {.fail_at = n, .for_ever = kind.for_ever, .code = kind.code}, was_hit);
      ConversationStore store(directory, {});
      CHECK(std::get<StoredResponse>(store.find("", "before", kNow)) ==
            some_response("before", "", {1, 2, 3}));
      for (const auto& [response, is_acknowledged] : acknowledged) {
        const auto found = store.find("", response.id, kNow);
        const auto* whole = std::get_if<StoredResponse>(&found);
        if (is_acknowledged) CHECK(whole != nullptr);
        if (whole != nullptr) CHECK(*whole == response);
      }
    }
  }
}

TEST_CASE("conversation store: an answer of several items is found, continued and deleted as it was") {
  Fixture fixture;
  auto response = some_response("r1", "", {1, 2, 3}, false);
  response.output.clear();
  response.answer = {{"reasoning", "hm"}, {"assistant", "Wait."}, {"function_call", R"({"call_id":"c"})"}};
  CHECK_FALSE(fixture.store->save(response));
  fixture.open();
  CHECK(std::get<StoredResponse>(fixture.store->find("", "r1", kNow)) == response);
  CHECK_FALSE(fixture.store->save(some_response("r2", "r1", {4}, true)));
  const auto conversation = std::get<Conversation>(fixture.store->read_conversation("", "r2", kNow));
  auto expected = response.input;
  expected.insert(expected.end(), response.answer.begin(), response.answer.end());
  expected.push_back({"user", "question r2"});
  expected.push_back({"assistant", "answer r2"});
  CHECK(conversation.messages == expected);
}

TEST_CASE("conversation store: an earlier troupe's file is read, and marked for none of those to write") {
  Fixture fixture;
  const auto response = some_response("r1", "", {1, 2, 3}, false);
  CHECK_FALSE(fixture.store->save(response));
  fixture.store.reset();
  SqliteDatabase(file_of(fixture)).execute("PRAGMA user_version=1");
  fixture.open();
  CHECK(std::get<StoredResponse>(fixture.store->find("", "r1", kNow)) == response);
  CHECK_FALSE(fixture.store->damage());
  fixture.store.reset();
  CHECK(SqliteDatabase(file_of(fixture)).number("PRAGMA user_version") == 2);
}
