// SPDX-License-Identifier: Apache-2.0
#include "store/turn_file.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "policy/pages/disk_reserve.hpp"
#include "store/overwriting.hpp"
#include "store/packed_bytes.hpp"
#include "store/page_file.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

constexpr const char* kHalfWritten = "turns.log.new";
constexpr const char* kReplaced = "turns.log.old";
constexpr std::uint64_t kHeader = 0x32534e5255545254;  // changes with the byte order, too
constexpr std::uint32_t kMagic = 0x314e5254;
constexpr std::uint64_t kMostAtOnce = std::uint64_t{1} << 20;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;  // of a part
// A disk that was away for a moment is no damage.
constexpr int kReadTries = 3;
constexpr std::chrono::milliseconds kBetweenTries{50};

enum class BlockKind : std::uint32_t { kPart = 1, kErased = 2 };

struct BlockHead {
  std::uint32_t magic = kMagic;
  BlockKind kind = BlockKind::kPart;
  std::uint64_t num_bytes = 0;  // of the contents
  std::uint64_t number = 0, before = 0;
  std::int64_t written = 0;
  std::uint64_t checksum = 0;  // of this head without it, its place, and the contents of a part
};

std::string_view bytes_of(const BlockHead& head) {
  return {reinterpret_cast<const char*>(&head), sizeof(head)};
}

// place: of the head in the file. A client's text passes for a block only if it says where it will be.
std::uint64_t checksum_of(BlockHead head, std::uint64_t place, std::string_view contents) {
  head.checksum = 0;
  const auto seed = XXH3_64bits_withSeed(&head, sizeof(head), place);
  return XXH3_64bits_withSeed(contents.data(), contents.size(), seed);
}

std::string contents_of(const StoredTurn& turn) {
  std::string out;
  out.reserve(turn.text.size() + turn.answer.size() + turn.tokens.size() * sizeof(turn.tokens[0]) + 256);
  put(out, turn.key);
  put(out, turn.begin);
  for (const auto* text : {&turn.tenant, &turn.scope, &turn.text, &turn.answer}) put_text(out, *text);
  put_list(out, turn.trusted);
  put_list(out, turn.answer_specials);
  put_list(out, turn.tokens);
  return out;
}

bool read_contents(std::string_view in, StoredTurn& turn) {
  return take(in, turn.key) && take(in, turn.begin) && take_text(in, turn.tenant) &&
         take_text(in, turn.scope) && take_text(in, turn.text) && take_text(in, turn.answer) &&
         take_list(in, turn.trusted) && take_list(in, turn.answer_specials) && take_list(in, turn.tokens) &&
         in.empty();
}

bool has_room(int file, std::uint64_t bytes) {
  try {
    return has_room_for_turns(space_of_file_system(file), bytes);
  } catch (const std::system_error&) {
    return false;
  }
}

// It has one name, and nobody else may read it.
bool make_private(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 && status.st_nlink == 1 && ::fchmod(file, 0600) == 0;
}

PlainFile open_in(const StateDirectory& directory, const std::string& name, int flags) {
  constexpr mode_t kOwnerOnly = 0600;
  return PlainFile(::openat(directory.descriptor(), name.c_str(),
                            O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | flags, kOwnerOnly));
}

// As read_all_at().
std::optional<std::string> read_patiently(int file, std::uint64_t place, std::uint64_t size) {
  auto bytes = read_all_at(file, place, size);
  for (int tries = 1; !bytes && tries < kReadTries; ++tries) {
    std::this_thread::sleep_for(kBetweenTries);
    bytes = read_all_at(file, place, size);
  }
  return bytes;
}

bool has_zeros(int file, std::uint64_t place, std::uint64_t num_bytes) {
  for (std::uint64_t done = 0; done < num_bytes; done += kMostAtOnce) {
    const auto some = read_all_at(file, place + done, std::min(kMostAtOnce, num_bytes - done));
    if (!some || some->find_first_not_of('\0') != std::string::npos) return false;
  }
  return true;
}

// A file that can't be opened for this reason is none that was written here.
bool is_of_others(int problem) {
  return problem == ELOOP || problem == EISDIR || problem == ENXIO || problem == ENODEV;
}

// 0, also where there is none; or the error, and it stays.
int try_remove_overwritten(const StateDirectory& directory, const char* name) {
  const PlainFile file = open_in(directory, name, 0);
  if (!file.is_open() && errno == ENOENT) return 0;
  if (!file.is_open() && !is_of_others(errno)) return errno;
  const bool is_ours = file.is_open() && plain_size(file.get()) && make_private(file.get());
  if (const int problem = is_ours ? overwrite_behind(file.get(), 0) : 0) return problem;
  return ::unlinkat(directory.descriptor(), name, 0) == 0 ? 0 : errno;
}

// False, and it stays: the disk refuses to overwrite or remove it.
bool remove_overwritten(const StateDirectory& directory, const char* name) {
  const int problem = try_remove_overwritten(directory, name);
  if (problem != 0)
    log(LogLevel::kWarning, "a file of turns can't be overwritten and removed, and stays until it can",
        {{"file", name}, {"reason", std::generic_category().message(problem)}});
  return problem == 0;
}

