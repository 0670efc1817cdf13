// SPDX-License-Identifier: Apache-2.0
// Beam search: the beginnings of answers that are gone on with, the answers that are kept, and when no better
// one can come.
//
//   open() ─► the most likely tokens behind each ─► advance() ─► open() … until is_over() ─► best()
//
// In each step all continuations of all open beginnings compete by the sum of their tokens'
// log-probabilities, in natural logarithms. One that an end token ends counts if it is among the first
// `width`; the first `width` of the others are open in the next step. At max_tokens the first `width` are
// answers as they are. An answer is worth that sum over (tokens without the end) to the power of
// length_penalty. Equal ones stand in the order of beginnings, then of token ids. That is CTranslate2's
// search with BeamStop::kFirst, and transformers' but for the length.
//
// A value: no device, no clock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace troupe {

enum class BeamStop : std::uint8_t {
  kFirst,     // when `width` answers are there
  kHopeless,  // when besides no open beginning is worth more, at its length, than the worst of them
  kNever,     // when besides none can become so: at max_tokens, if length_penalty favours long answers
};

struct BeamTerms {
  std::uint32_t width = 1;       // beginnings and answers at a time; >= 1
  std::uint32_t max_tokens = 1;  // of an answer, with the end token; >= 1
  double length_penalty = 1.0;
  BeamStop stop = BeamStop::kHopeless;
  std::vector<std::int32_t> end_tokens;
};

class BeamSearch {
 public:
  struct Beginning {
    std::vector<std::int32_t> tokens;
    double logprob = 0.0;  // the sum of theirs
  };
  struct Continuation {
    std::int32_t token = -1;
    double logprob = 0.0;  // -Inf: impossible
  };
  struct Answer {
    std::vector<std::int32_t> tokens;       // without the end token
    double logprob = 0.0;                   // the sum of theirs and of the end token's
    double score = 0.0;                     // its worth, by which the best are chosen
    std::optional<std::int32_t> end_token;  // none: max_tokens ended it
  };

  explicit BeamSearch(BeamTerms terms);

  // There is room for so many tokens of an answer only; >= 1. Before the first advance().
  void limit(std::uint32_t max_tokens) { terms_.max_tokens = std::min(terms_.max_tokens, max_tokens); }

  // First one without tokens. All have the same length. None: it is over.
  const std::vector<Beginning>& open() const { return open_; }
  // Tokens that are to be known behind each: among them are all that can matter.
  std::size_t num_continuations() const { return terms_.width + terms_.end_tokens.size(); }
  // Continuations of each of open(), the most likely ones: num_continuations(), or all that there are.
  void advance(std::span<const std::vector<Continuation>> behind);
  bool is_over() const { return open_.empty(); }
  // At most so many answers of those found, and `width`, the best first.
  std::span<const Answer> best(std::size_t number) const;

 private:
  struct Candidate {
    double logprob = 0.0;
    std::size_t beginning = 0;
    std::int32_t token = -1;
  };

  std::vector<Candidate> ranked(std::span<const std::vector<Continuation>> behind) const;
  bool is_end(std::int32_t token) const;
  double score_of(double logprob, std::size_t num_tokens) const;
  void keep(const Candidate& candidate);
  bool can_improve() const;

  BeamTerms terms_;
  std::vector<Beginning> open_ = {{}};
  std::vector<Answer> answers_;  // the best first, at most `width`
};

}  // namespace troupe
