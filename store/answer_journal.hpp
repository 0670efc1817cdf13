// SPDX-License-Identifier: Apache-2.0
// Requests that are to be answered whatever happens, and the tokens of their answers so
// far: a file each in the state directory, from before the client hears that its
// request was taken until the answer is stored. The next process takes them up.
//
// A request is on the disk when begin() returns. Tokens survive the process, not a
// power cut: they save computing and nothing else. Files are read as hostile: what
// follows the first damaged byte is not used.
//
// Blocks on the disk. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/state_directory.hpp"
#include "store/store_error.hpp"

namespace troupe {

struct JournaledAnswer {
  std::string id = {};  // of [A-Za-z0-9_-], 1 to 128
  std::string tenant = {};
  std::string flow = {};
  std::int64_t created = 0;  // Unix seconds
  std::uint64_t seed = 0;    // of its draws
  // tokens_origin() of the model that drew the tokens, which are of no use to another.
  std::uint64_t vocabulary = 0;
  std::string body = {};  // the client's JSON
  // As they were drawn; without the one that ended it.
  std::vector<std::int32_t> tokens = {};
  // Processes that ran it since its last token, and ended.
  std::uint32_t num_futile_starts = 0;
  // The place in the answer from which on its calls are not bound to their grammar.
  std::optional<std::uint32_t> unbound_from = {};
  bool operator==(const JournaledAnswer&) const = default;
};

struct AnswerJournalLimits {
  std::size_t max_answers = 1000;
  std::uint64_t max_bytes = std::uint64_t{256} << 20;
};

class AnswerJournal {
 public:
  explicit AnswerJournal(std::shared_ptr<const StateDirectory> directory, AnswerJournalLimits limits = {});

  // All that is there, the oldest first. A file that is damaged from its beginning is
  // removed, one that can't be opened or read is left; the log says so.
  std::vector<JournaledAnswer> read();

  // Its tokens are not written, its unbound_from is. kFull: the limits, or the disk.
  std::optional<StoreError> begin(const JournaledAnswer& answer);
  // This process runs it.
  void mark_start(std::string_view id);
  // first: the place of the first one in the answer; what was there is replaced. If writing fails, these and
  // those behind them are not used, which costs time only. Unknown ids are ignored. No tokens: the process
  // ends in order.
  void extend(std::string_view id, std::uint64_t vocabulary, std::uint64_t first,
              std::span<const std::int32_t> tokens);
  // From the token of this place on; the first that is said counts. But for the place 0, one is of the tokens
  // of its vocabulary, and is void where extend() starts over with another.
  void mark_unbound(std::string_view id, std::uint64_t vocabulary, std::uint32_t from);
  // When this returns, neither the request nor its file is on the disk, if that does its part.
  void end(std::string_view id);
  // The same of an answer of this tenant; false: it has none of this id.
  bool end_of(std::string_view id, std::string_view tenant);

 private:
  // The answer in a file of this name; nullopt: it can't be read now, or `is_damaged`.
  std::optional<JournaledAnswer> read(const std::string& name, bool& is_damaged) const;
  void append(std::string_view id, std::uint32_t kind, std::string_view contents);
  void remove(const std::string& name) const;
  std::vector<std::string> names() const;
  void count();

  std::shared_ptr<const StateDirectory> directory_;
  const AnswerJournalLimits limits_;
  std::size_t num_answers_ = 0;
  std::uint64_t num_bytes_ = 0;
};

}  // namespace troupe
