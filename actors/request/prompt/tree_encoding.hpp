// SPDX-License-Identifier: Apache-2.0
// A tree of words, as a client wrote it, as the graph of cells that a model runs.
#pragma once

#include <functional>
#include <string_view>
#include <variant>

#include "actors/engine.hpp"
#include "actors/request/api_error.hpp"
#include "actors/request/prompt/encoded_prompt.hpp"

namespace troupe {

// text: as text/tree/syntax_tree.hpp reads it. A node with one child and no word is its child
// where the model's nodes have two. Errors name the node by its number in the text, from 0.
// The model's unfolding is kTree. is_interrupted: asked now and then, may be empty; true throws
// EncodingStopped.
std::variant<EncodedPrompt, ApiError> encode_tree(const ServedModel& model, std::string_view text,
                                                  const std::function<bool()>& is_interrupted);

}  // namespace troupe
