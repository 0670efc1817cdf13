// SPDX-License-Identifier: Apache-2.0
#include "store/answer_journal.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "tests/store/watched_disk.hpp"
#include "tests/support/failing_disk.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;
using troupe::test::TemporaryDirectory;

namespace {

using Tokens = std::vector<std::int32_t>;

JournaledAnswer an_answer(const std::string& id, std::int64_t created = 5) {
  return {.id = id,
          .tenant = "tenant",
          .flow = "127.0.0.0",
          .created = created,
          .seed = 0xDEADBEEF12345678,
          .vocabulary = 77,
          .body = std::string("{\"input\":\"\0\"}", 13)};
}

struct Place {
  TemporaryDirectory root;
  std::shared_ptr<const StateDirectory> directory = std::make_shared<StateDirectory>(root.path() / "state");
  std::filesystem::path file(const std::string& id) const {
    return root.path() / "state" / ("answer-" + id + ".journal");
  }
  std::vector<JournaledAnswer> read() const { return AnswerJournal(directory).read(); }
};

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// As a version that knows more kinds would.
void append_block(const std::filesystem::path& path, std::uint32_t kind, const std::string& contents) {
  const std::string before = bytes_of(path);
  const std::uint64_t seed[] = {kind, contents.size(), before.size()};
  const std::uint64_t checksum =
      XXH3_64bits_withSeed(contents.data(), contents.size(), XXH3_64bits(seed, sizeof(seed)));
  std::string head = before.substr(0, 24);
  std::memcpy(head.data() + 4, &kind, 4);
  std::memcpy(head.data() + 8, &seed[1], 8);
  std::memcpy(head.data() + 16, &checksum, 8);
  write(path, before + head + contents);
}

}  // namespace

TEST_CASE("answer journal: the next process finds the request and its tokens, until it has ended") {
  const Place place;
  AnswerJournal journal(place.directory);
  const auto first = an_answer("resp_a", 9);
  const auto second = an_answer("resp_b", 8);
  REQUIRE(!journal.begin(first));
  REQUIRE(!journal.begin(second));
  journal.extend("resp_a", 77, 0, Tokens{1, 2, 3});
  journal.extend("resp_a", 77, 3, Tokens{-4});
  journal.extend("resp_unknown", 77, 0, Tokens{5});
  auto answers = place.read();
  REQUIRE(answers.size() == 2);
  CHECK(answers[0] == second);  // the older one
  auto expected = first;
  expected.tokens = {1, 2, 3, -4};
  CHECK(answers[1] == expected);
  CHECK((std::filesystem::status(place.file("resp_a")).permissions() & std::filesystem::perms::all) ==
        std::filesystem::perms(0600));
  journal.end("resp_b");
  journal.end("resp_b");
  answers = place.read();
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].id == "resp_a");
}

TEST_CASE("answer journal: the place from which on calls are not bound is kept, the first that was said") {
  const Place place;
  AnswerJournal journal(place.directory);
  REQUIRE(!journal.begin(an_answer("resp_a")));
  journal.extend("resp_a", 77, 0, Tokens{1, 2});
  CHECK(place.read()[0].unbound_from == std::nullopt);
  journal.mark_unbound("resp_a", 77, 2);
  journal.extend("resp_a", 77, 2, Tokens{3});
  journal.mark_unbound("resp_a", 77, 0);
  const auto answers = place.read();
  CHECK(answers[0].unbound_from == 2);
  CHECK(answers[0].tokens == Tokens{1, 2, 3});
  CHECK(answers[0].num_futile_starts == 0);
}

TEST_CASE("answer journal: a place among tokens of another tokenizer is none, but for the beginning") {
  for (const std::uint32_t from : {0U, 2U}) {
    const Place place;
    AnswerJournal journal(place.directory);
    REQUIRE(!journal.begin(an_answer("resp_a")));
    journal.extend("resp_a", 77, 0, Tokens{1, 2});
    journal.mark_unbound("resp_a", 77, from);
    journal.extend("resp_a", 78, 0, Tokens{8, 9, 10});
    CHECK(place.read()[0].unbound_from == (from == 0 ? std::optional(0U) : std::nullopt));
    journal.mark_unbound("resp_a", 78, 3);
    CHECK(place.read()[0].unbound_from == (from == 0 ? 0U : 3U));
  }
}

TEST_CASE("answer journal: a place may be said before the first tokens that it is of") {
  const Place place;
  AnswerJournal journal(place.directory);
  REQUIRE(!journal.begin(an_answer("resp_a")));
  journal.extend("resp_a", 77, 0, Tokens{1, 2, 3});
  journal.mark_unbound("resp_a", 77, 3);
  journal.mark_unbound("resp_a", 78, 1);
  journal.extend("resp_a", 78, 0, Tokens{8});
  CHECK(place.read()[0].unbound_from == 1);
  CHECK(place.read()[0].tokens == Tokens{8});
}

