// SPDX-License-Identifier: Apache-2.0
// The engine as it is shipped, with a store in a directory of the test's.
#include "actors/response_store.hpp"

#include <doctest/doctest.h>
#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "actors/engine.hpp"
#include "store/answer_journal.hpp"
#include "store/sqlite/sqlite.hpp"
#include "store/turn_file.hpp"
#include "telemetry/log.hpp"
#include "tests/actors/byte_model.hpp"
#include "tests/actors/recording_sink.hpp"
#include "tests/store/failing_vfs.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

using test::TemporaryDirectory;

ServedModel chat_model() {
  auto model = byte_model();
  model.chat_template = std::make_shared<const ChatTemplate>(
      ChatTemplate::parse("{% for m in messages %}{{ m.role[0] + ':' + m.content + ';' }}{% endfor %}"));
  return model;
}

struct Fixture {
  // A null root: nothing is kept.
  explicit Fixture(const TemporaryDirectory* root, bool keeps_turns = false) {
    configure_logging(LogLevel::kOff, LogFormat::kText);
    EngineOptions options;
    if (root != nullptr) options.store.directory = std::make_shared<StateDirectory>(root->path());
    options.cache.is_disk_lacking = keeps_turns;
    engine = std::make_unique<Engine>(
        chat_model(), [](WorkerId) { return std::make_unique<NoopDevice>(letters_device()); }, options,
        metrics);
  }

  std::shared_ptr<RecordingSink> ask(const std::string& id, const std::string& text,
                                     ConversationTurn turn = {}, const std::string& tenant = "") {
    GenerationRequest request;
    request.id = id;
    request.tenant = tenant;
    request.prompt = ChatPrompt{.messages = {{"user", text}}};
    request.max_tokens = 4;
    turn.created = turn.created != 0 ? turn.created : std::time(nullptr);
    request.turn = std::make_shared<const ConversationTurn>(std::move(turn));
    auto sink = std::make_shared<RecordingSink>();
    engine->submit(std::move(request), sink);
    REQUIRE(sink->wait_for_end());
    return sink;
  }
  std::shared_ptr<RecordingSink> look_up(const std::string& id,
                                         StoreQuery::Kind kind = StoreQuery::Kind::kFind,
                                         const std::string& tenant = "") {
    auto sink = std::make_shared<RecordingSink>();
    engine->look_up({.kind = kind, .tenant = tenant, .response = id}, sink);
    REQUIRE(sink->wait_for_end());
    return sink;
  }

  Metrics metrics{"bytes"};
  std::unique_ptr<Engine> engine;
};

// The file of conversations and its log.
std::string text_of_files_in(const TemporaryDirectory& root) {
  return test::file_text(root.path() / kConversationFileName) +
         test::file_text(root.path() / "conversations.sqlite-wal");
}

// Answers "r0", "r1", … of an earlier process.
void journal(const TemporaryDirectory& root, int number, const std::string& tenant) {
  AnswerJournal journal(std::make_shared<const StateDirectory>(root.path()));
  for (int i = 0; i < number; ++i)
    REQUIRE(!journal.begin({.id = "r" + std::to_string(i), .tenant = tenant, .body = "{}"}));
}

std::size_t num_journaled(const TemporaryDirectory& root) {
  const std::filesystem::directory_iterator files(root.path());
  return static_cast<std::size_t>(std::count_if(
      begin(files), end(files), [](const auto& file) { return file.path().extension() == ".journal"; }));
}

ConversationTurn after(const std::string& previous) { return {.previous = previous}; }

}  // namespace

TEST_CASE("response store: a turn continues the tokens of the one before, also in another engine") {
  const TemporaryDirectory root;
  {
    Fixture fixture(&root);
    const auto first = fixture.ask("r1", "one");
    CHECK(first->finished()->is_stored);
    CHECK(first->text() == "ghij");  // after 6 tokens
  }
  Fixture fixture(&root);
  const auto second = fixture.ask("r2", "two", after("r1"));
  REQUIRE(second->finished());
  // "u:one;" "ghij" ";" "u:two;": nothing was encoded twice.
  CHECK(second->finished()->usage.prompt_tokens == 17);
  const auto found = fixture.look_up("r2")->found();
  REQUIRE(found);
  CHECK(found->response->previous == "r1");
  CHECK(found->response->output == second->text());
  CHECK(found->response->extends_previous);
  CHECK(found->response->tokens.size() == 17 - 10 + 4);
}

