// SPDX-License-Identifier: Apache-2.0
// Which request killed the worker? A process that dies does not say, so each that
// had something in flight is a suspect, and is tried alone, one after the other,
// until it has come beyond what it had in flight: that was perhaps a step that
// drew a token, and now is part of a longer prefill. One that kills a second
// worker there, alone, is the culprit, and the caller fails it.
//
//            worker died              alone, has come beyond what was in flight
//   unsuspected ───────────► suspect ───────────────────────────────────────────► unsuspected
//                              └── died again, alone, as far as it was then ────► culprit
//                                  (or alone for the second time)
//
// A request that kills whenever it is run costs two workers, or three if the first
// died behind a prefix found in the cache: the trial computes that prefix and dies
// before the place is reached. No request is failed that did not have a dying worker
// to itself. A death is explained when
// its culprit is set apart; it need not count any more once some batches have been
// done for others, which shows that the request and not the device was to blame.
// Until then one goes first that is not suspected.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace troupe {

class Suspects {
 public:
  using SequenceId = std::uint64_t;
  using Death = std::uint64_t;  // any number that no other death has

  // Tokens [begin, end) of a sequence were in flight when the worker died.
  struct Part {
    SequenceId sequence = 0;
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    bool has_ended = false;  // its request is gone: it can't be tried
  };

  // parts: of all batches in flight, or of the one that is known to have failed.
  // may_be_other: something else may have done it, too, which can't be tried here.
  // The culprit, which is forgotten, if it is known now.
  std::optional<SequenceId> take_death(Death death, std::span<const Part> parts, bool may_be_other = false);
  // A batch is done that went to the token `end` of a sequence.
  void computed(SequenceId sequence, std::uint32_t end);
  void forget(SequenceId sequence);  // it has ended
  bool contains(SequenceId sequence) const { return suspects_.contains(sequence); }
  // None is suspected: which runs and which joins is no question of blame.
  bool is_empty() const { return suspects_.empty(); }
  template <typename Condition>
  bool has_any(const Condition& holds) const {
    return std::any_of(suspects_.begin(), suspects_.end(),
                       [&](const auto& suspect) { return holds(suspect.first); });
  }

  // Running sequences, by arrival, that may be in the next batch:
  // indexes. in_flight: those with something in flight.
  std::vector<std::size_t> choose_participants(std::span<const SequenceId> running,
                                               std::span<const SequenceId> in_flight) const;
  // Which of those waiting, by arrival, is to join the running ones; nullopt:
  // none, at present.
  std::optional<std::size_t> next_to_admit(std::span<const SequenceId> waiting,
                                           std::span<const SequenceId> running) const;

  // Deaths are explained, and the device has not done enough since.
  bool needs_proof() const { return !explained_.empty(); }
  // A batch is done that drew tokens: the deaths that are to be forgiven now.
  std::vector<Death> take_work();

 private:
  friend class Fingerprint;
  // In a row. A device that dies sooner is broken, whatever is found on it.
  static constexpr std::uint32_t kProvingBatches = 16;

  struct Suspect {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    bool was_alone = false;  // when a worker died with it
    std::vector<Death> deaths;
  };

  std::map<SequenceId, Suspect> suspects_;
  std::set<Death> explained_;
  std::uint32_t num_batches_ = 0;  // that drew tokens, since the last death
};

}  // namespace troupe
