// SPDX-License-Identifier: Apache-2.0
// The engine as it is shipped, with a store in a directory of the test's.
#include "actors/response_store.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "actors/engine.hpp"
#include "store/sqlite.hpp"
#include "telemetry/log.hpp"
#include "tests/actors/byte_model.hpp"
#include "tests/actors/recording_sink.hpp"
#include "tests/support/eventually.hpp"
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
  explicit Fixture(const TemporaryDirectory* root) {
    configure_logging(LogLevel::kOff, LogFormat::kText);
    EngineOptions options;
    if (root != nullptr) options.store.directory = std::make_shared<StateDirectory>(root->path());
    engine = std::make_unique<Engine>(
        chat_model(), [] { return std::make_unique<NoopDevice>(letters_device()); }, options, metrics);
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
