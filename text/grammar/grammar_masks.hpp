// SPDX-License-Identifier: Apache-2.0
// The masks of a grammar over a vocabulary, and the automaton they are computed with: shared by all
// answers that follow the grammar, so that each state is worked out once.
#pragma once

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
  // Positions looked at for one mask: some tenths of a second.
  static constexpr std::uint64_t kMaxMaskWork = 3'000'000;
  // Bytes the states may grow by for one mask.
  static constexpr std::size_t kMaxMaskStateBytes = 16 << 20;

  // States of which free tokens are kept: text around calls, and texts within arguments.
  static constexpr std::size_t kMostFree = 32;

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
  // Tokens that lead from a state to itself, if most plain characters do; else null.
  std::shared_ptr<const std::vector<std::uint32_t>> free_tokens(State state);

  bool is_full();
  // A fresh one that answers move to when this one is full, and where `state` is in it.
  std::pair<std::shared_ptr<GrammarMasks>, State> successor(State state);

 private:
  Place place_of(State state) const;
  // False: it took too much, and the mask is empty.
  bool compute_mask(State state, std::span<std::uint32_t> mask);
  bool is_within_limits() const;
  std::optional<std::size_t> num_plain_characters(State state);
  void walk(std::span<const ByteTrieNode> nodes, State from, std::span<std::uint32_t> mask);
  void keep(State state, std::span<const std::uint32_t> mask);
  std::shared_ptr<const std::vector<std::uint32_t>> compute_free_tokens(State state);

  const std::shared_ptr<const Grammar> grammar_;
  const std::shared_ptr<const GrammarVocabulary> vocabulary_;
  std::mutex mutex_;  // of all below
  GrammarStates states_;
  std::vector<State> path_;  // of the walk: the state after each byte
  std::uint64_t num_walked_ = 0;
  std::uint64_t work_limit_ = 0;  // of the mask that is being made, as is the next
  std::size_t size_limit_ = 0;
  std::unordered_map<State, std::vector<std::uint32_t>> masks_;
  std::deque<State> kept_;  // in masks_, the oldest first
  std::unordered_map<State, std::shared_ptr<const std::vector<std::uint32_t>>> free_;  // at most kMostFree
  std::weak_ptr<GrammarMasks> successor_;
};

}  // namespace troupe
