// SPDX-License-Identifier: Apache-2.0
#include "store/answer_journal.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <tuple>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "store/overwriting.hpp"
#include "store/packed_bytes.hpp"
#include "store/plain_file.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

constexpr std::string_view kPrefix = "answer-";
constexpr std::string_view kSuffix = ".journal";
constexpr std::string_view kHalfWritten = ".new";
constexpr std::size_t kMaxIdBytes = 128;
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{64} << 20;
constexpr std::uint32_t kMagic = 0x314a4154;  // changes with the byte order, too

// A file is a list of blocks, the request first.
enum class BlockKind : std::uint32_t { kRequest = 1, kTokens = 2, kStart = 3, kUnbound = 4 };

struct BlockHead {
  std::uint32_t magic = kMagic;
  BlockKind kind = BlockKind::kRequest;
  std::uint64_t num_bytes = 0;  // of its contents
  std::uint64_t checksum = 0;   // of kind, size, place and contents
};

bool is_id(std::string_view text) {
  return !text.empty() && text.size() <= kMaxIdBytes && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

std::string file_name(std::string_view id) { return std::string(kPrefix).append(id).append(kSuffix); }

// Empty: the file is none of ours.
std::string_view id_in(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return {};
  if (name.size() < kPrefix.size() + kSuffix.size()) return {};
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  return is_id(name) ? name : std::string_view();
}

StoreError error_of(int error, std::string_view what) {
  const bool is_full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return {.fault = is_full ? StoreFault::kFull : StoreFault::kUnusable,
          .message = std::string(what) + ": " + std::generic_category().message(error)};
}

std::uint64_t checksum_of(const BlockHead& head, std::uint64_t place, std::string_view contents) {
  const std::uint64_t seed[] = {static_cast<std::uint64_t>(head.kind), head.num_bytes, place};
  return XXH3_64bits_withSeed(contents.data(), contents.size(), XXH3_64bits(seed, sizeof(seed)));
}

std::string block(BlockKind kind, std::uint64_t place, std::string_view contents) {
  BlockHead head{.kind = kind, .num_bytes = contents.size()};
  head.checksum = checksum_of(head, place, contents);
  std::string out(sizeof(head), '\0');
  std::memcpy(out.data(), &head, sizeof(head));
  return out.append(contents);
}

std::string contents_of_place(std::uint32_t place, std::uint64_t vocabulary) {
  std::string contents;
  put(contents, place);
  put(contents, vocabulary);
  return contents;
}

struct Block {
  BlockKind kind;
  std::string_view contents;
};

// The block at `place`, which moves behind it; nullopt: there is none that is whole.
std::optional<Block> next_block(std::string_view bytes, std::uint64_t& place) {
  BlockHead head;
  if (bytes.size() - place < sizeof(head)) return std::nullopt;
  std::memcpy(&head, bytes.data() + place, sizeof(head));
  const std::string_view rest = bytes.substr(place + sizeof(head));
  if (head.magic != kMagic || head.num_bytes > rest.size()) return std::nullopt;
  const std::string_view contents = rest.substr(0, head.num_bytes);
  if (head.checksum != checksum_of(head, place, contents)) return std::nullopt;
  place += sizeof(head) + head.num_bytes;
  return Block{.kind = head.kind, .contents = contents};
}

std::string contents_of(const JournaledAnswer& answer) {
  std::string out;
  put(out, answer.created);
  put(out, answer.seed);
  put(out, answer.vocabulary);
  for (const auto* text : {&answer.id, &answer.tenant, &answer.flow, &answer.body}) put_text(out, *text);
  return out;
}

bool read_request(std::string_view in, JournaledAnswer& answer) {
  return take(in, answer.created) && take(in, answer.seed) && take(in, answer.vocabulary) &&
         take_text(in, answer.id) && take_text(in, answer.tenant) && take_text(in, answer.flow) &&
         take_text(in, answer.body) && in.empty();
}

// Tokens that another tokenizer drew are of no use, nor is a place among them.
void start_over_with(std::uint64_t vocabulary, JournaledAnswer& answer) {
  if (vocabulary == answer.vocabulary) return;
  answer.vocabulary = vocabulary;
  answer.tokens.clear();
  if (answer.unbound_from != 0U) answer.unbound_from.reset();
}

// False: they do not follow those that are there, so some between were not written.
bool add_tokens(std::string_view contents, JournaledAnswer& answer) {
  std::uint64_t vocabulary = 0, first = 0;
  if (!take(contents, vocabulary) || !take(contents, first)) return false;
  if (contents.empty()) return true;  // a process ended in order
  start_over_with(vocabulary, answer);
  if (first > answer.tokens.size()) return false;
  answer.tokens.resize(first);
  std::int32_t token = 0;
  while (take(contents, token)) answer.tokens.push_back(token);
  return true;
}

// False: it is none.
bool add_unbound(std::string_view contents, JournaledAnswer& answer) {
  std::uint64_t vocabulary = 0;
  std::uint32_t from = 0;
  if (!take(contents, from)) return false;
  if (from != 0 && take(contents, vocabulary)) start_over_with(vocabulary, answer);
  if (!answer.unbound_from) answer.unbound_from = from;
  return true;
}

// Of the bytes of a file of this name, up to `end`: what is behind is of no use, and would
// hide what comes later. nullopt: it is damaged from its beginning.
std::optional<JournaledAnswer> answer_in(std::string_view bytes, std::string_view name, std::uint64_t& end) {
  end = 0;
  JournaledAnswer answer;
  const auto request = next_block(bytes, end);
  const bool is_whole = request && request->kind == BlockKind::kRequest &&
                        read_request(request->contents, answer) && file_name(answer.id) == name;
  if (!is_whole) return std::nullopt;
  for (std::uint64_t place = end; const auto next = next_block(bytes, place); end = place) {
    if (next->kind == BlockKind::kTokens) {
      if (!add_tokens(next->contents, answer)) break;
      answer.num_futile_starts = 0;
    } else if (next->kind == BlockKind::kUnbound) {
      if (!add_unbound(next->contents, answer)) break;
    } else if (next->kind == BlockKind::kStart) {
      answer.num_futile_starts += 1;
    }  // else of a later version
  }
  return answer;
}

}  // namespace

