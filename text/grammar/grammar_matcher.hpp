// SPDX-License-Identifier: Apache-2.0
// Runs a grammar over an answer, token by token: which tokens may come next, and whether it may end.
// Copies share the steps and masks that were computed: give every answer to the same grammar a copy of
// one matcher.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "text/grammar/grammar.hpp"
#include "text/grammar/grammar_vocabulary.hpp"

namespace troupe {

class GrammarMasks;

// A value: a copy is the same place in the same answer. One thread at a time; copies may be used in
// different threads, which wait for each other.
class GrammarMatcher {
 public:
  GrammarMatcher(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const GrammarVocabulary> vocabulary);

  // The answer goes on with this token. False, and nothing changes: it may not.
  [[nodiscard]] bool accept(TokenId token);
  // The answer may end here; true after an end token.
  bool may_end() const { return may_end_; }
  // Nothing but an end token can follow.
  bool is_finished() const { return is_finished_; }
  // Sets bit t % 32 of word t / 32 exactly for the tokens t that accept() takes, end tokens where
  // may_end(). mask: [num_mask_words() of the vocabulary or more]. An empty mask says that no token of
  // the vocabulary goes on from here, or that the grammar is too ambiguous to be followed: the answer
  // has failed.
  void allow(std::span<std::uint32_t> mask) const;
  // The size of the grammar, and of what was computed of it so far for all of its answers. Any thread; waits
  // for none.
  std::size_t size_bytes() const;
  // The tokens that accept() takes and that change nothing: the same may follow as now. Null: no text goes
  // on here that was declared free.
  std::shared_ptr<const std::vector<std::uint32_t>> free_tokens() const;

 private:
  std::shared_ptr<GrammarMasks> masks_;
  std::uint32_t state_ = 0;
  bool may_end_ = false;
  bool is_finished_ = false;
  bool has_ended_ = false;
};

}  // namespace troupe
