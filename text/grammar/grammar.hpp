// SPDX-License-Identifier: Apache-2.0
// A language over bytes and tokens as a recursive automaton: each rule is a piece of one, whose nodes
// read a byte, name a token, branch, or call another rule. Built by GrammarBuilder, run by
// GrammarMatcher.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "text/grammar/grammar_error.hpp"
#include "text/token_id.hpp"

namespace troupe {

using ByteSet = std::bitset<256>;

struct ByteRange {
  std::uint8_t first = 0;
  std::uint8_t last = 0;
};

inline constexpr std::uint32_t kUnboundedCount = std::numeric_limits<std::uint32_t>::max();

struct GrammarNode {
  enum class Kind : std::uint8_t {
    kEnd,     // the text may end here; node 0 only
    kReturn,  // of the rule that was called
    kBytes,   // reads a byte of set `operand`, goes on at `next`
    kToken,   // reads token `operand`
    kBranch,  // goes on at `next` and at `operand`
    kCall,    // rule that begins at `operand`, then `next`
    kLoop,    // loop `operand`
  };
  Kind kind = Kind::kReturn;
  bool is_free_text = false;  // of a rule that was declared so (GrammarBuilder)
  std::uint32_t operand = 0;
  std::uint32_t next = 0;
};

// `body`, a rule of its own, min to max times, then `next` of the node.
struct GrammarLoop {
  std::uint32_t body = 0;
  std::uint32_t min = 0;
  std::uint32_t max = kUnboundedCount;
};

// Immutable: may be read from any thread.
class Grammar {
 public:
  // Frames on the stack of an answer: a value in JSON takes two or three.
  static constexpr std::uint32_t kMaxStackDepth = 512;
  static constexpr std::size_t kMaxNodes = 500'000;
  static constexpr std::uint32_t kUnproductive = std::numeric_limits<std::uint32_t>::max();

  struct Parts {
    std::vector<GrammarNode> nodes;  // [0] is the end
    std::vector<GrammarLoop> loops;
    std::vector<ByteSet> byte_sets;
    std::vector<std::uint32_t> rules;  // where each begins
    std::uint32_t root = 0;            // index into `rules`
  };
  // Throws GrammarError where a rule calls itself before it has read anything, or where no text is in
  // the language.
  explicit Grammar(Parts parts);

  const GrammarNode& node(std::uint32_t index) const { return parts_.nodes[index]; }
  const GrammarLoop& loop(std::uint32_t index) const { return parts_.loops[index]; }
  std::size_t num_nodes() const { return parts_.nodes.size(); }
  std::size_t size_bytes() const;
  std::uint32_t start() const { return parts_.rules[parts_.root]; }

  // Frames that must fit above this node's until its rule returns; kUnproductive: it never can.
  std::uint32_t frames_needed(std::uint32_t node) const { return frames_needed_[node]; }
  bool can_return_unread(std::uint32_t node) const { return nullable_[node]; }

  // Bytes that no node tells apart are one class.
  std::uint32_t num_byte_classes() const { return static_cast<std::uint32_t>(class_bytes_.size()); }
  std::uint8_t byte_class(unsigned char byte) const { return byte_classes_[byte]; }
  bool reads(const GrammarNode& bytes_node, std::uint32_t byte_class) const {
    return parts_.byte_sets[bytes_node.operand][class_bytes_[byte_class]];
  }

 private:
  void classify_bytes();
  void find_frames_needed();
  void find_nullable();
  void refuse_left_recursion() const;
  std::vector<std::vector<std::uint32_t>> callers() const;

  Parts parts_;
  std::array<std::uint8_t, 256> byte_classes_{};
  std::vector<std::uint8_t> class_bytes_;  // a byte of each class
  std::vector<std::uint32_t> frames_needed_;
  std::vector<bool> nullable_;
};

}  // namespace troupe
