// SPDX-License-Identifier: Apache-2.0
// Finds the tokens of text around markers behind which the same text goes on: they need no mask.
#pragma once

#include <cstdint>
#include <vector>

#include "text/grammar/grammar_states.hpp"
#include "text/grammar/grammar_vocabulary.hpp"

namespace troupe {

// A mask of the tokens that lead from the state to itself. Empty: it is none of a text that was declared
// free (GrammarBuilder::declare_free_text), or usual characters leave it.
std::vector<std::uint32_t> free_tokens(GrammarStates& states, const GrammarVocabulary& vocabulary,
                                       GrammarStates::State state);

}  // namespace troupe
