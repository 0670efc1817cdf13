// SPDX-License-Identifier: Apache-2.0
#include "policy/searching/beam_search.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace troupe {

BeamSearch::BeamSearch(BeamTerms terms) : terms_(std::move(terms)) {}

void BeamSearch::advance(std::span<const std::vector<Continuation>> behind) {
  const bool is_last = open_.front().tokens.size() + 1 >= terms_.max_tokens;
  std::vector<Beginning> next;
  std::size_t rank = 0;
  for (const Candidate& candidate : ranked(behind)) {
    const bool is_among_first = rank++ < terms_.width;
    if (is_end(candidate.token) || is_last) {
      if (is_among_first) keep(candidate);
    } else if (next.size() < terms_.width) {
      next.push_back({.tokens = open_[candidate.beginning].tokens, .logprob = candidate.logprob});
      next.back().tokens.push_back(candidate.token);
    }
  }
  open_ = std::move(next);
  if (!open_.empty() && !can_improve()) open_.clear();
}

std::span<const BeamSearch::Answer> BeamSearch::best(std::size_t number) const {
  return std::span(answers_).first(std::min(number, answers_.size()));
}

std::vector<BeamSearch::Candidate> BeamSearch::ranked(
    std::span<const std::vector<Continuation>> behind) const {
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < behind.size() && i < open_.size(); ++i)
    for (const Continuation& continuation : behind[i])
      if (std::isfinite(continuation.logprob))
        candidates.push_back({.logprob = open_[i].logprob + continuation.logprob,
                              .beginning = i,
                              .token = continuation.token});
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(b.logprob, a.beginning, a.token) < std::tie(a.logprob, b.beginning, b.token);
  });
  return candidates;
}

bool BeamSearch::is_end(std::int32_t token) const {
  return std::find(terms_.end_tokens.begin(), terms_.end_tokens.end(), token) != terms_.end_tokens.end();
}

// An answer that ends at once has no tokens.
double BeamSearch::score_of(double logprob, std::size_t num_tokens) const {
  return logprob / std::pow(static_cast<double>(std::max<std::size_t>(num_tokens, 1)), terms_.length_penalty);
}

// Among the answers, if it is one of the best `width`; of equal ones the earlier stands first.
void BeamSearch::keep(const Candidate& candidate) {
  Answer answer{.tokens = open_[candidate.beginning].tokens,
                .logprob = candidate.logprob,
                .score = 0.0,
                .end_token = std::nullopt};
  if (is_end(candidate.token)) {
    answer.end_token = candidate.token;
  } else {
    answer.tokens.push_back(candidate.token);
  }
  answer.score = score_of(answer.logprob, answer.tokens.size());
  const auto place = std::upper_bound(answers_.begin(), answers_.end(), answer,
                                      [](const Answer& a, const Answer& b) { return a.score > b.score; });
  answers_.insert(place, std::move(answer));
  if (answers_.size() > terms_.width) answers_.pop_back();
}

// The first of the open ones is the most likely.
bool BeamSearch::can_improve() const {
  if (answers_.size() < terms_.width) return true;
  if (terms_.stop == BeamStop::kFirst) return false;
  const bool may_grow = terms_.stop == BeamStop::kNever && terms_.length_penalty > 0;
  const std::size_t num_tokens = may_grow ? terms_.max_tokens : open_.front().tokens.size();
  return score_of(open_.front().logprob, num_tokens) > answers_.back().score;
}

}  // namespace troupe
