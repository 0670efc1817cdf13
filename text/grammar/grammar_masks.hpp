// SPDX-License-Identifier: Apache-2.0
// The masks of a grammar over a vocabulary, and the automaton they are computed with: shared by all
// answers that follow the grammar, so that each state is worked out once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/grammar/grammar.hpp"
#include "text/grammar/grammar_states.hpp"
#include "text/grammar/grammar_vocabulary.hpp"

namespace troupe {

// Any thread; calls wait for each other.
class GrammarMasks {
 public:
  using State = GrammarStates::State;
  static constexpr std::size_t kMaxStateBytes = 16 << 20;
  static constexpr std::size_t kMaxMaskBytes = 4 << 20;
  // Positions looked at for one mask, some tenths of a second, and bytes of states made for it: as if no
  // other had been made before, so that a mask is refused in every process or in none.
  static constexpr std::uint64_t kMaxMaskWork = 3'000'000;
  static constexpr std::size_t kMaxMaskStateBytes = 16 << 20;

  struct Place {
    State state = GrammarStates::kDead;
    bool may_end = false;
    bool reads_more = false;
  };

  GrammarMasks(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const GrammarVocabulary> vocabulary);

  const GrammarVocabulary& vocabulary() const { return *vocabulary_; }
  Place start();
  // nullopt: the token may not follow.
  std::optional<Place> step(State from, TokenId token);
  void write_mask(State state, std::span<std::uint32_t> mask);
  // Tokens that lead from a state to itself, if it is amid a text that was declared free; else null.
  std::shared_ptr<const std::vector<std::uint32_t>> free_tokens(State state);

  bool is_full();
  // With its grammar. Does not wait for other calls.
  std::size_t size_bytes() const { return size_bytes_; }
  // A fresh one that answers move to when this one is full, and where `state` is in it.
  std::pair<std::shared_ptr<GrammarMasks>, State> successor(State state);

 private:
  Place place_of(State state) const;
  // True: it is computed again in no time. Empty: it took too much.
  bool compute_mask(State state, std::span<std::uint32_t> mask);
  bool is_surely_within_limits() const;
  bool is_within_limits_alone(State state);
  void keep(State state, std::span<const std::uint32_t> mask);
  void note_size();

  const std::shared_ptr<const Grammar> grammar_;
  const std::shared_ptr<const GrammarVocabulary> vocabulary_;
  std::mutex mutex_;  // of all below
  GrammarStates states_;
  std::unordered_map<State, std::vector<std::uint32_t>> masks_;
  std::deque<State> kept_;                    // in masks_, the oldest first
  std::unordered_map<State, bool> verdicts_;  // is_within_limits_alone() of those that were looked at
  // By the states of free texts: one for each text, and for each marker's beginnings.
  std::unordered_map<State, std::shared_ptr<const std::vector<std::uint32_t>>> free_;
  std::weak_ptr<GrammarMasks> successor_;
  std::atomic<std::size_t> size_bytes_{0};
};

}  // namespace troupe
