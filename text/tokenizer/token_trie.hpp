// SPDX-License-Identifier: Apache-2.0
// Finds which of many strings a text begins with, or the longest of them, in one walk over the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/token_id.hpp"

namespace troupe {

// Immutable after construction: may be read from any thread.
class TokenTrie {
 public:
  struct Entry {
    std::string_view text;  // not empty
    TokenId token = 0;
  };
  struct Match {
    std::size_t num_bytes = 0;  // 0: the text begins with no entry
    TokenId token = 0;
    std::size_t num_steps = 0;  // bytes looked at
  };

  // `entries`: distinct texts. They are not referred to afterwards.
  explicit TokenTrie(std::vector<Entry> entries);

  Match longest_prefix(std::string_view text) const;

  // Calls visit(num_bytes, token) for each entry that the text begins with, the shortest first. The
  // bytes looked at.
  template <class Visit>
  std::size_t for_each_prefix(std::string_view text, Visit visit) const {
    std::uint32_t node = 0;
    std::size_t num_steps = 0;
    for (const char byte : text) {
      ++num_steps;
      node = child(nodes_[node], byte);
      if (node == 0) break;
      if (nodes_[node].token != kNone) visit(num_steps, nodes_[node].token);
    }
    return num_steps;
  }

 private:
  static constexpr TokenId kNone = -1;

  // Node 0 is the root. The children of a node follow each other.
  struct Node {
    std::uint32_t first_child = 0;
    std::uint32_t num_children = 0;
    TokenId token = kNone;  // of the entry that ends here
  };

  // 0, the root, where there is none.
  std::uint32_t child(const Node& node, char byte) const;

  std::vector<Node> nodes_;
  std::string bytes_;  // [num_nodes]: what leads to each
};

}  // namespace troupe
