// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "policy/unfolding/cell_graph.hpp"
#include "text/history/history_encoding.hpp"

namespace troupe {

struct EncodedPrompt {
  std::vector<std::int32_t> tokens;
  // The first num_inherited tokens are those of the continued conversation, as
  // they were run; 0: the prompt was encoded anew.
  std::size_t num_inherited = 0;
  // The same of a chat that came with its whole history: the first tokens, known from its
  // turns before (text/history/).
  std::size_t num_remembered = 0;
  std::shared_ptr<PromptParts> parts = {};    // to be remembered with the answer; null: it is not
  std::uint32_t second_text = 0;              // as AdmissionTicket::second_text
  std::vector<std::int32_t> end_tokens = {};  // end an answer to it, besides the model's
  // The graph of a tree, and by node of the tree the result of the graph that is its.
  std::shared_ptr<const CellGraph> graph = {};
  std::vector<std::uint32_t> node_results = {};
  std::uint32_t root = 0;  // node of the tree
};

}  // namespace troupe
