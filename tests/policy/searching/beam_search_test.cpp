// SPDX-License-Identifier: Apache-2.0
// Searches over small made-up languages, against all of their sentences and against rules worked out by hand.
#include "policy/searching/beam_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include <doctest/doctest.h>

namespace troupe {
namespace {

using Tokens = std::vector<std::int32_t>;
using Continuations = std::vector<BeamSearch::Continuation>;

constexpr std::int32_t kEnd = 0;

// How likely each token is behind each beginning; drawn from a seed, the same whenever it is asked.
class Language {
 public:
  Language(std::uint64_t seed, std::size_t num_tokens) : seed_(seed), num_tokens_(num_tokens) {}

  // All, the most likely first.
  Continuations behind(const Tokens& beginning) const {
    std::seed_seq seed{static_cast<std::uint64_t>(seed_), hash_of(beginning)};
    std::mt19937_64 draw(seed);
    std::vector<double> weights(num_tokens_);
    double sum = 0;
    for (double& weight : weights)
      sum += weight = std::exp(2.0 * static_cast<double>(draw() >> 11) / static_cast<double>(1ULL << 53));
    Continuations all;
    for (std::size_t i = 0; i < num_tokens_; ++i)
      all.push_back({.token = static_cast<std::int32_t>(i), .logprob = std::log(weights[i] / sum)});
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.logprob > b.logprob; });
    return all;
  }

 private:
  static std::uint64_t hash_of(const Tokens& tokens) {
    std::uint64_t hash = 1469598103934665603ULL;
    for (const std::int32_t token : tokens)
      hash = (hash ^ static_cast<std::uint64_t>(token + 1)) * 1099511628211ULL;
    return hash;
  }

  std::uint64_t seed_;
  std::size_t num_tokens_;
};

BeamSearch play(const Language& language, BeamTerms terms) {
  terms.end_tokens = {kEnd};
  BeamSearch search(std::move(terms));
  for (std::size_t step = 0; !search.is_over(); ++step) {
    std::vector<Continuations> behind;
    for (const auto& beginning : search.open()) {
      CHECK(beginning.tokens.size() == step);
      behind.push_back(language.behind(beginning.tokens));
      const std::size_t most = std::min(behind.back().size(), search.num_continuations());
      behind.back().resize(most);
    }
    search.advance(behind);
  }
  return search;
}

struct Sentence {
  Tokens tokens;
  double logprob = 0;
  bool is_ended = false;
};

// All that there are, those without an end as long as may be.
void collect(const Language& language, const Sentence& beginning, std::size_t max_tokens,
             std::vector<Sentence>& all) {
  for (const auto& [token, logprob] : language.behind(beginning.tokens)) {
    Sentence next = beginning;
    next.logprob += logprob;
    next.is_ended = token == kEnd;
    if (!next.is_ended) next.tokens.push_back(token);
    if (next.is_ended || next.tokens.size() == max_tokens) {
      all.push_back(next);
    } else {
      collect(language, next, max_tokens, all);
    }
  }
}

std::vector<Sentence> best_sentences(const Language& language, std::size_t max_tokens, double penalty) {
  std::vector<Sentence> all;
  collect(language, {}, max_tokens, all);
  const auto score = [penalty](const Sentence& sentence) {
    const double length = std::max(1.0, static_cast<double>(sentence.tokens.size()));
    return sentence.logprob / std::pow(length, penalty);
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const Sentence& a, const Sentence& b) { return score(a) > score(b); });
  return all;
}

}  // namespace

TEST_CASE("beam search: with room for all beginnings the best of all sentences are found, in their order") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    for (const double penalty : {0.0, 0.6, 1.0, 2.0}) {
      CAPTURE(seed);
      CAPTURE(penalty);
      const Language language(seed, 4);
      const auto all = best_sentences(language, 4, penalty);
      const auto found = play(language, {.width = 200,
                                         .max_tokens = 4,
                                         .length_penalty = penalty,
                                         .stop = BeamStop::kNever,
                                         .end_tokens = {}});
      REQUIRE(found.best(10).size() == 10);
      for (std::size_t i = 0; i < 10; ++i) {
        CHECK(found.best(10)[i].tokens == all[i].tokens);
        CHECK(found.best(10)[i].end_token.has_value() == all[i].is_ended);
        CHECK(std::abs(found.best(10)[i].logprob - all[i].logprob) < 1e-9);
      }
    }
  }
}

