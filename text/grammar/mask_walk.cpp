// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/mask_walk.hpp"

#include <algorithm>

#include "text/grammar/token_mask.hpp"

namespace troupe {

MaskWalk::MaskWalk(GrammarStates& states, const GrammarVocabulary& vocabulary, const MaskWalkLimits& limits)
    : states_(states),
      vocabulary_(vocabulary),
      size_limit_(states.size_bytes() + limits.size_bytes),
      path_(vocabulary.max_token_bytes() + 1) {
  states_.allow_work(limits.work);
}

bool MaskWalk::run(State state, std::span<std::uint32_t> mask) {
  if (const auto num_characters = num_plain_characters(state)) {
    const auto plain = vocabulary_.plain_tokens(*num_characters);
    std::copy(plain.begin(), plain.end(), mask.begin());
    walk(vocabulary_.tokens_beside_plain(), state, mask);
  } else {
    walk(vocabulary_.tokens(), state, mask);
  }
  if (!is_within_limits()) return false;
  for (const auto& [first, second] : vocabulary_.same_spelling())
    if (has_bit(mask, first)) set_bit(mask, second);
  return true;
}

bool MaskWalk::is_within_limits() const {
  return !states_.is_out_of_work() && states_.size_bytes() <= size_limit_;
}

// How many plain characters may follow, whichever they are; nullopt: it depends on them.
std::optional<std::size_t> MaskWalk::num_plain_characters(State state) {
  for (std::size_t number = 0; number < GrammarVocabulary::kMaxPlainCharacters; ++number) {
    const GrammarStates::PlainStep step = states_.plain_step(state);
    if (step.kind == GrammarStates::PlainStep::Kind::kMixed) return std::nullopt;
    if (step.state == GrammarStates::kDead) return number;
    if (step.state == state) break;
    state = step.state;
  }
  return GrammarVocabulary::kMaxPlainCharacters;
}

void MaskWalk::walk(std::span<const ByteTrieNode> nodes, State from, std::span<std::uint32_t> mask) {
  path_[0] = from;
  for (std::size_t i = 0; i < nodes.size() && is_within_limits(); ++num_nodes_) {
    const ByteTrieNode& node = nodes[i];
    const State state = states_.step(path_[node.depth - 1U], node.byte);
    if (state == GrammarStates::kDead) {
      i = node.skip;
      continue;
    }
    path_[node.depth] = state;
    if (node.token >= 0) set_bit(mask, node.token);
    ++i;
  }
}

}  // namespace troupe
