// SPDX-License-Identifier: Apache-2.0
#include "store/turn_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "telemetry/log.hpp"
#include "tests/store/watched_disk.hpp"
#include "tests/support/failing_disk.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

using test::FailingDisk;
using test::FreedBytes;
using test::RefusedCalls;
using test::TemporaryDirectory;

StoredTurn turn(std::uint64_t number, std::uint64_t before = 0, const std::string& answer = "an answer") {
  return {.number = number,
          .before = before,
          .written = static_cast<std::int64_t>(number) * 10,
          .tenant = "ada",
          .scope = "7:salt",
          .key = number * 1000,
          .begin = 3,
          .text = "a question",
          .trusted = {{3, 5}, {9, 13}},
          .answer = answer,
          .answer_specials = {{13, 14}},
          .tokens = {1, 2, -3}};
}

std::vector<StoredTurn> stored_in(const TemporaryDirectory& root) {
  configure_logging(LogLevel::kOff, LogFormat::kText);
  const StateDirectory directory(root.path());
  return TurnFile(directory).take_stored();
}

}  // namespace

TEST_CASE("turn file: parts are there for the next process, behind those that they continue") {
  const TemporaryDirectory root;
  const StateDirectory directory(root.path());
  {
    TurnFile file(directory);
    CHECK(file.take_stored().empty());
    CHECK(file.add(turn(1)));
    CHECK(file.add(turn(2, 1, "")));
    CHECK(file.add(turn(5, 2)));
    CHECK_FALSE(file.add(turn(6, 4)));  // nothing has the number 4
  }
  TurnFile file(directory);
  CHECK(file.take_stored() == std::vector<StoredTurn>{turn(1), turn(2, 1, ""), turn(5, 2)});
  CHECK(file.take_stored().empty());
  CHECK(file.add(turn(6, 5)));
}

TEST_CASE("turn file: an erased part leaves nothing, and the rest stays") {
  const TemporaryDirectory root;
  {
    const StateDirectory directory(root.path());
    TurnFile file(directory);
    CHECK(file.add(turn(1, 0, "Anna")));
    CHECK(file.add(turn(2, 0, "Clara")));
    CHECK(file.erase(1));
    CHECK(file.erase(1));
    CHECK_FALSE(file.add(turn(3, 1)));
  }
  CHECK(test::file_text(root.path() / kTurnFileName).find("Anna") == std::string::npos);
  CHECK(stored_in(root) == std::vector<StoredTurn>{turn(2, 0, "Clara")});
}

TEST_CASE("turn file: what a failing disk did not overwrite is overwritten later") {
  const TemporaryDirectory root;
  {
    const StateDirectory directory(root.path());
    TurnFile file(directory);
    CHECK(file.add(turn(1, 0, "Anna")));
    const auto end = std::filesystem::file_size(root.path() / kTurnFileName);
    CHECK(file.add(turn(2, 0, "Clara")));
    CHECK(file.add(turn(3, 0, "Emma")));
    {
      const FailingDisk disk(end);
      CHECK_FALSE(file.erase(2));
      CHECK_FALSE(file.overwrite_erased());
    }
    CHECK_FALSE(file.add(turn(2, 0, "Laura")));  // two of one number: what is behind would be lost
    CHECK(file.overwrite_erased());
    CHECK(file.add(turn(4, 3, "Maria")));
  }
  CHECK(test::file_text(root.path() / kTurnFileName).find("Clara") == std::string::npos);
  CHECK(stored_in(root) ==
        std::vector<StoredTurn>{turn(1, 0, "Anna"), turn(3, 0, "Emma"), turn(4, 3, "Maria")});
}

