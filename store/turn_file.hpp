// SPDX-License-Identifier: Apache-2.0
// The file of turns: parts of chats, each behind the part that it continues, so that the
// next process knows the tokens that these chats had. turns.log in the state directory:
//
//   header │ head, part 1 │ head, part 2 │ head, zeros │ …       zeros: a part that is gone
//
// Parts survive the process, not a power cut: they save computing and nothing else. The file
// is read as hostile: a block has a checksum of its bytes and its place, and what follows the
// first damaged one is overwritten and cut off. The file is copied without its gaps when these are more than
// half of it. No block of the disk is freed before zeros are on it (store/overwriting.hpp).
//
// Blocks on the disk. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "store/plain_file.hpp"
#include "store/state_directory.hpp"

namespace troupe {

inline constexpr const char* kTurnFileName = "turns.log";

// Overwrites and removes it, where turns are not kept any more.
void remove_turn_file(const StateDirectory& directory);

// A part of a chat that a model has run: its text and the tokens that it had (text/history/turn_memory.hpp).
struct StoredTurn {
  struct Bytes {  // [begin, end) of the prompt's text
    std::uint64_t begin = 0, end = 0;
    bool operator==(const Bytes&) const = default;
  };

  std::uint64_t number = 0;  // its own, above 0
  std::uint64_t before = 0;  // of the part that it continues, a smaller one; 0: none
  std::int64_t written = 0;  // Unix seconds
  std::string tenant = {};
  std::string scope = {};
  std::uint64_t key = 0;
  std::uint64_t begin = 0;  // byte of the prompt's text
  std::string text = {};
  std::vector<Bytes> trusted = {};
  std::string answer = {};
  std::vector<Bytes> answer_specials = {};
  std::vector<std::int32_t> tokens = {};
  bool operator==(const StoredTurn&) const = default;
};

class TurnFile {
 public:
  // The directory outlives this. Throws std::runtime_error if the file can't be opened or read.
  explicit TurnFile(const StateDirectory& directory);

  // Parts that the file held when it was opened, by number. Empties the list.
  std::vector<StoredTurn> take_stored();

  // False, and nothing is written: the disk has no room, the part before it is not there, or
  // one of this number still is.
  [[nodiscard]] bool add(const StoredTurn& turn);
  // A part of this number was added and not erased since.
  bool has(std::uint64_t number) const { return places_.contains(number); }
  // The part's bytes are overwritten with zeros. Unknown numbers are ignored. False: the disk
  // failed, and overwrite_erased() is to try again.
  [[nodiscard]] bool erase(std::uint64_t number);
  // Overwrites what erase() could not, up to the first part that the disk still refuses (then
  // false): the next call begins behind that.
  [[nodiscard]] bool overwrite_erased();
  // Zeros that erase() and overwrite_erased() wrote are on the disk when this returns. False: it
  // failed, and overwrite_erased() is to write them again before the next try.
  [[nodiscard]] bool sync_erased();
  // The file from which a copy was made is overwritten and gone. False: the disk refuses that,
  // which is logged, and the whole file is tried again by the next call.
  [[nodiscard]] bool remove_old();

  // The highest number of a part that the file had when it was opened, erased ones included.
  std::uint64_t last_number() const { return last_number_; }

  // Parts written before this time (Unix seconds) that nothing later continues.
  std::vector<std::uint64_t> written_before(std::int64_t time) const;

 private:
  static constexpr std::uint64_t kSmallGaps = std::uint64_t{1} << 20;

  struct Place {
    std::uint64_t begin = 0, num_bytes = 0;  // of the contents, behind their head
    std::uint64_t before = 0;
    std::int64_t written = 0;
  };

  void open_or_create();
  void read();
  int overwrite(std::uint64_t number, const Place& place);
  void copy_without_gaps();
  bool copy_parts();
  bool replace_old();
  bool take_name();

  const StateDirectory& directory_;
  PlainFile file_;
  std::uint64_t end_ = 0;                        // where the next block begins
  std::uint64_t num_erased_ = 0;                 // bytes of blocks that are gone
  std::uint64_t largest_gaps_ = kSmallGaps;      // that are left: bytes
  std::map<std::uint64_t, Place> places_;        // by number
  std::map<std::uint64_t, Place> to_overwrite_;  // erased parts, with bytes still there
  std::uint64_t next_to_overwrite_ = 0;          // the number at which to try first
  std::map<std::uint64_t, Place> unsynced_;      // erased parts, with zeros that may be in the cache alone
  bool has_old_ = false;                         // or a copy that was not finished: its words may be there
  std::uint64_t last_number_ = 0;
  std::vector<StoredTurn> stored_;
};

}  // namespace troupe