TEST_CASE("response store: responses that are not stored, deleted or another's are not found") {
  const TemporaryDirectory root;
  Fixture fixture(&root);
  CHECK_FALSE(fixture.ask("r1", "one", {.is_stored = false})->finished()->is_stored);
  CHECK(fixture.look_up("r1")->error()->kind == ApiErrorKind::kResponseNotFound);
  fixture.ask("r2", "two", {}, "alice");
  CHECK(fixture.look_up("r2", StoreQuery::Kind::kFind, "alice")->found());
  CHECK(fixture.look_up("r2", StoreQuery::Kind::kFind, "bob")->error()->kind ==
        ApiErrorKind::kResponseNotFound);
  CHECK(fixture.look_up("r2", StoreQuery::Kind::kRemove, "bob")->error());
  const auto stolen = fixture.ask("r3", "three", after("r2"), "bob");
  CHECK(stolen->error()->kind == ApiErrorKind::kPreviousResponseNotFound);
  CHECK(stolen->error()->field == "previous_response_id");
  CHECK(fixture.look_up("r2", StoreQuery::Kind::kRemove, "alice")->found());
  CHECK(fixture.look_up("r2", StoreQuery::Kind::kFind, "alice")->error());
  auto old = after("");
  old.created = 1000;
  fixture.ask("r4", "four", old);
  CHECK(fixture.look_up("r4")->error()->kind == ApiErrorKind::kResponseNotFound);
}

TEST_CASE("response store: many turns at once are all stored, branches of one response too") {
  const TemporaryDirectory root;
  Fixture fixture(&root);
  fixture.ask("root", "one");
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 100; ++i) {
    GenerationRequest request;
    request.id = "r" + std::to_string(i);
    request.prompt = ChatPrompt{.messages = {{"user", std::to_string(i)}}};
    request.max_tokens = 4;
    request.turn = std::make_shared<const ConversationTurn>(
        ConversationTurn{.previous = "root", .must_be_stored = true, .created = std::time(nullptr)});
    sinks.push_back(std::make_shared<RecordingSink>());
    fixture.engine->submit(std::move(request), sinks.back());
  }
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    REQUIRE(sinks[i]->wait_for_end());
    REQUIRE(sinks[i]->finished());
    CHECK(fixture.look_up("r" + std::to_string(i))->found()->response->output == sinks[i]->text());
  }
}

TEST_CASE("response store: without one, what needs it is refused and the rest is answered") {
  Fixture fixture(nullptr);
  const auto answered = fixture.ask("r1", "one");
  CHECK(answered->text() == "ghij");
  CHECK_FALSE(answered->finished()->is_stored);
  const auto refused = fixture.ask("r2", "one", {.must_be_stored = true});
  CHECK(refused->error()->kind == ApiErrorKind::kInvalidRequest);
  CHECK(refused->error()->field == "store");
  CHECK(fixture.ask("r3", "one", after("r1"))->error()->kind == ApiErrorKind::kPreviousResponseNotFound);
  CHECK(fixture.look_up("r1")->error()->kind == ApiErrorKind::kResponseNotFound);
}

TEST_CASE("response store: where it can't be used, only who insists on it fails") {
  const TemporaryDirectory root;
  SqliteDatabase other(root.path() / kConversationFileName);
  other.execute("PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE;");
  Fixture fixture(&root);
  const auto answered = fixture.ask("r1", "one");
  CHECK(answered->text() == "ghij");
  CHECK_FALSE(answered->finished()->is_stored);
  const auto refused = fixture.ask("r2", "one", {.must_be_stored = true});
  CHECK(refused->text() == "ghij");
  CHECK(refused->error()->kind == ApiErrorKind::kStoreFailed);
  CHECK(fixture.ask("r3", "one", after("r1"))->error()->kind == ApiErrorKind::kStoreFailed);
  CHECK(fixture.metrics.expose().find("troupe_store_failures_total{model_name=\"bytes\"} 3") !=
        std::string::npos);
}

