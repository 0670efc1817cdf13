// SPDX-License-Identifier: Apache-2.0
#include "actors/turn_keeping.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "store/turn_file.hpp"
#include "telemetry/log.hpp"
#include "tests/actors/byte_model.hpp"
#include "tests/store/watched_disk.hpp"
#include "tests/support/failing_disk.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/observability/logged_lines.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

using test::TemporaryDirectory;

std::vector<EngineModel> models(std::uint64_t vocabulary) {
  EngineModel model{.served = byte_model(), .make_device = {}};
  model.served.vocabulary = vocabulary;
  return {model};
}

RememberedText part(std::uint64_t key, std::vector<TokenId> tokens) {
  return {.key = key,
          .text = "a question",
          .answer = "an answer",
          .tokens = std::move(tokens),
          .scope = turn_scope(7, "salt")};
}

// A process that keeps its turns in the directory.
struct Process {
  explicit Process(const TemporaryDirectory& root, std::uint64_t vocabulary = 7,
                   std::chrono::seconds keep = std::chrono::hours(1)) {
    configure_logging(LogLevel::kOff, LogFormat::kText);
    keeping = std::make_unique<TurnKeeping>(std::make_shared<const StateDirectory>(root.path()), memory,
                                            models(vocabulary), keep);
  }

  void remember(RememberedText content) {
    std::vector<RememberedText> parts;
    parts.push_back(std::move(content));
    memory->remember("ada", nullptr, std::move(parts));
    keeping->write();
  }
  bool remembers(std::uint64_t key) const {
    return memory->find("ada", std::vector<std::uint64_t>{key}) != nullptr;
  }

  std::shared_ptr<TurnMemory> memory = std::make_shared<TurnMemory>(TurnMemoryLimits{});
  std::unique_ptr<TurnKeeping> keeping;
};

}  // namespace

TEST_CASE("turn keeping: a later process remembers the turns of an earlier one") {
  const TemporaryDirectory root;
  Process(root).remember(part(1, {'a', 'b'}));
  const Process later(root);
  REQUIRE(later.remembers(1));
  const auto found = later.memory->find("ada", std::vector<std::uint64_t>{1});
  CHECK(found->has_same_content(part(1, {'a', 'b'})));
}

TEST_CASE("turn keeping: tokens of another vocabulary, or of none, are forgotten for good") {
  const TemporaryDirectory root;
  Process(root).remember(part(1, {'a'}));
  CHECK_FALSE(Process(root, 8).remembers(1));
  CHECK_FALSE(Process(root, 7).remembers(1));
  Process(root).remember(part(2, {'a', static_cast<TokenId>(ByteTokenizer::kVocabularySize)}));
  CHECK_FALSE(Process(root).remembers(2));
  Process(root).remember(part(3, {-1}));
  CHECK_FALSE(Process(root).remembers(3));
}

