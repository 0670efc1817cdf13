// SPDX-License-Identifier: Apache-2.0
// States of a grammar's automaton, made when they are first reached. A state is a set of positions, each
// with the set of positions that it returns to, so that ambiguous stacks share all they have in common.
// Sets are told apart by number; a step that was taken once is a look-up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "text/grammar/grammar.hpp"

namespace troupe {

// A node that is to be run, or returned to.
struct GrammarPosition {
  std::uint32_t node = 0;
  std::uint32_t count = 0;  // of a loop: passes that are done
  std::uint32_t below = 0;  // the set of positions its rule returns to
  bool operator==(const GrammarPosition&) const = default;
};

// One thread. The grammar must outlive this.
class GrammarStates {
 public:
  using State = std::uint32_t;
  static constexpr State kDead = 0;
  // Positions of one step, counted as if none had been taken before: a grammar that needs more is too
  // ambiguous, and the step is dead.
  static constexpr std::size_t kMaxStepWork = 30'000;
  // Positions looked at to find out how an answer may begin, those of united stacks counted. Where it takes
  // more, nothing may.
  static constexpr std::uint64_t kMaxStartWork = 3'000'000;

  // Where all characters lead that a JSON string may hold as they are.
  struct PlainStep {
    enum class Kind : std::uint8_t { kUnknown, kMixed, kSame };
    Kind kind = Kind::kUnknown;
    State state = kDead;  // kSame: of all of them
  };

  explicit GrammarStates(const Grammar& grammar);

  State start() const { return start_; }
  State step(State from, unsigned char byte) {
    const std::uint32_t steps = sets_[from].steps;
    if (steps == 0) return take_step(from, byte);
    const State known = steps_[steps + grammar_->byte_class(byte)];
    return known == kNotTaken ? take_step(from, byte) : known;
  }
  State step_token(State from, TokenId token);
  State unite(State left, State right);
  PlainStep plain_step(State from);

  bool may_end(State state) const;
  // Something may follow that is read.
  bool reads_more(State state) const;
  std::span<const GrammarPosition> positions(State state) const;
  // A text goes on here that was declared free.
  bool is_free_text(State state) const { return sets_[state].is_free_text; }

  // The state of another automaton of the same grammar.
  State adopt(const GrammarStates& other, State state);

  std::size_t size_bytes() const;
  // Positions that were looked at so far: the cost of the steps taken. A step that was taken before, or with
  // stacks that were united before, costs less than in another automaton.
  std::uint64_t work() const { return work_; }
  // So much more from here on. Steps that would take more are dead, but are not kept.
  void allow_work(std::uint64_t more) { work_limit_ = work_ + more; }
  bool is_out_of_work() const { return work_ > work_limit_; }

 private:
  static constexpr State kNotTaken = 0xFFFFFFFF;

  struct Set {
    std::uint32_t begin = 0;  // into positions_
    std::uint32_t num_positions = 0;
    std::uint32_t depth = 0;  // frames of its deepest stack
    std::uint32_t steps = 0;  // into steps_; 0: none taken yet
    std::uint32_t same_hash = 0;
    bool is_free_text = false;
    PlainStep plain = {};
  };

  State take_step(State from, unsigned char byte);
  void add(GrammarPosition position);
  bool add_known(GrammarPosition position);
  bool is_dominated(const GrammarPosition& position) const;
  void note_count(const GrammarPosition& position);
  void follow(GrammarPosition position);
  void follow_loop(GrammarPosition position);
  State close();
  State intern(std::span<const GrammarPosition> sorted);
  State frame(GrammarPosition position) { return intern({&position, 1}); }
  State unite_new(State left, State right);
  std::optional<State> same_state(State from, std::span<const ByteRange> ranges);

  const Grammar* grammar_;
  std::vector<Set> sets_;
  std::vector<GrammarPosition> positions_;
  std::vector<State> steps_;
  std::unordered_map<std::uint64_t, State> by_hash_;
  std::unordered_map<std::uint64_t, State> unions_;
  State start_ = kDead;
  std::uint64_t work_ = 0;

  // The step that is being made.
  std::vector<GrammarPosition> entries_;
  std::vector<GrammarPosition> pending_;
  std::vector<std::uint32_t> entry_of_node_;  // one more than the index; 0: none, or a loop
  // Entries that are loops, by node and count: one more than the index.
  std::unordered_map<std::uint64_t, std::uint32_t> entry_of_count_;
  // The least count that may leave a loop, by its node and the stack below.
  std::unordered_map<std::uint64_t, std::uint32_t> least_counts_;
  std::size_t step_work_ = 0;  // the same in every automaton of the grammar
  std::uint64_t work_limit_ = std::numeric_limits<std::uint64_t>::max();
};

}  // namespace troupe
