// SPDX-License-Identifier: Apache-2.0
// Finds stop strings in text that arrives in portions. Only what could still
// become a stop string is held back, and the result doesn't depend on how the
// text was cut: the stop string that is completed first wins; of two that are
// completed by the same byte, the longer one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe {

// One thread. Time is linear in the text, whatever the stop strings are.
class StopMatcher {
 public:
  struct Output {
    std::string text;                    // may be shown
    std::optional<std::size_t> matched;  // index into the stop strings
  };

  // Empty stop strings are ignored.
  StopMatcher(std::vector<std::string> stops, bool include_stop);

  // After a match everything is dropped.
  [[nodiscard]] Output push(std::string_view text);
  // The text held back, now that nothing can follow.
  [[nodiscard]] std::string finish();

 private:
  // A node of an Aho-Corasick automaton: a prefix of a stop string.
  struct Node {
    std::vector<std::pair<char, std::uint32_t>> children;
    std::uint32_t fallback = 0;  // the longest proper suffix that is a node
    std::uint32_t depth = 0;
    std::optional<std::size_t> stop;  // the longest stop string that ends here
  };

  void add_stop(std::size_t index);
  void link_fallbacks();
  std::optional<std::uint32_t> child(std::uint32_t node, char byte) const;
  std::uint32_t step(std::uint32_t node, char byte) const;

  std::vector<std::string> stops_;
  bool include_stop_;
  std::vector<Node> nodes_;
  std::uint32_t node_ = 0;  // its depth is the number of bytes held back
  std::string held_;
  bool is_done_ = false;
};

}  // namespace troupe
