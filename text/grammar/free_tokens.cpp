// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/free_tokens.hpp"

#include <algorithm>
#include <string_view>

#include "text/grammar/token_mask.hpp"

namespace troupe {
namespace {

using State = GrammarStates::State;

constexpr std::string_view kUsual = " etaoinsr";

bool is_amid_text(GrammarStates& states, State state) {
  const auto stays = [&](char byte) { return states.step(state, static_cast<unsigned char>(byte)) == state; };
  return states.is_free_text(state) && std::all_of(kUsual.begin(), kUsual.end(), stays);
}

}  // namespace

// A walk that leaves the text, through a marker that is whole, does not come back: what follows may be as
// large as a grammar can be.
std::vector<std::uint32_t> free_tokens(GrammarStates& states, const GrammarVocabulary& vocabulary,
                                       State state) {
  if (!is_amid_text(states, state)) return {};
  std::vector<std::uint32_t> mask(vocabulary.num_mask_words());
  std::vector<State> path(vocabulary.max_token_bytes() + 1);
  path[0] = state;
  const auto nodes = vocabulary.tokens();
  for (std::size_t i = 0; i < nodes.size();) {
    const ByteTrieNode& node = nodes[i];
    const State next = states.step(path[node.depth - 1U], node.byte);
    if (!states.is_free_text(next)) {
      i = node.skip;
      continue;
    }
    path[node.depth] = next;
    // A token that has its own node besides its bytes may lead elsewhere, too.
    const bool is_free =
        next == state && node.token >= 0 && states.step_token(state, node.token) == GrammarStates::kDead;
    if (is_free) set_bit(mask, node.token);
    ++i;
  }
  for (const auto& [first, second] : vocabulary.same_spelling())
    if (has_bit(mask, first) && states.step_token(state, second) == GrammarStates::kDead)
      set_bit(mask, second);
  return mask;
}

}  // namespace troupe