TEST_CASE("response store: after a sync that failed no turn is said to be stored, and the status says why") {
  const TemporaryDirectory root;
  test::failing_vfs(true);
  Fixture fixture(&root);
  CHECK(fixture.ask("r1", "one")->finished()->is_stored);
  CHECK(fixture.engine->status().store.state == StoreState::kWorks);
  fixture.look_up("r1");  // behind what the store does besides
  test::set_disk_faults({.fail_at = 1, .only = SQLITE_IOERR_FSYNC});
  CHECK_FALSE(fixture.ask("r2", "two")->finished()->is_stored);
  test::set_disk_faults({});
  for (const auto* id : {"r3", "r4"}) CHECK_FALSE(fixture.ask(id, "three")->finished()->is_stored);
  CHECK(fixture.ask("r5", "x", {.must_be_stored = true})->error()->kind == ApiErrorKind::kStoreFailed);
  CHECK(fixture.engine->status().store.state == StoreState::kReadOnly);
  CHECK(fixture.engine->status().store.num_saving == 0);
  CHECK(fixture.metrics.expose().find("troupe_store_read_only{model_name=\"bytes\"} 1") != std::string::npos);
  CHECK(fixture.look_up("r1")->found());
}

TEST_CASE("response store: after a sync that failed, a file that is salvaged is read-only too") {
  const TemporaryDirectory root;
  test::failing_vfs(true);
  constexpr int kNumLarge = 40;  // together more than SQLite caches
  {
    const StateDirectory directory(root.path());
    ConversationStore store(directory, {});
    for (int i = 0; i < kNumLarge; ++i) {
      StoredResponse large;
      large.id = "large" + std::to_string(i);
      large.created = std::time(nullptr);
      large.expires = large.created + 1000;
      large.output = std::string(200'000, 'x');
      REQUIRE_FALSE(store.save(large));
    }
  }
  Fixture fixture(&root);
  CHECK(fixture.ask("r1", "one")->finished()->is_stored);
  fixture.look_up("r1");  // behind what the store does besides
  test::set_disk_faults({.fail_at = 1, .only = SQLITE_IOERR_FSYNC});
  CHECK_FALSE(fixture.ask("r2", "two")->finished()->is_stored);
  fixture.look_up("r1");  // behind what the store does besides
  test::set_disk_faults({.fail_at = 1, .only = SQLITE_CORRUPT, .code_of_reads = SQLITE_CORRUPT});
  for (int i = 0; i < kNumLarge; ++i) fixture.look_up("large" + std::to_string(i));
  CHECK(test::disk_faults().was_hit);
  test::set_disk_faults({});
  CHECK(fixture.look_up("r1")->found());
  CHECK(fixture.engine->status().store.num_damages == 1);
  CHECK_FALSE(fixture.ask("r3", "three")->finished()->is_stored);
  CHECK(fixture.engine->status().store.state == StoreState::kReadOnly);
}

TEST_CASE("response store: a sync that fails while the file is made is not forgotten") {
  const TemporaryDirectory root;
  test::failing_vfs(true);
  test::set_disk_faults({.fail_at = 1, .only = SQLITE_IOERR_FSYNC});
  Fixture fixture(&root);
  CHECK_FALSE(fixture.ask("r1", "one")->finished()->is_stored);
  CHECK(test::disk_faults().was_hit);
  test::set_disk_faults({});
  CHECK(fixture.metrics.expose().find("troupe_store_read_only{model_name=\"bytes\"} 1") != std::string::npos);
}

TEST_CASE("response store: on a full disk room is asked for once, and then refused") {
  const TemporaryDirectory root;
  test::failing_vfs(true);
  Fixture fixture(&root);
  CHECK(fixture.ask("r1", "one")->finished()->is_stored);
  fixture.look_up("r1");  // behind what the store does besides
  test::set_disk_faults({.fail_at = 1, .only = SQLITE_FULL, .code = SQLITE_FULL});  // the first attempt alone
  CHECK(fixture.ask("r2", "two")->finished()->is_stored);
  CHECK(test::disk_faults().was_hit);
  fixture.look_up("r1");  // behind what the store does besides
  test::set_disk_faults({.fail_at = 1, .for_ever = true, .only = SQLITE_FULL, .code = SQLITE_FULL});
  CHECK(fixture.ask("r3", "x", {.must_be_stored = true})->error()->kind == ApiErrorKind::kStoreFull);
  fixture.look_up("r1");  // behind what the store does besides
  test::set_disk_faults({});
  CHECK(fixture.ask("r4", "two")->finished()->is_stored);
  fixture.look_up("r4");
  CHECK(fixture.engine->status().store.num_saving == 0);
}

TEST_CASE("response store: a file that is damaged while it is open is salvaged, counted and told of") {
  const TemporaryDirectory root;
  {
    Fixture fixture(&root);
    for (int i = 0; i < 20; ++i)
      CHECK(fixture.ask("r" + std::to_string(i), std::string(20, 'x'))->finished()->is_stored);
  }
  const auto path = root.path() / kConversationFileName;
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(12288).put('?');
  Fixture fixture(&root);
  for (int i = 0; i < 20; ++i) CHECK(fixture.look_up("r" + std::to_string(i))->found());
  const auto status = fixture.engine->status().store;
  CHECK(status.num_damages == 1);
  CHECK(status.num_salvaged == 20);
  CHECK(status.num_lost == 0);
  const auto text = fixture.metrics.expose();
  CHECK(text.find("troupe_store_damages_total{model_name=\"bytes\"} 1") != std::string::npos);
  CHECK(text.find("troupe_store_responses_salvaged_total{model_name=\"bytes\"} 20") != std::string::npos);
}

// SQLite reports damage at a write, then each write in turn of salvaging and of
// opening what was salvaged finds the disk full.
TEST_CASE("response store: a disk that fills while a damaged file is replaced costs one salvage") {
  test::failing_vfs(true);
  bool was_hit = true;
  for (std::uint64_t n = 1; was_hit; ++n) {
    CAPTURE(n);
    const TemporaryDirectory root;
    Fixture fixture(&root);
    CHECK(fixture.ask("r1", "one")->finished()->is_stored);
    fixture.look_up("r1");  // behind what the store does besides
    test::set_disk_faults({.fail_at = 1, .only = SQLITE_CORRUPT, .code = SQLITE_CORRUPT});
    CHECK(fixture.look_up("r1", StoreQuery::Kind::kRemove)->error()->kind == ApiErrorKind::kStoreFailed);
    REQUIRE(test::disk_faults().was_hit);
    test::set_disk_faults({.fail_at = n, .only = SQLITE_FULL, .code = SQLITE_FULL});
    CHECK(fixture.ask("r2", "two")->finished()->is_stored);
    CHECK(fixture.look_up("r1")->found());
    was_hit = test::disk_faults().was_hit;
    test::set_disk_faults({});
    CHECK(fixture.engine->status().store.num_damages == 1);
    CHECK(std::filesystem::exists(root.path() / "conversations.sqlite.aside-1"));
    CHECK_FALSE(std::filesystem::exists(root.path() / "conversations.sqlite.aside-2"));
  }
}

TEST_CASE("response store: what is deleted is not in the files when the answer comes") {
  const TemporaryDirectory root;
  Fixture fixture(&root);
  const auto text_of_files = [&] { return text_of_files_in(root); };
  for (int i = 0; i < 5; ++i) fixture.ask("r" + std::to_string(i), "needle-" + std::to_string(i));
  CHECK(text_of_files().find("needle-3") != std::string::npos);
  CHECK(fixture.look_up("r3", StoreQuery::Kind::kRemove)->found());
  CHECK(text_of_files().find("needle-3") == std::string::npos);
  CHECK(text_of_files().find("needle-2") != std::string::npos);
}

TEST_CASE("response store: with the last response of a conversation all turns that it kept are forgotten") {
  const TemporaryDirectory root;
  Fixture fixture(&root, true);
  const auto has_words = [&](const char* words) {
    return test::file_text(root.path() / kTurnFileName).find(words) != std::string::npos;
  };
  fixture.ask("r1", "needle-one", {.instructions = "be Anna"});
  fixture.ask("r2", "two", {.previous = "r1", .instructions = "be Clara"});  // extends nothing
  fixture.ask("r3", "three", {.instructions = "be Emma"});
  for (const char* words : {"needle-one", "be Anna", "be Clara", "be Emma"}) CHECK(has_words(words));
  CHECK(fixture.look_up("r1", StoreQuery::Kind::kRemove)->found());
  CHECK(fixture.look_up("r2", StoreQuery::Kind::kRemove)->found());
  for (const char* words : {"needle-one", "be Anna", "be Clara"}) CHECK_FALSE(has_words(words));
  CHECK(has_words("be Emma"));
}

TEST_CASE(
    "response store: bytes of deleted responses that the disk refused to overwrite are overwritten after a "
    "commit") {
  const TemporaryDirectory root;
  test::failing_vfs(true);
  Fixture fixture(&root);
  for (int i = 0; i < 5; ++i) fixture.ask("r" + std::to_string(i), "needle-" + std::to_string(i));
  fixture.look_up("r1");  // behind what the store does besides
  test::set_disk_faults({.fail_at = 1, .for_ever = true, .only = SQLITE_IOERR_TRUNCATE});
  CHECK(fixture.look_up("r3", StoreQuery::Kind::kRemove)->found());
  CHECK(test::disk_faults().was_hit);
  CHECK(text_of_files_in(root).find("needle-3") != std::string::npos);
  CHECK(fixture.look_up("r3")->error()->kind == ApiErrorKind::kResponseNotFound);
  fixture.ask("r5", "x");  // tried again in vain
  fixture.look_up("r1");   // behind what the store does besides
  test::set_disk_faults({});
  fixture.ask("r6", "x");
  fixture.look_up("r1");
  CHECK(text_of_files_in(root).find("needle-3") == std::string::npos);
  CHECK(text_of_files_in(root).find("needle-2") != std::string::npos);
}

TEST_CASE("response store: what was only journaled, by an earlier process, is deleted by its tenant") {
  const TemporaryDirectory root;
  journal(root, 1, "alice");
  Fixture fixture(&root);
  CHECK(fixture.look_up("r0", StoreQuery::Kind::kRemove, "bob")->error()->kind ==
        ApiErrorKind::kResponseNotFound);
  CHECK(num_journaled(root) == 1);
  CHECK(fixture.look_up("r0", StoreQuery::Kind::kRemove, "alice")->found());
  CHECK(num_journaled(root) == 0);
  CHECK(fixture.look_up("r0", StoreQuery::Kind::kRemove, "alice")->error());
}

TEST_CASE("response store: it does what it was given before it ends") {
  constexpr int kNum = 100;
  const TemporaryDirectory root;
  journal(root, kNum, "alice");
  {
    const Fixture fixture(&root);
    for (int i = 0; i < kNum; ++i) fixture.engine->end_journal("r" + std::to_string(i));
  }
  CHECK(num_journaled(root) == 0);
}

TEST_CASE("response store: a client that leaves while its answer is stored leaves nothing behind") {
  const TemporaryDirectory root;
  Fixture fixture(&root);
  for (int i = 0; i < 50; ++i) {
    GenerationRequest request;
    request.id = "r" + std::to_string(i);
    request.prompt = ChatPrompt{.messages = {{"user", "x"}}};
    request.max_tokens = 1 + static_cast<std::uint32_t>(i) % 3;
    request.turn = std::make_shared<const ConversationTurn>(ConversationTurn{.created = std::time(nullptr)});
    const auto sink = std::make_shared<RecordingSink>();
    const auto id = fixture.engine->submit(std::move(request), sink);
    if (i % 2 == 0) {
      CHECK(test::eventually([&] { return !sink->text().empty() || sink->num_terminal() > 0; }));
    }
    fixture.engine->cancel(id);
    REQUIRE(sink->wait_for_end());
    CHECK(sink->num_terminal() == 1);
  }
  CHECK(fixture.engine->stop(std::chrono::seconds(20)));
}

}  // namespace troupe
