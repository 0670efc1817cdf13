// SPDX-License-Identifier: Apache-2.0
// Computes one mask: walks a vocabulary's trie through the states of a grammar, within limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "text/grammar/grammar_states.hpp"
#include "text/grammar/grammar_vocabulary.hpp"

namespace troupe {

struct MaskWalkLimits {
  std::uint64_t work = 0;      // positions looked at
  std::size_t size_bytes = 0;  // by which the states may grow
};

// One thread, and one mask.
class MaskWalk {
 public:
  using State = GrammarStates::State;

  // Both must outlive this.
  MaskWalk(GrammarStates& states, const GrammarVocabulary& vocabulary, const MaskWalkLimits& limits);

  // Sets the bits of the tokens that may follow by their bytes. mask: zeros. False: it took too much, and
  // some are missing.
  bool run(State state, std::span<std::uint32_t> mask);
  std::uint64_t num_nodes() const { return num_nodes_; }

 private:
  bool is_within_limits() const;
  std::optional<std::size_t> num_plain_characters(State state);
  void walk(std::span<const ByteTrieNode> nodes, State from, std::span<std::uint32_t> mask);

  GrammarStates& states_;
  const GrammarVocabulary& vocabulary_;
  const std::size_t size_limit_;
  std::vector<State> path_;  // the state after each byte
  std::uint64_t num_nodes_ = 0;
};

}  // namespace troupe