TEST_CASE("answer journal: the place where an answer is not bound is there with its request") {
  const Place place;
  auto answer = an_answer("resp_a");
  answer.unbound_from = 0;
  REQUIRE(!AnswerJournal(place.directory).begin(answer));
  CHECK(place.read().at(0) == answer);
}

TEST_CASE("answer journal: blocks of a kind that a later version writes are passed over, and are no start") {
  const Place place;
  AnswerJournal journal(place.directory);
  REQUIRE(!journal.begin(an_answer("resp_a")));
  append_block(place.file("resp_a"), 9, "later");
  journal.extend("resp_a", 77, 0, Tokens{1});
  append_block(place.file("resp_a"), 9, "");
  CHECK(place.read().at(0).num_futile_starts == 0);
  CHECK(place.read().at(0).tokens == Tokens{1});
}

TEST_CASE("answer journal: an answer is ended for its tenant, and for no other") {
  const Place place;
  AnswerJournal journal(place.directory);
  REQUIRE(!journal.begin(an_answer("resp_a")));
  CHECK_FALSE(journal.end_of("resp_a", "another"));
  CHECK_FALSE(journal.end_of("resp_b", "tenant"));
  CHECK_FALSE(journal.end_of("../resp_a", "tenant"));
  CHECK(place.read().size() == 1);
  CHECK(journal.end_of("resp_a", "tenant"));
  CHECK(place.read().empty());
  CHECK_FALSE(journal.end_of("resp_a", "tenant"));
}

TEST_CASE("answer journal: processes that ran it and added nothing are counted, unless they ended in order") {
  const Place place;
  AnswerJournal journal(place.directory);
  REQUIRE(!journal.begin(an_answer("resp_a")));
  CHECK(place.read().at(0).num_futile_starts == 0);
  CHECK(place.read().at(0).num_futile_starts == 0);  // it was looked at, not run
  for (std::uint32_t i = 1; i < 4; ++i) {
    journal.mark_start("resp_a");
    CHECK(place.read().at(0).num_futile_starts == i);
  }
  journal.extend("resp_a", 77, 0, Tokens{7});
  CHECK(place.read().at(0).num_futile_starts == 0);
  journal.mark_start("resp_a");
  journal.extend("resp_a", 77, 1, Tokens{});
  CHECK(place.read().at(0).num_futile_starts == 0);
  CHECK(place.read().at(0).tokens == Tokens{7});
}

TEST_CASE("answer journal: tokens behind some that were not written are not used, and can be written again") {
  const Place place;
  AnswerJournal journal(place.directory);
  REQUIRE(!journal.begin(an_answer("resp_a")));
  journal.extend("resp_a", 77, 0, Tokens{1, 2});
  journal.extend("resp_a", 77, 4, Tokens{5, 6});  // 3 and 4 did not get there
  journal.extend("resp_a", 77, 6, Tokens{7});
  CHECK(place.read().at(0).tokens == Tokens{1, 2});
  journal.extend("resp_a", 77, 2, Tokens{3, 4});
  CHECK(place.read().at(0).tokens == Tokens{1, 2, 3, 4});
}

TEST_CASE("answer journal: tokens can be replaced, and those of another tokenizer replace all") {
  const Place place;
  AnswerJournal journal(place.directory);
  REQUIRE(!journal.begin(an_answer("resp_a")));
  journal.extend("resp_a", 77, 0, Tokens{1, 2, 3});
  journal.extend("resp_a", 77, 1, Tokens{2, 3, 4});
  CHECK(place.read().at(0).tokens == Tokens{1, 2, 3, 4});
  journal.extend("resp_a", 78, 2, Tokens{9});  // what is in front of it is of the other
  CHECK(place.read().at(0).tokens.empty());
  journal.extend("resp_a", 78, 0, Tokens{8});
  CHECK(place.read().at(0).tokens == Tokens{8});
  CHECK(place.read().at(0).vocabulary == 78);
}

TEST_CASE("answer journal: a file with another name is read and ended all the same") {
  const Place place;
  AnswerJournal journal(place.directory);
  REQUIRE(!journal.begin(an_answer("resp_a")));
  std::filesystem::create_hard_link(place.file("resp_a"), place.root.path() / "backup");
  journal.extend("resp_a", 77, 0, Tokens{1});
  CHECK(place.read().at(0).tokens == Tokens{1});
  journal.end("resp_a");
  CHECK(place.read().empty());
  CHECK(bytes_of(place.root.path() / "backup").find("input") == std::string::npos);
}