TEST_CASE("beam search: one beam that stops at its first answer takes the most likely token each time") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Language language(seed, 5);
    Tokens greedy;
    bool is_ended = false;
    while (greedy.size() < 12 && !is_ended) {
      const std::int32_t token = language.behind(greedy).front().token;
      is_ended = token == kEnd;
      if (!is_ended) greedy.push_back(token);
    }
    const auto found =
        play(language, {.width = 1, .max_tokens = 12, .stop = BeamStop::kFirst, .end_tokens = {}});
    REQUIRE(found.best(5).size() == 1);
    CHECK(found.best(5)[0].tokens == greedy);
    CHECK(found.best(5)[0].end_token.has_value() == is_ended);
  }
}

TEST_CASE("beam search: an end counts among the first of a step only, and others take its place") {
  BeamSearch search({.width = 2, .max_tokens = 9, .stop = BeamStop::kFirst, .end_tokens = {kEnd}});
  search.advance(std::vector<Continuations>{{{5, -0.5}, {6, -1.0}, {kEnd, -1.5}}});
  CHECK(search.best(2).empty());  // it was the third
  REQUIRE(search.open().size() == 2);
  CHECK(search.open()[0].tokens == Tokens{5});
  // The end behind 5 is the first of all; three others follow.
  search.advance(std::vector<Continuations>{{{kEnd, -0.1}, {7, -2.5}, {8, -2.6}}, {{kEnd, -9.0}, {9, -1.0}}});
  REQUIRE(search.best(2).size() == 1);
  CHECK(search.best(2)[0].tokens == Tokens{5});
  CHECK(search.best(2)[0].score == -0.6);
  REQUIRE(search.open().size() == 2);
  CHECK(search.open()[0].tokens == Tokens{6, 9});
  CHECK(search.open()[1].tokens == Tokens{5, 7});
}

TEST_CASE(
    "beam search: equal ones stand in the order of beginnings, then of token ids; impossible ones nowhere") {
  BeamSearch search({.width = 3, .max_tokens = 9, .end_tokens = {}});
  constexpr double kImpossible = -std::numeric_limits<double>::infinity();
  search.advance(std::vector<Continuations>{{{4, -1.0}, {2, -1.0}, {3, kImpossible}}});
  REQUIRE(search.open().size() == 2);
  CHECK(search.open()[0].tokens == Tokens{2});
  search.advance(std::vector<Continuations>{{{9, -1.0}}, {{8, -1.0}, {7, -1.0}}});
  REQUIRE(search.open().size() == 3);
  CHECK(search.open()[0].tokens == Tokens{2, 9});
  CHECK(search.open()[1].tokens == Tokens{4, 7});
  CHECK(search.open()[2].tokens == Tokens{4, 8});
}

TEST_CASE("beam search: the stop says how long it looks for more, and the longest answer is cut as it is") {
  // The worse answer is worth -1.35; the open beginning -1.4 at its length, and more at a greater one.
  for (const auto& [stop, goes_on] : std::map<BeamStop, bool>{
           {BeamStop::kFirst, false}, {BeamStop::kHopeless, false}, {BeamStop::kNever, true}}) {
    BeamSearch search(
        {.width = 2, .max_tokens = 4, .length_penalty = 1.0, .stop = stop, .end_tokens = {kEnd, 1}});
    search.advance(std::vector<Continuations>{{{kEnd, -1.3}, {1, -1.35}, {5, -1.4}, {6, -1.5}}});
    CHECK(search.best(5).size() == 2);
    CHECK(search.is_over() == !goes_on);
  }
  BeamSearch cut({.width = 2, .max_tokens = 1, .end_tokens = {kEnd}});
  cut.advance(std::vector<Continuations>{{{5, -0.5}, {kEnd, -1.0}, {6, -1.1}}});
  CHECK(cut.is_over());
  REQUIRE(cut.best(5).size() == 2);
  CHECK_FALSE(cut.best(5)[0].end_token);
  CHECK(cut.best(5)[0].tokens == Tokens{5});
  CHECK(cut.best(5)[1].end_token == kEnd);
}

}  // namespace troupe