TEST_CASE("turn keeping: where turns are not kept any more, the file of earlier ones goes") {
  const TemporaryDirectory root;
  const auto path = root.path() / kTurnFileName;
  Process(root).remember(part(1, {'a'}));
  REQUIRE(std::filesystem::exists(path));
  EngineOptions options;  // without a disk tier
  options.store.directory = std::make_shared<const StateDirectory>(root.path());
  CHECK(keep_turns(options, std::make_shared<TurnMemory>(TurnMemoryLimits{}), models(7)) == nullptr);
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("turn keeping: where a disk tier is wanted and lacking, turns are kept all the same") {
  const TemporaryDirectory root;
  Process(root).remember(part(1, {'a'}));
  {
    EngineOptions options;
    options.store.directory = std::make_shared<const StateDirectory>(root.path());
    options.cache.is_disk_lacking = true;
    const auto memory = std::make_shared<TurnMemory>(TurnMemoryLimits{});
    CHECK(keep_turns(options, memory, models(7)) != nullptr);
    CHECK(memory->size().num_parts == 1);
  }
  CHECK(Process(root).remembers(1));
}

TEST_CASE("turn keeping: what a full disk did not take is written when it has room again, in its order") {
  const TemporaryDirectory root;
  {
    Process process(root);
    process.remember(part(1, {'a'}));
    {
      const test::FailingDisk disk(0);
      process.remember(part(2, {'b'}));
      process.remember(part(3, {'c'}));
      auto question = part(4, {'d'});
      question.begin = process.memory->find("ada", std::vector<std::uint64_t>{3})->end();
      std::vector<RememberedText> next;
      next.push_back(question);
      process.memory->remember("ada", process.memory->find("ada", std::vector<std::uint64_t>{3}),
                               std::move(next));
      process.keeping->write();
      process.memory->forget("ada", std::vector<TokenId>{'b'}, 0);
      process.keeping->write();
    }
    process.remember(part(5, {'e'}));
  }
  const Process later(root);
  for (const std::uint64_t key : {1, 3, 4, 5}) CHECK(later.remembers(key));
  CHECK_FALSE(later.remembers(2));
}

TEST_CASE("turn keeping: what a disk refused to overwrite is overwritten by the next write") {
  const TemporaryDirectory root;
  Process process(root);
  process.remember(part(1, {'a'}));
  process.memory->forget("ada", std::vector<TokenId>{'a'}, 0);
  const auto has_words = [&] {
    return test::file_text(root.path() / kTurnFileName).find("a question") != std::string::npos;
  };
  {
    const test::FailingDisk disk(0);
    process.keeping->write();
  }
  CHECK(has_words());
  process.keeping->write();
  CHECK_FALSE(has_words());
}

TEST_CASE("turn keeping: zeros that a deletion asks for are synced by the write that brings them") {
  const TemporaryDirectory root;
  Process process(root);
  process.remember(part(1, {'a'}));
  process.memory->forget("ada", std::vector<TokenId>{'a'}, 0);
  const test::FreedBytes watched;
  {
    const test::FailingDisk disk(0);
    process.keeping->write_lastingly();
  }
  const int num_before = watched.num_syncs();
  process.keeping->write();
  CHECK(watched.num_syncs() == num_before + 1);
  process.keeping->write();
  CHECK(watched.num_syncs() == num_before + 1);
}

TEST_CASE("turn keeping: a disk that refuses is told of once each time, also at the start") {
  const TemporaryDirectory root;
  for (std::uint64_t key : {1, 2}) Process(root).remember(part(key, {'a'}));
  const auto lines = test::logged_by(LogFormat::kText, [&] {
    const auto memory = std::make_shared<TurnMemory>(TurnMemoryLimits{});
    std::unique_ptr<TurnKeeping> keeping;
    const auto remember = [&](std::uint64_t key) {
      std::vector<RememberedText> parts;
      parts.push_back(part(key, {'b'}));
      memory->remember("ada", nullptr, std::move(parts));
      keeping->write();
    };
    {
      const test::FailingDisk disk(0);  // the parts are of another vocabulary, and to be overwritten
      keeping = std::make_unique<TurnKeeping>(std::make_shared<const StateDirectory>(root.path()), memory,
                                              models(8), std::chrono::hours(1));
      keeping->write();
      remember(3);
    }
    keeping->write();  // it works, though nothing has changed
    const test::FailingDisk disk(0);
    remember(4);
    keeping->write();
  });
  CHECK(lines.size() == 2);
}

TEST_CASE("turn keeping: turns that nothing has continued for too long go") {
  const TemporaryDirectory root;
  {
    const StateDirectory directory(root.path());
    TurnFile file(directory);
    const std::int64_t long_ago = 1000;  // Unix seconds
    REQUIRE(file.add({.number = 1, .written = long_ago, .tenant = "ada", .scope = "7:", .key = 1}));
  }
  CHECK(Process(root, 7, std::chrono::seconds(0)).remembers(1));  // they stay
  CHECK_FALSE(Process(root, 7, std::chrono::hours(1)).remembers(1));
  CHECK_FALSE(Process(root, 7, std::chrono::seconds(0)).remembers(1));
}

}  // namespace troupe