// With its head, whose checksum depends on its place.
int copy_part(int from, std::uint64_t from_place, int to, std::uint64_t to_place) {
  BlockHead head;
  const auto read_head = read_all_at(from, from_place, sizeof(head));
  std::string_view bytes = read_head ? std::string_view(*read_head) : std::string_view();
  if (!take(bytes, head) || head.num_bytes > kMostBytes) return EIO;
  const auto contents = read_all_at(from, from_place + sizeof(head), head.num_bytes);
  if (!contents || head.checksum != checksum_of(head, from_place, *contents)) return EIO;
  head.checksum = checksum_of(head, to_place, *contents);
  if (const int problem = write_all_at(to, to_place, bytes_of(head))) return problem;
  return write_all_at(to, to_place + sizeof(head), *contents);
}

}  // namespace

void remove_turn_file(const StateDirectory& directory) {
  for (const char* name : {kTurnFileName, kHalfWritten, kReplaced}) (void)remove_overwritten(directory, name);
}

TurnFile::TurnFile(const StateDirectory& directory) : directory_(directory) {
  has_old_ = true;  // of a process that was killed
  (void)remove_old();
  open_or_create();
  read();
  (void)overwrite_erased();  // the next try is the first write's
  copy_without_gaps();
}

void TurnFile::open_or_create() {
  file_ = open_in(directory_, kTurnFileName, O_CREAT);
  if (!file_.is_open()) throw std::system_error(errno, std::generic_category(), kTurnFileName);
  const auto size = plain_size(file_.get());
  if (!size || !make_private(file_.get()))
    throw std::runtime_error(std::string(kTurnFileName) + " is not a plain file of this user's alone");
  std::uint64_t header = 0;
  const auto first = read_patiently(file_.get(), 0, sizeof(header));
  std::string_view bytes = first ? std::string_view(*first) : std::string_view();
  end_ = sizeof(header);
  if (take(bytes, header) && header == kHeader) return;
  if (*size > 0) log(LogLevel::kWarning, "the file of turns is none, and is begun anew");
  std::string begun;
  put(begun, kHeader);
  int problem = cut_off_damage(file_.get(), 0);
  if (problem == 0) problem = write_all_at(file_.get(), 0, begun);
  if (problem != 0) throw std::system_error(problem, std::generic_category(), kTurnFileName);
}

// Up to the first block that is not whole.
void TurnFile::read() {
  const auto size = plain_size(file_.get()).value_or(0);
  for (;;) {
    BlockHead head;
    const auto read_head = read_patiently(file_.get(), end_, sizeof(head));
    std::string_view bytes = read_head ? std::string_view(*read_head) : std::string_view();
    const auto contents = end_ + sizeof(head);
    if (!take(bytes, head) || head.magic != kMagic) break;
    if (head.num_bytes > std::min(size - contents, kMostBytes)) break;
    StoredTurn turn{.number = head.number, .before = head.before, .written = head.written};
    if (head.kind == BlockKind::kErased) {
      if (head.checksum != checksum_of(head, end_, {})) break;
      last_number_ = std::max(last_number_, head.number);
      num_erased_ += sizeof(head) + head.num_bytes;
      // A process was killed between the head and the zeros.
      if (!has_zeros(file_.get(), contents, head.num_bytes))
        to_overwrite_[head.number] = {.begin = contents, .num_bytes = head.num_bytes};
    } else {
      const auto part = read_patiently(file_.get(), contents, head.num_bytes);
      if (!part || head.checksum != checksum_of(head, end_, *part) || !read_contents(*part, turn)) break;
      if (turn.number <= turn.before || !places_.try_emplace(turn.number).second) break;
      places_[turn.number] = {
          .begin = contents, .num_bytes = head.num_bytes, .before = turn.before, .written = turn.written};
      last_number_ = std::max(last_number_, turn.number);
      stored_.push_back(std::move(turn));
    }
    end_ = contents + head.num_bytes;
  }
  if (end_ == size) return;
  log(LogLevel::kWarning, "the end of the file of turns is damaged, and is cut off",
      {{"bytes", size - end_}});
  if (const int problem = cut_off_damage(file_.get(), end_))
    throw std::system_error(problem, std::generic_category(), kTurnFileName);
}

std::vector<StoredTurn> TurnFile::take_stored() { return std::exchange(stored_, {}); }

bool TurnFile::add(const StoredTurn& turn) {
  if (turn.before != 0 && !places_.contains(turn.before)) return false;
  if (places_.contains(turn.number) || to_overwrite_.contains(turn.number)) return false;
  const auto contents = contents_of(turn);
  BlockHead head{
      .num_bytes = contents.size(), .number = turn.number, .before = turn.before, .written = turn.written};
  head.checksum = checksum_of(head, end_, contents);
  const auto block = std::string(bytes_of(head)) + contents;
  if (contents.size() > kMostBytes || !has_room(file_.get(), block.size())) return false;
  if (write_all_at(file_.get(), end_, block) != 0) {
    (void)cut_off(file_.get(), end_);  // if that fails, the next one is written over it
    return false;
  }
  places_[turn.number] = {.begin = end_ + sizeof(head),
                          .num_bytes = contents.size(),
                          .before = turn.before,
                          .written = turn.written};
  end_ += block.size();
  return true;
}

