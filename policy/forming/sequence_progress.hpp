// SPDX-License-Identifier: Apache-2.0
// How far a sequence has come: which of its tokens are known, submitted to the
// device and computed, and what its next step may be. A step is submitted
// before the one in front of it is done (its input is then read on the device),
// as long as no more than max_pending tokens are drawn that were not seen: a
// sequence that ends unforeseen wastes at most max_pending - 1 steps.
//
//   0 ......... num_computed ......... num_submitted ....... num_known + num_pending
//   KV in its pages      in flight             tokens whose KV is still to do
//
// What was found of it in the cache may have holes: their tokens are computed
// first, then, usually in the same batch, what comes behind. Until they are
// done num_computed counts them already.
//
// A guided sequence draws by permission: a step that draws is given when it was permitted,
// once, for what the token may be depends on the one before it. On a device that waits for what a token
// may be it draws ahead like any other; a draw for which that came too late is taken back, and what is in
// flight behind it is void.
//
// The source of an encoder-decoder, at its beginning, is read in one step, and known as a whole or
// not at all.
//
// Scores of a prompt come from computing it: what has one step of its own is
// either wholly to be scored or not at all, and what has no score yet is not taken
// from the cache.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <optional>
#include <vector>

#include "policy/forming/token_range.hpp"

namespace troupe {

struct SequenceStep {
  std::uint32_t num_tokens = 0;
  std::uint32_t context_length = 0;  // tokens in front of these
  bool input_from_slot = false;      // the token is not known here yet
  bool sample = false;
  bool fills_hole = false;  // others behind it have been computed already
  bool scores = false;      // after each token: how likely the next one was
  bool reads_source = false;
  bool operator==(const SequenceStep&) const = default;
};

class SequenceProgress {
 public:
  SequenceProgress() = default;
  // Tokens of a slot that a device must remember (kRecentTokens).
  static constexpr std::uint32_t kMostPending = 8;
  // max_total: prompt and completion together, > prompt_tokens. max_pending: the
  // batches that may be in flight, if they are to be full; at most kMostPending
  // count.
  SequenceProgress(std::uint32_t prompt_tokens, std::uint32_t max_total, std::uint32_t max_pending = 2)
      : num_known_(prompt_tokens),
        max_total_(max_total),
        max_pending_(static_cast<std::uint8_t>(std::min(max_pending, kMostPending))) {}

  // The next step of at most max_tokens tokens in pages for page_capacity
  // tokens; nullopt if there is nothing to do, or no room, at present.
  std::optional<SequenceStep> next_step(std::uint32_t max_tokens, std::uint32_t page_capacity) const;
  // Would next_step give one, were there pages enough?
  bool has_work() const { return is_prefilling() || can_decode(); }
  bool is_prefilling() const {
    return !holes_.empty() || (num_pending_ == 0 && num_submitted_ + 1 < num_known_);
  }
  bool has_holes() const { return !holes_.empty(); }
  // Is its next step one that scores? Each of its tokens then takes a row of logits.
  bool scores_next() const {
    return holes_.empty() && num_submitted_ >= num_scored_ && num_submitted_ < score_end_;
  }
  // Tokens its pages must hold for the next `num_ahead` steps of decoding.
  std::uint32_t capacity_needed(std::uint32_t num_ahead) const;

  // The first tokens, fewer than are known, are a source.
  void begin_with_source(std::uint32_t num_tokens) { num_source_ = num_tokens; }
  std::uint32_t num_source() const { return num_source_; }
  // Is its next step that of its source?
  bool reads_source_next() const { return num_submitted_ < num_source_; }

  // Wanted of all known tokens: how likely each was after those in front of it.
  void score_known() { score_end_ = num_known_ - 1; }
  // From now on it draws by permission, and has one or not.
  void draw_by_permission(bool may_draw = true);
  // From now on it needs none.
  void draw_ahead();
  // The oldest step in flight, which drew, and those behind it count for nothing; each is still to be
  // reported by drop_step().
  void take_back_draws();
  void drop_step();
  // Tokens that may come from a cache: the next ones' scores are known.
  std::uint32_t num_reusable() const { return num_scored_ < score_end_ ? num_scored_ : num_known_; }

  // The first `num_cached` tokens' KV was found, but for the holes, in order.
  void start(std::uint32_t num_cached, std::vector<TokenRange> holes = {});
  void submitted(const SequenceStep& step);
  void completed(const SequenceStep& step);  // in order of submission
  // Everything on the device is given up; known tokens stay known.
  void restart();

  std::uint32_t num_known() const { return num_known_; }
  std::uint32_t num_computed() const { return num_computed_; }
  std::uint32_t num_submitted() const { return num_submitted_; }
  std::uint32_t num_pending() const { return num_pending_; }
  std::uint32_t num_in_flight() const { return num_in_flight_; }
  std::uint32_t max_total() const { return max_total_; }
  bool is_at_limit() const { return num_known_ >= max_total_; }

 private:
  friend class Fingerprint;
  bool can_decode() const;

  std::uint32_t num_known_ = 0;  // prompt and generated
  std::uint32_t max_total_ = 0;
  std::uint32_t num_submitted_ = 0;  // tokens whose KV is computed or in flight
  std::uint32_t num_computed_ = 0;
  bool draws_by_permission_ = false;
  bool may_draw_ = true;
  std::uint8_t max_pending_ = 2;
  std::uint32_t num_pending_ = 0;    // drawn on the device, not seen here yet
  std::uint32_t num_in_flight_ = 0;  // steps
  std::uint32_t num_source_ = 0;
  std::uint32_t score_end_ = 0;    // tokens after which a score is wanted
  std::uint32_t num_scored_ = 0;   // of these, those that have come
  std::vector<TokenRange> holes_;  // not submitted yet
};

// Inline: called for every sequence in every iteration.
inline bool SequenceProgress::can_decode() const {
  if (!may_draw_) return false;
  if (num_known_ + num_pending_ >= max_total_) return false;
  if (num_pending_ > 0) return num_pending_ < max_pending_ && !draws_by_permission_;
  return num_submitted_ < num_known_;
}

inline std::uint32_t SequenceProgress::capacity_needed(std::uint32_t num_ahead) const {
  const std::uint32_t length = std::max(num_known_ + num_pending_, num_submitted_);
  // The KV of the very last token is never needed.
  return std::min(length + num_ahead, max_total_) - 1;
}

inline void SequenceProgress::submitted(const SequenceStep& step) {
  if (step.fills_hole) {
    TokenRange& hole = holes_.front();
    assert(step.context_length == hole.begin && step.num_tokens <= hole.size());
    hole.begin += step.num_tokens;
    if (hole.size() == 0) holes_.erase(holes_.begin());
    num_in_flight_ += 1;
    return;
  }
  assert(step.context_length == num_submitted_);
  num_submitted_ += step.num_tokens;
  num_pending_ += step.sample ? 1 : 0;
  if (step.sample && draws_by_permission_) may_draw_ = false;
  num_in_flight_ += 1;
}

inline void SequenceProgress::completed(const SequenceStep& step) {
  if (step.fills_hole) {
    assert(num_in_flight_ > 0);
    num_in_flight_ -= 1;
    return;
  }
  assert(step.context_length == num_computed_ && num_in_flight_ > 0);
  num_computed_ += step.num_tokens;
  num_in_flight_ -= 1;
  if (step.scores) num_scored_ = num_computed_;
  if (!step.sample) return;
  assert(num_pending_ > 0);
  num_pending_ -= 1;
  num_known_ += 1;
}

}  // namespace troupe
