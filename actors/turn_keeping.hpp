// SPDX-License-Identifier: Apache-2.0
// Keeps the memory of turns in the file of turns, so that chats are token-exact across a
// kill: the constructor restores what an earlier process remembered, write() brings the
// file up to what the memory has become. A disk that fails costs later processes the
// turns of this one, and nothing else.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "actors/engine.hpp"
#include "store/state_directory.hpp"
#include "store/turn_file.hpp"
#include "text/history/turn_memory.hpp"

namespace troupe {

// One thread at a time.
class TurnKeeping {
 public:
  // models: a part that has tokens of none of them is forgotten. keep: parts that nothing has
  // continued for so long go; 0: they stay. Throws std::runtime_error if the file can't be used.
  TurnKeeping(std::shared_ptr<const StateDirectory> directory, std::shared_ptr<TurnMemory> memory,
              std::span<const EngineModel> models, std::chrono::seconds keep);

  // Writes what has changed since the last call. Forgotten parts are overwritten when this
  // returns, though not synced. The next call tries again what the disk has refused.
  void write();
  // The same, and a power cut brings no forgotten part back.
  void write_lastingly();

 private:
  void restore(std::span<const EngineModel> models);
  void forget_old(std::int64_t now);
  void write_changes(std::int64_t now);
  bool add_unwritten(std::int64_t now);
  void note(bool is_good);

  std::shared_ptr<const StateDirectory> directory_;
  std::shared_ptr<TurnMemory> memory_;
  std::chrono::seconds keep_;
  TurnFile file_;
  std::map<std::uint64_t, TurnChange>
      unwritten_;               // parts by number, which the memory has and the disk not yet
  std::int64_t last_look_ = 0;  // for old ones, Unix seconds
  bool is_sync_due_ = false;    // of zeros, asked for by write_lastingly()
  bool has_failed_ = false;     // the last attempt
};

// Null where turns are not kept: without a directory, without a memory, or where the options want no disk
// tier with pages to be found by them (then nothing stays of those that an earlier process kept), or where
// the file can't be used, which is logged. A disk tier that is lacking changes nothing: the next
// process may have it, and a deleted response's turn is forgotten in the meantime, too.
std::shared_ptr<TurnKeeping> keep_turns(const EngineOptions& options,
                                        const std::shared_ptr<TurnMemory>& memory,
                                        std::span<const EngineModel> models);

}  // namespace troupe