TEST_CASE("turn file: each erasure tries its own part, and a new try stops at the first that is refused") {
  const TemporaryDirectory root;
  const StateDirectory directory(root.path());
  const auto path = root.path() / kTurnFileName;
  TurnFile file(directory);
  CHECK(file.add(turn(2, 0, "Clara")));
  CHECK(file.add(turn(4, 0, "Maria")));
  const auto end = std::filesystem::file_size(path);
  CHECK(file.add(turn(1, 0, "Anna")));
  CHECK(file.add(turn(3, 0, "Emma")));
  const auto has = [&](const char* name) { return test::file_text(path).find(name) != std::string::npos; };
  {
    const FailingDisk disk(end);
    CHECK_FALSE(file.erase(1));
    CHECK(file.erase(2));
    CHECK_FALSE(file.erase(3));
  }
  {
    const FailingDisk disk(0);
    CHECK_FALSE(file.erase(4));
    CHECK_FALSE(file.overwrite_erased());  // in vain for 1
  }
  {
    const FailingDisk disk(end);
    CHECK_FALSE(file.overwrite_erased());  // for 3, and 4 waits
    CHECK(has("Maria"));
    CHECK_FALSE(file.overwrite_erased());  // 4, and in vain for 1
    CHECK_FALSE(has("Maria"));
    CHECK(has("Anna"));
  }
  CHECK(file.overwrite_erased());
  for (const char* name : {"Anna", "Clara", "Emma"}) CHECK_FALSE(has(name));
}

TEST_CASE("turn file: zeros of erased parts are synced once, where there are any") {
  const TemporaryDirectory root;
  const StateDirectory directory(root.path());
  TurnFile file(directory);
  for (std::uint64_t number = 1; number <= 3; ++number) CHECK(file.add(turn(number)));
  const FreedBytes watched;
  CHECK(file.sync_erased());
  CHECK(file.erase(1));
  CHECK(file.erase(2));
  CHECK(watched.num_syncs() == 0);
  CHECK(file.sync_erased());
  CHECK(file.sync_erased());
  CHECK(watched.num_syncs() == 1);
}