TEST_CASE(
    "answer journal: of a file cut or changed anywhere, what is in front is used, and more can be added") {
  const Place place;
  const auto answer = an_answer("resp_a");
  REQUIRE(!AnswerJournal(place.directory).begin(answer));
  const std::size_t num_request_bytes = bytes_of(place.file("resp_a")).size();
  AnswerJournal journal(place.directory);
  journal.extend("resp_a", 77, 0, Tokens{1, 2});
  journal.extend("resp_a", 77, 2, Tokens{3});
  const std::string whole = bytes_of(place.file("resp_a"));
  std::mt19937 random(1);
  for (std::size_t i = 0; i < 2 * whole.size(); ++i) {
    std::string damaged = whole;
    const std::size_t at = i / 2;
    if (i % 2 == 0) {
      damaged.resize(at);
    } else {
      damaged[at] = static_cast<char>(damaged[at] ^ static_cast<char>(1U << (random() % 8)));
    }
    write(place.file("resp_a"), damaged);
    const auto found = place.read();
    CAPTURE(i);
    if (at < num_request_bytes) {
      CHECK(found.empty());
      CHECK(!std::filesystem::exists(place.file("resp_a")));
      continue;
    }
    REQUIRE(found.size() == 1);
    CHECK(found[0].body == answer.body);
    const Tokens& tokens = found[0].tokens;
    CHECK((tokens.empty() || tokens == Tokens{1, 2}));
    AnswerJournal(place.directory).extend("resp_a", 77, tokens.size(), Tokens{9});
    Tokens expected = tokens;
    expected.push_back(9);
    CHECK(place.read().at(0).tokens == expected);
  }
}

TEST_CASE("answer journal: words are overwritten, and that is synced, before they are cut off or removed") {
  const auto num_freed = [](const std::function<void()>& run) {
    const test::FreedBytes freed;
    run();
    CHECK(freed.num_not_overwritten() == 0);
    return freed.num_freed();
  };
  const Place place;
  REQUIRE(!AnswerJournal(place.directory).begin(an_answer("resp_a")));
  const auto whole = bytes_of(place.file("resp_a"));
  write(place.file("resp_b").string() + ".new", whole);  // half-written
  CHECK(num_freed([&] { CHECK(place.read().size() == 1); }) == 1);
  write(place.file("resp_a"), whole + "half a block");
  CHECK(num_freed([&] { CHECK(place.read().size() == 1); }) == 1);
  CHECK(bytes_of(place.file("resp_a")) == whole);
  {
    const test::FailingDisk disk(whole.size() + 3);
    AnswerJournal journal(place.directory);
    CHECK(num_freed([&] { journal.extend("resp_a", 77, 0, Tokens{1}); }) == 1);
    CHECK(bytes_of(place.file("resp_a")) == whole);
    CHECK(num_freed([&] { CHECK(journal.begin(an_answer("resp_much_longer")).has_value()); }) == 1);
  }
  write(place.file("resp_a"), "words, and no journal");
  CHECK(num_freed([&] { CHECK(place.read().empty()); }) == 1);
  write(place.file("resp_a"), whole);
  CHECK(num_freed([&] { AnswerJournal(place.directory).end("resp_a"); }) == 1);
  CHECK(!std::filesystem::exists(place.file("resp_a")));
}

TEST_CASE("answer journal: links, directories, foreign names and half-written files are not followed") {
  const Place place;
  const auto outside = place.root.path() / "outside";
  write(outside, "secret");
  std::filesystem::create_symlink(outside, place.file("resp_link"));
  std::filesystem::create_directory(place.file("resp_directory"));
  write(place.file("resp x"), "x");
  REQUIRE(!AnswerJournal(place.directory).begin(an_answer("resp_a")));
  std::filesystem::copy_file(place.file("resp_a"), place.file("resp_copy"));  // says another id
  write(place.file("resp_half").string() + ".new", "half");
  const auto found = place.read();
  REQUIRE(found.size() == 1);
  CHECK(found[0].id == "resp_a");
  CHECK(bytes_of(outside) == "secret");
  CHECK(!std::filesystem::exists(place.file("resp_half").string() + ".new"));
  CHECK(AnswerJournal(place.directory).begin(an_answer("../resp")).has_value());
}

TEST_CASE("answer journal: it takes no more than it may, and room comes back") {
  const Place place;
  AnswerJournal journal(place.directory, {.max_answers = 2, .max_bytes = 100'000});
  REQUIRE(!journal.begin(an_answer("resp_a")));
  REQUIRE(!journal.begin(an_answer("resp_b")));
  const auto refused = journal.begin(an_answer("resp_c"));
  REQUIRE(refused);
  CHECK(refused->fault == StoreFault::kFull);
  journal.end("resp_a");
  auto large = an_answer("resp_c");
  large.body.assign(200'000, 'x');
  CHECK(journal.begin(large).has_value());
  CHECK(!journal.begin(an_answer("resp_c")).has_value());
}
