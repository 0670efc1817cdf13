// SPDX-License-Identifier: Apache-2.0
// Trees as clients write them, for models that classify trees:
//
//   (3 (2 It) (4 works))                       brackets, as treebanks have them; labels are
//                                              read over, -LRB- -RRB- and \/ are unescaped
//   {"children": [{"word": "It"}, {"word": "works"}]}              nested
//   {"nodes": [{"word": "It"}, {"word": "works"}, {"children": [0, 1]}]}   by number, in any order
//
// Nothing here recurses: a tree may be as deep as it has nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

struct SyntaxTree {
  struct Node {
    std::string word;  // empty: none
    std::vector<std::uint32_t> children;
  };
  static constexpr std::size_t kMaxNodes = 65536;

  std::vector<Node> nodes;  // in the client's order: of brackets and nested nodes the parent's first
  std::uint32_t root = 0;

  // Every node, each behind all of its children.
  std::vector<std::uint32_t> children_first() const;
};

// The text is no tree: says where, what was expected and what came.
class TreeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The form follows from the first character. Throws TreeError.
SyntaxTree parse_tree(std::string_view text);

}  // namespace troupe