bool TurnFile::erase(std::uint64_t number) {
  const auto known = places_.find(number);
  if (known == places_.end()) return true;
  num_erased_ += sizeof(BlockHead) + known->second.num_bytes;
  const bool is_good = overwrite(number, known->second) == 0;
  if (is_good) {
    places_.erase(known);
  } else {
    to_overwrite_.insert(places_.extract(known));
  }
  copy_without_gaps();
  return is_good;
}

bool TurnFile::overwrite_erased() {
  while (!to_overwrite_.empty()) {
    auto part = to_overwrite_.lower_bound(next_to_overwrite_);
    if (part == to_overwrite_.end()) part = to_overwrite_.begin();
    next_to_overwrite_ = part->first + 1;
    if (overwrite(part->first, part->second) != 0) return false;
    to_overwrite_.erase(part);
  }
  return true;
}

bool TurnFile::remove_old() {
  if (!std::exchange(has_old_, false)) return true;
  for (const char* name : {kHalfWritten, kReplaced})
    if (!remove_overwritten(directory_, name)) has_old_ = true;
  return !has_old_;
}

// Behind a sync that failed, the system takes the zeros in its cache for written: another sync alone would
// succeed without them.
bool TurnFile::sync_erased() {
  if (!unsynced_.empty() && ::fdatasync(file_.get()) != 0) {
    to_overwrite_.merge(unsynced_);
    return false;
  }
  unsynced_.clear();
  return true;
}

// The head first: a process that is killed in between leaves no part that could be read.
int TurnFile::overwrite(std::uint64_t number, const Place& place) {
  BlockHead head{.kind = BlockKind::kErased, .num_bytes = place.num_bytes, .number = number};
  const auto begin = place.begin - sizeof(head);
  head.checksum = checksum_of(head, begin, {});
  unsynced_.insert_or_assign(number, place);
  if (const int problem = write_all_at(file_.get(), begin, bytes_of(head))) return problem;
  return write_zeros(file_.get(), place.begin, place.num_bytes);
}

std::vector<std::uint64_t> TurnFile::written_before(std::int64_t time) const {
  std::set<std::uint64_t> continued;  // by what was written since
  std::vector<std::uint64_t> old;
  for (auto place = places_.rbegin(); place != places_.rend(); ++place) {
    const auto& [number, what] = *place;
    if (what.written >= time || continued.contains(number)) {
      continued.insert(what.before);
    } else {
      old.push_back(number);
    }
  }
  return old;
}

// If that fails, the gaps stay, and it is tried again when they are twice as large.
void TurnFile::copy_without_gaps() {
  if (num_erased_ <= largest_gaps_ || num_erased_ <= end_ / 2) return;
  const bool is_copied = has_room(file_.get(), end_ - num_erased_) && copy_parts();
  largest_gaps_ = is_copied ? kSmallGaps : 2 * num_erased_;
}

// Under another name until it is whole.
bool TurnFile::copy_parts() {
  if (!remove_old()) return false;
  PlainFile copied = open_in(directory_, kHalfWritten, O_CREAT | O_EXCL);
  if (!copied.is_open()) return false;
  std::string begun;
  put(begun, kHeader);
  int problem = write_all_at(copied.get(), 0, begun);
  std::uint64_t end = begun.size();
  auto places = places_;
  for (auto& [number, place] : places) {
    const auto num_bytes = sizeof(BlockHead) + place.num_bytes;
    if (problem == 0) problem = copy_part(file_.get(), place.begin - sizeof(BlockHead), copied.get(), end);
    place.begin = end + sizeof(BlockHead);
    end += num_bytes;
  }
  if (problem != 0 || !replace_old()) {
    has_old_ = true;
    (void)remove_old();
    return false;
  }
  file_ = std::move(copied);
  places_ = std::move(places);
  to_overwrite_.clear();
  unsynced_.clear();
  end_ = end;
  num_erased_ = 0;
  return true;
}

// The copy takes the file's name. The file takes another one until it is overwritten, so that the next
// process finds its words if this one is killed in between.
bool TurnFile::replace_old() {
  if (!take_name()) return false;
  has_old_ = true;
  (void)remove_old();
  return true;
}

// False: the file has its name as before. Where a file system can't exchange names, the file has two of them
// for a moment, so that one that is whole is found whenever the process is killed.
bool TurnFile::take_name() {
  const int directory = directory_.descriptor();
  if (::renameat2(directory, kHalfWritten, directory, kTurnFileName, RENAME_EXCHANGE) == 0) return true;
  const bool is_lost = errno == ENOENT || errno == EIO;
  if (is_lost || ::linkat(directory, kTurnFileName, directory, kReplaced, 0) != 0) return false;
  if (::renameat(directory, kHalfWritten, directory, kTurnFileName) == 0) return true;
  (void)::unlinkat(directory, kReplaced, 0);  // it has the other name
  return false;
}

}  // namespace troupe
