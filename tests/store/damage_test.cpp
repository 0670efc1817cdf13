// SPDX-License-Identifier: Apache-2.0
// A file of conversations that is damaged in every way we could think of: what is
// readable survives, nothing wrong is served, and the store opens.
#include "store/sqlite/salvage.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "store/conversation_schema.hpp"
#include "store/conversation_store.hpp"
#include "telemetry/log.hpp"
#include "tests/store/stored_conversations.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/sanitizers.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr std::int64_t kNow = 1'000'000;
constexpr std::size_t kPageSize = SqlitePages::kPageSize;
constexpr std::size_t kNumResponses = 40;
// From a damaged page to the next one that is tried.
constexpr std::size_t kPageStep = kIsSanitized ? 3 : 1;

// Twenty conversations of two turns: texts of all lengths, some over many pages.
std::vector<StoredResponse> some_conversations() {
  std::vector<StoredResponse> responses;
  for (std::size_t i = 0; i < kNumResponses; ++i) {
    const auto previous = i % 2 == 0 ? "" : "resp_" + std::to_string(i - 1);
    auto response =
        some_response("resp_" + std::to_string(i), previous,
                      std::vector<std::int32_t>(50 * (i % 7), static_cast<std::int32_t>(i)), i % 2 == 1);
    response.input.push_back(
        {"user", std::string(i % 5 == 0 ? 30'000 : 17 * i, static_cast<char>('a' + i % 26))});
    responses.push_back(response);
  }
  return responses;
}

struct Fixture {
  Fixture() {
    configure_logging(LogLevel::kOff, LogFormat::kText);
    ConversationStore store(directory, {});
    for (const auto& response : saved) REQUIRE_FALSE(store.save(response));
  }
  std::filesystem::path file() const { return root.path() / kConversationFileName; }
  std::string text() const { return file_text(file()); }
  void write(const std::string& bytes) const {
    std::ofstream(file(), std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  void change(const std::function<void(std::string&)>& function) const {
    auto bytes = text();
    function(bytes);
    write(bytes);
  }
  // How many are whole; what is served is what was saved, and can be continued
  // exactly if what it continues is whole, too.
  std::size_t num_whole(ConversationStore& store) const {
    std::size_t number = 0;
    for (const auto& response : saved) {
      const auto found = store.find("", response.id, kNow);
      const auto* whole = std::get_if<StoredResponse>(&found);
      if (whole != nullptr) CHECK(*whole == response);
      number += whole != nullptr ? 1 : 0;
      const auto read = store.read_conversation("", response.id, kNow);
      if (const auto* conversation = std::get_if<Conversation>(&read)) {
        CHECK(whole != nullptr);
        CHECK(conversation->messages.back().content == response.output);
      }
    }
    return number;
  }
  std::size_t num_told_of_damage(ConversationStore& store) const {
    return static_cast<std::size_t>(
        std::count_if(saved.begin(), saved.end(), [&](const StoredResponse& response) {
          const auto found = store.find("", response.id, kNow);
          const auto* error = std::get_if<StoreError>(&found);
          return error != nullptr && error->fault == StoreFault::kDamaged;
        }));
  }
  bool is_aside(int number = 1) const {
    const auto status = std::filesystem::symlink_status(file().string() + ".aside-" + std::to_string(number));
    return std::filesystem::exists(status);
  }

  TemporaryDirectory root;
  StateDirectory directory{root.path()};
  std::vector<StoredResponse> saved = some_conversations();
};

// Opens it after that; the store takes new responses in any case, and what it has
// is there at the next opening, too.
std::size_t num_whole_after(Fixture& fixture, std::size_t& num_told) {
  std::size_t number = 0;
  {
    ConversationStore store(fixture.directory, {});
    number = fixture.num_whole(store);
    num_told = fixture.num_told_of_damage(store);
    CHECK_FALSE(store.save(some_response("new", "", {1})));
    if (store.damage()) {
      CHECK(store.damage()->salvaged.num_responses == number);
      CHECK(store.damage()->salvaged.num_lost >= num_told);
      CHECK(fixture.is_aside());
    }
  }
  ConversationStore store(fixture.directory, {});
  CHECK_FALSE(store.damage());
  CHECK(fixture.num_whole(store) == number);
  CHECK(std::holds_alternative<StoredResponse>(store.find("", "new", kNow)));
  return number;
}

}  // namespace

TEST_CASE("damaged store: one flipped byte at the head of any page costs nothing or that page") {
  const Fixture original;
  const auto intact = original.text();
  const std::size_t num_pages = intact.size() / kPageSize;
  REQUIRE(num_pages > 12);
  for (std::size_t page = 1; page < num_pages; page += kPageStep) {
    CAPTURE(page);
    Fixture fixture;
    fixture.change(
        [&](std::string& bytes) { bytes[page * kPageSize] = static_cast<char>(~bytes[page * kPageSize]); });
    std::size_t num_told = 0;
    const auto num_whole = num_whole_after(fixture, num_told);
    CHECK(num_whole >= kNumResponses - 2);
    CHECK(num_whole + num_told == kNumResponses);
  }
}

TEST_CASE("damaged store: a page of zeros costs what was on it, and those are told") {
  const Fixture original;
  const auto intact = original.text();
  std::size_t num_salvaged = 0, num_tried = 0;
  const std::size_t num_pages = intact.size() / kPageSize;
  for (std::size_t page = 1; page < num_pages; page += kPageStep) {
    CAPTURE(page);
    Fixture fixture;
    fixture.change([&](std::string& bytes) { bytes.replace(page * kPageSize, kPageSize, kPageSize, '\0'); });
    std::size_t num_told = 0;
    const auto num_whole = num_whole_after(fixture, num_told);
    // A page of the tables has so many at most; one of overflowing text has one.
    CHECK(num_whole >= kNumResponses / 2);
    CHECK(num_whole + num_told == kNumResponses);
    num_salvaged += num_whole;
    ++num_tried;
  }
  CHECK(num_salvaged > num_tried * (kNumResponses - 4));
}

TEST_CASE("damaged store: flipped bits cost what they hit") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    Fixture fixture;
    // The first 100 bytes may say that a later troupe wrote it.
    fixture.change([&](std::string& bytes) {
      for (int i = 0; i < 30; ++i) {
        const std::size_t at = 100 + random() % (bytes.size() - 100);
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      }
    });
    std::size_t num_told = 0;
    CHECK(num_whole_after(fixture, num_told) >= kNumResponses / 3);
  }
}

TEST_CASE("damaged store: what is in front of the cut is kept") {
  for (const int percent : {90, 70, 55}) {
    Fixture fixture;
    const auto size = fixture.text().size() * static_cast<std::size_t>(percent) / 100;
    std::filesystem::resize_file(fixture.file(), size);
    std::size_t num_told = 0;
    const auto num_whole = num_whole_after(fixture, num_told);
    CHECK(num_whole >= kNumResponses * static_cast<std::size_t>(percent) / 100 / 2);
    CHECK(fixture.is_aside());
  }
}

TEST_CASE("damaged store: another schema, version or owner's mark takes no response away") {
  for (const auto* wrong : {"PRAGMA user_version=0", "PRAGMA user_version=100000", "PRAGMA application_id=1",
                            "CREATE TRIGGER t AFTER INSERT ON response BEGIN DELETE FROM message; END",
                            "CREATE VIEW v AS SELECT * FROM message", "DROP INDEX response_expires"}) {
    CAPTURE(wrong);
    Fixture fixture;
    SqliteDatabase(fixture.file()).execute(wrong);
    std::size_t num_told = 0;
    CHECK(num_whole_after(fixture, num_told) == kNumResponses);
    CHECK(fixture.is_aside());
  }
}

TEST_CASE("damaged store: the head of the file can be anything") {
  for (const std::size_t size : {16, 100, 4096}) {
    Fixture fixture;
    fixture.change([&](std::string& bytes) { bytes.replace(0, size, size, '?'); });
    std::size_t num_told = 0;
    CHECK(num_whole_after(fixture, num_told) == kNumResponses);
  }
}

TEST_CASE("damaged store: garbage, nothing, a link, a pipe and a directory are put aside or begun anew") {
  for (const std::string kind : {"garbage", "empty", "link", "pipe", "directory"}) {
    CAPTURE(kind);
    Fixture fixture;
    std::filesystem::remove(fixture.file());
    const TemporaryDirectory elsewhere;
    if (kind == "garbage") fixture.write(std::string(50'000, 'x'));
    if (kind == "empty") fixture.write("");
    if (kind == "link") std::filesystem::create_symlink(elsewhere.path() / "victim", fixture.file());
    if (kind == "pipe") REQUIRE(::mkfifo(fixture.file().c_str(), 0600) == 0);
    if (kind == "directory") std::filesystem::create_directory(fixture.file());
    std::size_t num_told = 0;
    CHECK(num_whole_after(fixture, num_told) == 0);
    CHECK(std::filesystem::is_symlink(fixture.file().string() + ".aside-1") == (kind == "link"));
    CHECK_FALSE(std::filesystem::exists(elsewhere.path() / "victim"));
  }
}

TEST_CASE("damaged store: a bit flipped in a text costs that response, and the file stays where it is") {
  Fixture fixture;
  fixture.change([&](std::string& bytes) {
    const auto at = bytes.find("answer resp_7");
    REQUIRE(at != std::string::npos);
    bytes[at] = 'A';
  });
  std::size_t num_told = 0;
  CHECK(num_whole_after(fixture, num_told) == kNumResponses - 1);
  CHECK(num_told == 1);
  CHECK_FALSE(fixture.is_aside());
}

// As a killed process leaves it: all is in the log.
TEST_CASE("damaged store: damage within the log does not cost what was written behind it") {
  std::string log;
  std::string database;
  std::vector<StoredResponse> saved = some_conversations();
  {
    const TemporaryDirectory root;
    const StateDirectory directory(root.path());
    ConversationStore store(directory, {});
    for (const auto& response : saved) REQUIRE_FALSE(store.save(response));
    log = file_text(root.path() / "conversations.sqlite-wal");
    database = file_text(root.path() / kConversationFileName);
  }
  REQUIRE(log.size() > 50 * kPageSize);
  std::mt19937_64 random(8);
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    Fixture fixture;
    fixture.write(round == 1 ? "" : database);
    auto damaged = log;
    // Not the last two commits: there it might be a write that was cut off.
    const std::size_t at = round == 0 ? 5 : random() % (log.size() / 2);
    damaged[at] = static_cast<char>(~damaged[at]);
    std::ofstream(fixture.file().string() + "-wal", std::ios::binary) << damaged;
    std::size_t num_told = 0;
    CHECK(num_whole_after(fixture, num_told) >= kNumResponses - 8);
  }
}

TEST_CASE("damaged store: what was deleted does not come back") {
  Fixture fixture;
  {
    ConversationStore store(fixture.directory, {});
    REQUIRE(std::holds_alternative<RemovedResponse>(store.remove("", "resp_11", kNow)));
    REQUIRE(
        std::holds_alternative<RemovedResponse>(store.remove("", "resp_12", kNow)));  // continued by another
  }
  fixture.change([&](std::string& bytes) { bytes[3 * kPageSize] = '?'; });
  ConversationStore store(fixture.directory, {});
  REQUIRE(store.damage());
  for (const auto* id : {"resp_11", "resp_12"})
    CHECK(std::get<StoreError>(store.find("", id, kNow)).fault == StoreFault::kNotFound);
  CHECK(std::get<Conversation>(store.read_conversation("", "resp_13", kNow)).messages.size() == 6);
}

// A client may store any text, also one that looks like a page of the database.
TEST_CASE("damaged store: a text that looks like a page is no page") {
  Fixture fixture;
  std::string page_of_another;
  {
    Fixture other;
    {
      ConversationStore store(other.directory, {});
      auto forged = some_response("forged", "", {1});
      forged.tenant = "victim";
      REQUIRE_FALSE(store.save(forged));
    }
    const auto bytes = other.text();
    const auto at = bytes.find("answer forged");
    REQUIRE(at != std::string::npos);
    page_of_another = bytes.substr(at / kPageSize * kPageSize, kPageSize);
    CHECK(page_of_another[0] == '\x0d');
  }
  {
    ConversationStore store(fixture.directory, {});
    // At any place of the page, so that it begins where an overflow page does.
    auto response = some_response("mine", "", {1});
    for (int i = 0; i < 40; ++i)
      response.output += std::string(static_cast<std::size_t>(i), ' ') + page_of_another;
    REQUIRE_FALSE(store.save(response));
  }
  fixture.change([&](std::string& bytes) { bytes[3 * kPageSize] = '?'; });
  ConversationStore store(fixture.directory, {});
  REQUIRE(store.damage());
  CHECK(std::holds_alternative<StoredResponse>(store.find("", "mine", kNow)));
  CHECK(std::get<StoreError>(store.find("victim", "forged", kNow)).fault == StoreFault::kNotFound);
}

TEST_CASE("damaged store: damage that is found when it is read is salvaged at the next opening") {
  Fixture fixture;
  fixture.change([&](std::string& bytes) { bytes[3 * kPageSize] = '?'; });
  const ConversationFileOptions unchecked{.check_time = std::chrono::milliseconds(0)};
  {
    ConversationStore store(fixture.directory, {.file = unchecked});
    CHECK_FALSE(store.damage());
    CHECK(std::get<StoreError>(store.find("", "resp_5", kNow)).fault == StoreFault::kDamaged);
    CHECK(store.is_broken());
  }
  auto options = unchecked;
  options.is_damaged = true;
  ConversationStore store(fixture.directory, {.file = options});
  REQUIRE(store.damage());
  CHECK(store.damage()->salvaged.num_responses == kNumResponses);
  CHECK(fixture.num_whole(store) == kNumResponses);
}

TEST_CASE("damaged store: a later troupe's file is refused and left alone") {
  Fixture fixture;
  SqliteDatabase(fixture.file()).execute("PRAGMA user_version=3; CREATE TABLE later(x)");
  const auto before = fixture.text();
  CHECK_THROWS_AS(check_conversation_file_version(fixture.directory), NewerFile);
  CHECK_THROWS_WITH_AS(
      ConversationStore(fixture.directory, {}),
      "conversations.sqlite was written by a later troupe (version 3, this one reads 2) and is left alone",
      NewerFile);
  CHECK(fixture.text() == before);
  CHECK_FALSE(fixture.is_aside());
  // As its log says, too.
  SqliteDatabase(fixture.file()).execute("PRAGMA user_version=2; DROP TABLE later");
  CHECK_NOTHROW(check_conversation_file_version(fixture.directory));
}

TEST_CASE("damaged store: a crash between putting aside and beginning anew loses nothing") {
  Fixture fixture;
  const auto whole = fixture.text();
  for (const bool has_log : {false, true}) {
    std::filesystem::rename(fixture.file(), fixture.file().string() + ".salvaged");
    if (has_log) std::ofstream(fixture.file().string() + "-wal") << std::string(20'000, 'x');
    ConversationStore store(fixture.directory, {});
    CHECK(fixture.num_whole(store) == kNumResponses);
    CHECK(std::filesystem::exists(fixture.file().string() + ".aside-1-wal") == has_log);
  }
  // One that was not yet needed is not taken for the file.
  std::ofstream(fixture.file().string() + ".salvaged") << "old";
  std::ofstream(fixture.file().string() + ".salvaging") << "old";
  ConversationStore store(fixture.directory, {});
  CHECK(fixture.num_whole(store) == kNumResponses);
  CHECK_FALSE(std::filesystem::exists(fixture.file().string() + ".salvaged"));
}