AnswerJournal::AnswerJournal(std::shared_ptr<const StateDirectory> directory, AnswerJournalLimits limits)
    : directory_(std::move(directory)), limits_(limits) {
  count();
}

std::vector<std::string> AnswerJournal::names() const {
  std::vector<std::string> names;
  // fdopendir() takes its descriptor over, and its place is the descriptor's.
  const int copy = ::openat(directory_->descriptor(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* listing = copy < 0 ? nullptr : ::fdopendir(copy);
  if (listing == nullptr) {
    if (copy >= 0) ::close(copy);
    return names;
  }
  while (const dirent* entry = ::readdir(listing)) {
    const std::string_view name = entry->d_name;
    if (!id_in(name).empty()) names.emplace_back(name);
    // The process ended before it was whole, so nobody was told that it was taken.
    if (name.ends_with(kHalfWritten) && !id_in(name.substr(0, name.size() - kHalfWritten.size())).empty())
      remove(entry->d_name);
  }
  ::closedir(listing);
  return names;
}

void AnswerJournal::count() {
  num_answers_ = 0;
  num_bytes_ = 0;
  for (const std::string& name : names()) {
    struct stat status {};
    if (::fstatat(directory_->descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    num_answers_ += 1;
    num_bytes_ += static_cast<std::uint64_t>(status.st_size);
  }
}

std::vector<JournaledAnswer> AnswerJournal::read() {
  std::vector<JournaledAnswer> answers;
  for (const std::string& name : names()) {
    bool is_damaged = false;
    if (auto answer = read(name, is_damaged)) {
      answers.push_back(std::move(*answer));
    } else if (is_damaged) {
      log(LogLevel::kWarning, "a journaled answer is damaged, and is given up", {{"file", name}});
      remove(name);
    } else {
      log(LogLevel::kWarning, "a journaled answer can't be read now", {{"file", name}});
    }
  }
  std::sort(answers.begin(), answers.end(), [](const JournaledAnswer& a, const JournaledAnswer& b) {
    return std::tie(a.created, a.id) < std::tie(b.created, b.id);
  });
  count();
  return answers;
}

// Cuts off what is of no use.
std::optional<JournaledAnswer> AnswerJournal::read(const std::string& name, bool& is_damaged) const {
  const PlainFile file(
      ::openat(directory_->descriptor(), name.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  const auto size = file.is_open() ? plain_size(file.get()) : std::nullopt;
  const auto bytes = size && *size <= kMaxFileBytes ? read_all_at(file.get(), 0, *size) : std::nullopt;
  if (!bytes) return std::nullopt;
  std::uint64_t end = 0;
  auto answer = answer_in(*bytes, name, end);
  is_damaged = !answer;
  if (answer && end < *size && cut_off_damage(file.get(), end) != 0) return std::nullopt;
  return answer;
}

// Under another name until it is whole and on the disk.
std::optional<StoreError> AnswerJournal::begin(const JournaledAnswer& answer) {
  if (!is_id(answer.id))
    return StoreError{.fault = StoreFault::kUnusable, .message = "a journal needs an id"};
  std::string bytes = block(BlockKind::kRequest, 0, contents_of(answer));
  if (answer.unbound_from)
    bytes +=
        block(BlockKind::kUnbound, bytes.size(), contents_of_place(*answer.unbound_from, answer.vocabulary));
  if (num_answers_ >= limits_.max_answers || num_bytes_ + bytes.size() > limits_.max_bytes ||
      bytes.size() > kMaxFileBytes / 2)
    return StoreError{.fault = StoreFault::kFull, .message = "the journal of answers is full"};
  const std::string name = file_name(answer.id);
  const std::string half_written = name + std::string(kHalfWritten);
  const int directory = directory_->descriptor();
  int problem = 0;
  {
    const PlainFile file(::openat(directory, half_written.c_str(),
                                  O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
    problem = file.is_open() ? write_all(file.get(), bytes) : errno;
    if (problem == 0 && ::fsync(file.get()) != 0) problem = errno;
  }
  if (problem == 0 && ::renameat(directory, half_written.c_str(), directory, name.c_str()) != 0)
    problem = errno;
  if (problem == 0 && ::fsync(directory) != 0) problem = errno;
  if (problem != 0) {
    remove(half_written);
    remove(name);
    return error_of(problem, "writing the journal of an answer");
  }
  num_answers_ += 1;
  num_bytes_ += bytes.size();
  return std::nullopt;
}

void AnswerJournal::mark_start(std::string_view id) {
  append(id, static_cast<std::uint32_t>(BlockKind::kStart), {});
}

void AnswerJournal::extend(std::string_view id, std::uint64_t vocabulary, std::uint64_t first,
                           std::span<const std::int32_t> tokens) {
  std::string contents;
  put(contents, vocabulary);
  put(contents, first);
  contents.append(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
  append(id, static_cast<std::uint32_t>(BlockKind::kTokens), contents);
}

void AnswerJournal::mark_unbound(std::string_view id, std::uint64_t vocabulary, std::uint32_t from) {
  append(id, static_cast<std::uint32_t>(BlockKind::kUnbound), contents_of_place(from, vocabulary));
}

void AnswerJournal::append(std::string_view id, std::uint32_t kind, std::string_view contents) {
  if (!is_id(id)) return;
  const PlainFile file(::openat(directory_->descriptor(), file_name(id).c_str(),
                                O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  const auto size = file.is_open() ? plain_size(file.get()) : std::nullopt;
  if (!size) return;
  const std::string bytes = block(static_cast<BlockKind>(kind), *size, contents);
  if (*size + bytes.size() > kMaxFileBytes) return;
  if (write_all_at(file.get(), *size, bytes) == 0) {
    num_bytes_ += bytes.size();
  } else if (cut_off(file.get(), *size) != 0) {
    // Half a block hides those behind it.
    log(LogLevel::kWarning, "the journal of an answer has a gap", {{"response", id}});
  }
}

void AnswerJournal::end(std::string_view id) {
  if (!is_id(id)) return;
  const std::string name = file_name(id);
  struct stat status {};
  if (::fstatat(directory_->descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return;
  num_answers_ -= std::min<std::size_t>(num_answers_, 1);
  num_bytes_ -= std::min(num_bytes_, static_cast<std::uint64_t>(status.st_size));
  remove(name);
  ::fsync(directory_->descriptor());
}

// Zeros first: the request is nobody's business any more. The next process would take up what is left, so it
// goes even where the disk refuses zeros.
void AnswerJournal::remove(const std::string& name) const {
  const PlainFile file(
      ::openat(directory_->descriptor(), name.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open() && errno == ENOENT) return;
  if (!file.is_open() || !plain_size(file.get()) || overwrite_behind(file.get(), 0) != 0)
    log(LogLevel::kWarning, "a journaled answer is removed, but not overwritten", {{"file", name}});
  ::unlinkat(directory_->descriptor(), name.c_str(), 0);
}

bool AnswerJournal::end_of(std::string_view id, std::string_view tenant) {
  bool is_damaged = false;
  const auto answer = is_id(id) ? read(file_name(id), is_damaged) : std::nullopt;
  if (!answer || answer->tenant != tenant) return false;
  end(id);
  return true;
}

}  // namespace troupe