TEST_CASE("turn file: zeros that a sync did not bring to the disk are written again before the next") {
  const TemporaryDirectory root;
  const StateDirectory directory(root.path());
  const auto path = root.path() / kTurnFileName;
  TurnFile file(directory);
  CHECK(file.add(turn(1, 0, "Anna")));
  CHECK(file.add(turn(2, 0, "Clara")));
  const auto on_disk = test::file_text(path);
  CHECK(file.erase(1));
  {
    const RefusedCalls refused(RefusedCalls::Kind::kSync);
    CHECK_FALSE(file.sync_erased());
  }
  // The system takes what it could not write for written, and may read it again from the disk.
  const PlainFile disk(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  REQUIRE(write_all_at(disk.get(), 0, on_disk) == 0);
  CHECK(file.overwrite_erased());
  CHECK(file.sync_erased());
  CHECK(test::file_text(path).find("Anna") == std::string::npos);
  CHECK(TurnFile(directory).take_stored() == std::vector<StoredTurn>{turn(2, 0, "Clara")});
}

TEST_CASE("turn file: a disk that is away for a moment costs no turns") {
  for (const bool is_header : {false, true}) {
    const TemporaryDirectory root;
    std::size_t second = 0;
    {
      const StateDirectory directory(root.path());
      TurnFile file(directory);
      CHECK(file.add(turn(1)));
      second = std::filesystem::file_size(root.path() / kTurnFileName);
      CHECK(file.add(turn(2)));
    }
    const std::size_t begin = is_header ? 0 : second;
    const test::UnreadableBytes bytes(begin, begin + 8, 2);
    CHECK(stored_in(root) == std::vector<StoredTurn>{turn(1), turn(2)});
  }
}

TEST_CASE("turn file: bytes that can't be read are damage, wherever they are, and one start sees them") {
  std::size_t second = 0;
  for (const bool is_header : {false, true}) {
    const TemporaryDirectory root;
    configure_logging(LogLevel::kOff, LogFormat::kText);
    {
      const StateDirectory directory(root.path());
      TurnFile file(directory);
      CHECK(file.add(turn(1)));
      second = std::filesystem::file_size(root.path() / kTurnFileName);
      CHECK(file.add(turn(2)));
    }
    {
      const StateDirectory directory(root.path());
      const std::size_t begin = is_header ? 0 : second;
      const test::UnreadableBytes bytes(begin, begin + 8);
      TurnFile file(directory);
      CHECK(file.take_stored().size() == (is_header ? 0 : 1));
      CHECK(file.add(turn(3)));
    }
    CHECK(stored_in(root).size() == (is_header ? 1 : 2));
  }
}

TEST_CASE("turn file: of a part that a full disk cuts short nothing is left") {
  const TemporaryDirectory root;
  const auto path = root.path() / kTurnFileName;
  {
    const StateDirectory directory(root.path());
    TurnFile file(directory);
    CHECK(file.add(turn(1)));
    const auto end = std::filesystem::file_size(path);
    {
      const FreedBytes freed;
      const FailingDisk disk(end + 4096);
      CHECK_FALSE(file.add(turn(2, 1, std::string(10'000, 'x'))));
      CHECK(freed.num_freed() == 1);
      CHECK(freed.num_not_overwritten() == 0);
    }
    CHECK(std::filesystem::file_size(path) == end);
    CHECK(file.add(turn(3, 1)));
  }
  CHECK(stored_in(root) == std::vector<StoredTurn>{turn(1), turn(3, 1)});
}

// As a client could send it, for its text to be read as parts of another tenant's.
TEST_CASE("turn file: a block at another place is none") {
  const TemporaryDirectory root;
  const auto path = root.path() / kTurnFileName;
  std::string block;
  {
    const StateDirectory directory(root.path());
    TurnFile file(directory);
    const auto begin = std::filesystem::file_size(path);
    CHECK(file.add(turn(7)));
    block = test::file_text(path).substr(begin);
    CHECK(file.erase(7));
    CHECK(file.add(turn(1)));
  }
  root.write(kTurnFileName, test::file_text(path) + block);
  CHECK(stored_in(root) == std::vector<StoredTurn>{turn(1)});
}

TEST_CASE("turn file: a part of more bytes than any has is not read") {
  const TemporaryDirectory root;
  {
    const StateDirectory directory(root.path());
    TurnFile file(directory);
    CHECK(file.add(turn(1)));
  }
  const auto path = root.path() / kTurnFileName;
  const auto whole = test::file_text(path);
  auto huge = whole;
  huge.append(whole.substr(8, 48));  // the head of a block
  const std::uint64_t num_bytes = std::uint64_t{1} << 40;
  std::memcpy(huge.data() + whole.size() + 8, &num_bytes, sizeof(num_bytes));
  root.write(kTurnFileName, huge);
  std::filesystem::resize_file(path, std::uint64_t{1} << 41);  // a hole
  CHECK(stored_in(root) == std::vector<StoredTurn>{turn(1)});
  CHECK(std::filesystem::file_size(path) == whole.size());
}

TEST_CASE("turn file: what a killed process left of words is overwritten") {
  const TemporaryDirectory root;
  const auto path = root.path() / kTurnFileName;
  std::string whole;
  {
    const StateDirectory directory(root.path());
    TurnFile file(directory);
    CHECK(file.add(turn(1, 0, "Anna")));
    whole = test::file_text(path);
    CHECK(file.erase(1));
  }
  constexpr std::size_t kEndOfHead = 8 + 48;
  root.write(kTurnFileName, test::file_text(path).substr(0, kEndOfHead) + whole.substr(kEndOfHead));
  const auto half_written = root.write("turns.log.new", whole);
  const FreedBytes freed;
  CHECK(stored_in(root).empty());
  CHECK(freed.num_freed() == 1);
  CHECK(freed.num_not_overwritten() == 0);
  CHECK(test::file_text(path).find("Anna") == std::string::npos);
  CHECK_FALSE(std::filesystem::exists(half_written));
}

TEST_CASE("turn file: the file that was copied without its gaps has no words left") {
  const TemporaryDirectory root;
  const StateDirectory directory(root.path());
  TurnFile file(directory);
  CHECK(file.add(turn(1, 0, "Anna")));
  const PlainFile old(::open((root.path() / kTurnFileName).c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(old.is_open());
  CHECK(file.add(turn(2, 0, std::string(2'000'000, 'x'))));
  const FreedBytes freed;
  CHECK(file.erase(2));
  CHECK(freed.num_freed() > 0);
  CHECK(freed.num_not_overwritten() == 0);
  CHECK(freed.num_nameless() == 0);  // a process that is killed leaves no words without a name
  CHECK(read_all_at(old.get(), 0, 10'000'000)->find_first_not_of('\0') == std::string::npos);
  CHECK_FALSE(std::filesystem::exists(root.path() / "turns.log.new"));
  CHECK(test::file_text(root.path() / kTurnFileName).find("Anna") != std::string::npos);
  CHECK(file.add(turn(3, 1)));
}

TEST_CASE("turn file: an old file that a disk refused to overwrite is tried again, and holds up no sync") {
  const TemporaryDirectory root;
  configure_logging(LogLevel::kOff, LogFormat::kText);
  const auto old = root.path() / "turns.log.new";
  const StateDirectory directory(root.path());
  TurnFile file(directory);
  CHECK(file.add(turn(1, 0, "Anna")));
  CHECK(file.add(turn(2, 0, std::string(2'000'000, 'x'))));
  const auto end = std::filesystem::file_size(root.path() / kTurnFileName);
  CHECK(file.add(turn(3, 0, "Clara")));
  {
    const FailingDisk disk(end);  // the copy has room, the zeros over Clara have none
    CHECK(file.erase(2));
    CHECK(test::file_text(old).find("Anna") == std::string::npos);
    CHECK(test::file_text(old).find("Clara") != std::string::npos);
    CHECK_FALSE(file.remove_old());
    CHECK(file.sync_erased());
  }
  CHECK(file.remove_old());
  CHECK_FALSE(std::filesystem::exists(old));
  CHECK(file.add(turn(4, 3)));
}

TEST_CASE("turn file: where names can't be exchanged, a file that was copied has one while it has words") {
  const TemporaryDirectory root;
  configure_logging(LogLevel::kOff, LogFormat::kText);
  const auto old = root.path() / "turns.log.old";
  const StateDirectory directory(root.path());
  const RefusedCalls refused(RefusedCalls::Kind::kExchange);
  {
    TurnFile file(directory);
    CHECK(file.add(turn(1, 0, "Anna")));
    CHECK(file.add(turn(2, 0, std::string(2'000'000, 'x'))));
    const auto end = std::filesystem::file_size(root.path() / kTurnFileName);
    CHECK(file.add(turn(3, 0, "Clara")));
    const FreedBytes freed;
    {
      const FailingDisk disk(end);  // the copy has room, the zeros over Clara have none
      CHECK(file.erase(2));
      CHECK(test::file_text(old).find("Clara") != std::string::npos);
      CHECK_FALSE(file.remove_old());
    }
    CHECK(file.remove_old());
    CHECK_FALSE(std::filesystem::exists(old));
    CHECK(freed.num_nameless() == 0);
    CHECK(freed.num_not_overwritten() == 0);
  }
  CHECK(TurnFile(directory).take_stored() ==
        std::vector<StoredTurn>{turn(1, 0, "Anna"), turn(3, 0, "Clara")});
  root.write("turns.log.old", "what a process left that was killed");
  CHECK(TurnFile(directory).take_stored().size() == 2);
  CHECK_FALSE(std::filesystem::exists(old));
}

TEST_CASE("turn file: damage that a disk refuses to overwrite is cut off all the same") {
  const TemporaryDirectory root;
  configure_logging(LogLevel::kOff, LogFormat::kText);
  const StateDirectory directory(root.path());
  CHECK(TurnFile(directory).add(turn(1, 0, "Anna")));
  const auto path = root.path() / kTurnFileName;
  const auto whole = test::file_text(path);
  root.write(kTurnFileName, whole + "half a block");
  {
    const FailingDisk disk(whole.size());
    CHECK(TurnFile(directory).take_stored() == std::vector<StoredTurn>{turn(1, 0, "Anna")});
  }
  CHECK(test::file_text(path) == whole);
}

TEST_CASE("turn file: the last number is that of an erased part, too") {
  const TemporaryDirectory root;
  const StateDirectory directory(root.path());
  {
    TurnFile file(directory);
    CHECK(file.add(turn(1)));
    const auto end = std::filesystem::file_size(root.path() / kTurnFileName);
    CHECK(file.add(turn(7)));
    const FailingDisk disk(end + 64);  // its head is written, its words stay
    CHECK_FALSE(file.erase(7));
  }
  const TurnFile later(directory);
  CHECK(later.last_number() == 7);
}

TEST_CASE("turn file: words are overwritten, and that is synced, before they are cut off or removed") {
  const TemporaryDirectory root;
  const StateDirectory directory(root.path());
  const auto path = root.path() / kTurnFileName;
  {
    TurnFile file(directory);
    CHECK(file.add(turn(1)));
    CHECK(file.add(turn(2)));
  }
  const auto whole = test::file_text(path);
  configure_logging(LogLevel::kOff, LogFormat::kText);
  const auto num_freed = [](const std::function<void()>& run) {
    const FreedBytes freed;
    run();
    CHECK(freed.num_not_overwritten() == 0);
    return freed.num_freed();
  };
  root.write(kTurnFileName, whole.substr(0, whole.size() - 1));  // the second part is damaged
  CHECK(num_freed([&] { CHECK(TurnFile(directory).take_stored().size() == 1); }) == 1);
  root.write(kTurnFileName, "no file of turns, but words");
  CHECK(num_freed([&] { CHECK(TurnFile(directory).take_stored().empty()); }) == 1);
  root.write(kTurnFileName, whole);
  root.write("turns.log.new", whole);
  CHECK(num_freed([&] { remove_turn_file(directory); }) == 2);
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("turn file: words that a disk refuses to overwrite are left for the next start") {
  const TemporaryDirectory root;
  const StateDirectory directory(root.path());
  configure_logging(LogLevel::kOff, LogFormat::kText);
  const auto path = root.path() / kTurnFileName;
  root.write(kTurnFileName, "Anna");
  {
    const FailingDisk disk(0);
    remove_turn_file(directory);
  }
  CHECK(test::file_text(path) == "Anna");
  remove_turn_file(directory);
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("turn file: one that can't be opened or removed is not taken for gone") {
  const TemporaryDirectory root;
  const StateDirectory directory(root.path());
  configure_logging(LogLevel::kOff, LogFormat::kText);
  const auto path = root.path() / kTurnFileName;
  root.write(kTurnFileName, "Anna");
  {
    const RefusedCalls refused(RefusedCalls::Kind::kOpen);
    remove_turn_file(directory);
  }
  CHECK(test::file_text(path) == "Anna");
  remove_turn_file(directory);
  CHECK_FALSE(std::filesystem::exists(path));
  root.write("turns.log.new", "Anna");
  TurnFile file(directory);
  CHECK_FALSE(std::filesystem::exists(root.path() / "turns.log.new"));
  root.write("turns.log.new", "Clara");
  const RefusedCalls refused(RefusedCalls::Kind::kUnlink);
  TurnFile other(directory);
  CHECK_FALSE(other.remove_old());
  CHECK(test::file_text(root.path() / "turns.log.new").find("Clara") == std::string::npos);
}

TEST_CASE("turn file: it is for the owner only, and has one name") {
  const TemporaryDirectory root;
  CHECK(stored_in(root).empty());
  const auto path = root.path() / kTurnFileName;
  std::filesystem::permissions(path, std::filesystem::perms(0644));
  CHECK(stored_in(root).empty());
  CHECK(std::filesystem::status(path).permissions() == std::filesystem::perms(0600));
  std::filesystem::create_hard_link(path, root.path() / "other");
  const StateDirectory directory(root.path());
  CHECK_THROWS(TurnFile(directory));
}

TEST_CASE("turn file: cut off or damaged anywhere, it has the parts in front of that") {
  const TemporaryDirectory root;
  {
    const StateDirectory directory(root.path());
    TurnFile file(directory);
    for (std::uint64_t number = 1; number <= 3; ++number) CHECK(file.add(turn(number, number - 1)));
  }
  const auto whole = test::file_text(root.path() / kTurnFileName);
  const std::vector<StoredTurn> all = {turn(1), turn(2, 1), turn(3, 2)};
  const auto is_beginning = [&](const std::vector<StoredTurn>& found) {
    return found.size() < all.size() && std::equal(found.begin(), found.end(), all.begin());
  };
  for (std::size_t size = 0; size < whole.size(); ++size) {
    root.write(kTurnFileName, whole.substr(0, size));
    CHECK(is_beginning(stored_in(root)));
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    auto damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    root.write(kTurnFileName, damaged);
    CHECK(is_beginning(stored_in(root)));
    const StateDirectory directory(root.path());
    CHECK(TurnFile(directory).add(turn(9)));  // what was read is whole
  }
}

TEST_CASE("turn file: gaps of erased parts do not make it grow") {
  const TemporaryDirectory root;
  const StateDirectory directory(root.path());
  std::mt19937_64 random(5);
  std::vector<StoredTurn> kept;
  {
    TurnFile file(directory);
    for (std::uint64_t number = 1; number <= 400; ++number) {
      kept.push_back(turn(number, 0, std::string(random() % 40'000, 'x')));
      CHECK(file.add(kept.back()));
      if (kept.size() <= 20) continue;
      const auto gone = kept.begin() + static_cast<std::ptrdiff_t>(random() % kept.size());
      CHECK(file.erase(gone->number));
      kept.erase(gone);
    }
    CHECK(std::filesystem::file_size(root.path() / kTurnFileName) < 4'000'000);  // 8 MB were written
  }
  CHECK(TurnFile(directory).take_stored() == kept);
}

TEST_CASE("turn file: a copy that fails leaves the file, and is tried again behind many more gaps") {
  const TemporaryDirectory root;
  const StateDirectory directory(root.path());
  const auto copy_name = root.path() / "turns.log.new";
  TurnFile file(directory);
  for (std::uint64_t number = 1; number <= 4; ++number)
    CHECK(file.add(turn(number, 0, std::string(2'000'000, 'x'))));
  std::filesystem::create_directory(copy_name);  // stands in the copy's way
  CHECK(file.erase(1));
  CHECK(file.erase(2));
  CHECK(file.erase(3));
  std::filesystem::remove(copy_name);
  CHECK(file.add(turn(5)));
  CHECK(file.erase(5));
  const auto path = root.path() / kTurnFileName;
  CHECK(std::filesystem::file_size(path) > 8'000'000);
  for (std::uint64_t number = 6; number <= 8; ++number) {
    CHECK(file.add(turn(number, 0, std::string(2'000'000, 'x'))));
    CHECK(file.erase(number));
  }
  CHECK(std::filesystem::file_size(path) < 7'000'000);
  CHECK(file.add(turn(9, 4)));
}

TEST_CASE("turn file: a part is as old as the last one that continues it") {
  const TemporaryDirectory root;
  const StateDirectory directory(root.path());
  TurnFile file(directory);
  CHECK(file.add(turn(1)));
  CHECK(file.add(turn(2, 1)));
  CHECK(file.add(turn(3, 1)));
  CHECK(file.add(turn(4)));
  CHECK(file.written_before(10).empty());
  CHECK(file.written_before(21) == std::vector<std::uint64_t>{2});
  CHECK(file.written_before(31) == std::vector<std::uint64_t>{3, 2, 1});
  CHECK(file.written_before(100) == std::vector<std::uint64_t>{4, 3, 2, 1});
}

TEST_CASE("turn file: what is no file of ours is begun anew, and no link is followed") {
  const TemporaryDirectory root;
  root.write(kTurnFileName, "some text that is no file of turns");
  CHECK(stored_in(root).empty());
  std::filesystem::remove(root.path() / kTurnFileName);
  root.write("other", "precious");
  std::filesystem::create_symlink(root.path() / "other", root.path() / kTurnFileName);
  const StateDirectory directory(root.path());
  CHECK_THROWS(TurnFile(directory));
  CHECK(test::file_text(root.path() / "other") == "precious");
}

}  // namespace troupe
