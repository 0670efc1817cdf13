// SPDX-License-Identifier: Apache-2.0
#include "policy/forming/batch_former.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

namespace troupe {
namespace {

constexpr std::uint32_t kPlenty = 1000;
constexpr BatchLimits kWide{.max_tokens = kPlenty, .max_sequences = kPlenty, .prefill_chunk = kPlenty};

SequenceProgress prompt_of(std::uint32_t num_tokens) { return {num_tokens, kPlenty}; }

// Its prompt is computed and its first token known.
SequenceProgress decoding() {
  SequenceProgress progress(4, kPlenty);
  const auto step = progress.next_step(kPlenty, kPlenty);
  progress.submitted(*step);
  progress.completed(*step);
  return progress;
}

std::vector<BatchCandidate> with_room(const std::vector<SequenceProgress>& sequences) {
  std::vector<BatchCandidate> candidates;
  for (const auto& progress : sequences)
    candidates.push_back({.progress = &progress, .page_capacity = kPlenty});
  return candidates;
}

using Tokens = std::vector<std::uint32_t>;  // of each candidate, 0 for those left out

Tokens tokens_of(const std::vector<BatchShare>& shares, std::size_t num_candidates) {
  Tokens tokens(num_candidates, 0);
  for (const auto& share : shares) tokens.at(share.candidate) = share.step.num_tokens;
  return tokens;
}

Tokens formed(const std::vector<SequenceProgress>& sequences, const BatchLimits& limits) {
  return tokens_of(form_batch(with_room(sequences), limits), sequences.size());
}

TEST_CASE("batch_former: nobody makes an empty batch") { CHECK(form_batch({}, kWide).empty()); }

TEST_CASE("batch_former: decoding sequences come first, whoever arrived first") {
  const BatchLimits limits{.max_tokens = 6, .max_sequences = 10, .prefill_chunk = 10};
  CHECK(formed({prompt_of(9), decoding(), decoding()}, limits) == Tokens{4, 1, 1});
}

TEST_CASE("batch_former: prompts take what is left in order of arrival") {
  const BatchLimits limits{.max_tokens = 8, .max_sequences = 10, .prefill_chunk = 10};
  CHECK(formed({prompt_of(3), prompt_of(4), prompt_of(5)}, limits) == Tokens{3, 4, 1});
}

TEST_CASE("batch_former: no prompt takes more than a chunk") {
  const BatchLimits limits{.max_tokens = 8, .max_sequences = 10, .prefill_chunk = 3};
  CHECK(formed({prompt_of(9), prompt_of(9), prompt_of(9)}, limits) == Tokens{3, 3, 2});
}

TEST_CASE("batch_former: prompts alone take no more than beside other models' streams") {
  const BatchLimits limits{
      .max_tokens = 20, .max_sequences = 10, .prefill_chunk = 10, .max_lone_prompt_tokens = 4};
  CHECK(formed({prompt_of(9)}, limits) == Tokens{4});
  CHECK(formed({prompt_of(3), prompt_of(9)}, limits) == Tokens{3, 1});
  CHECK(formed({decoding(), prompt_of(9), decoding()}, limits) == Tokens{1, 4, 1});  // decodes do not count
}

TEST_CASE("batch_former: max_sequences counts those who decode and those who prefill") {
  const BatchLimits limits{.max_tokens = 100, .max_sequences = 2, .prefill_chunk = 100};
  CHECK(formed({prompt_of(3), decoding(), prompt_of(4)}, limits) == Tokens{3, 1, 0});
}

TEST_CASE("batch_former: one without room for its next token is passed over") {
  const std::vector<SequenceProgress> sequences{decoding(), decoding(), prompt_of(3)};
  auto candidates = with_room(sequences);
  candidates[0].page_capacity = 4;
  const BatchLimits limits{.max_tokens = 4, .max_sequences = 2, .prefill_chunk = 4};
  CHECK(tokens_of(form_batch(candidates, limits), 3) == Tokens{0, 1, 3});
}

TEST_CASE("batch_former: a prompt goes as far as its pages do") {
  const std::vector<SequenceProgress> sequences{prompt_of(9), prompt_of(9)};
  auto candidates = with_room(sequences);
  candidates[0].page_capacity = 2;
  const BatchLimits limits{.max_tokens = 6, .max_sequences = 2, .prefill_chunk = 6};
  CHECK(tokens_of(form_batch(candidates, limits), 2) == Tokens{2, 4});
}

TEST_CASE("batch_former: one that waits for its results takes no place") {
  SequenceProgress busy = decoding();
  for (int i = 0; i < 2; ++i) busy.submitted(*busy.next_step(1, kPlenty));
  const BatchLimits limits{.max_tokens = 1, .max_sequences = 1, .prefill_chunk = 1};
  CHECK(formed({busy, decoding()}, limits) == Tokens{0, 1});
}

TEST_CASE("batch_former: a budget of nothing makes an empty batch") {
  const std::vector<SequenceProgress> sequences{decoding(), prompt_of(3)};
  BatchLimits limits = kWide;
  limits.max_tokens = 0;
  CHECK(formed(sequences, limits) == Tokens{0, 0});
  limits = kWide;
  limits.max_sequences = 0;
  CHECK(formed(sequences, limits) == Tokens{0, 0});
}

TEST_CASE("batch_former: without chunks for prompts decoding goes on") {
  BatchLimits limits = kWide;
  limits.prefill_chunk = 0;
  CHECK(formed({prompt_of(3), decoding()}, limits) == Tokens{0, 1});
}

TEST_CASE("batch_former: prompts that are kept apart go first and alone") {
  BatchLimits limits{.max_tokens = 8, .max_sequences = 10, .prefill_chunk = 3, .separates_prefill = true};
  CHECK(formed({decoding(), prompt_of(2), prompt_of(9)}, limits) == Tokens{0, 2, 3});
  CHECK(formed({decoding(), decoding()}, limits) == Tokens{1, 1});
  // A prompt that cannot go on, here for want of chunks, holds nobody up.
  limits.prefill_chunk = 0;
  CHECK(formed({decoding(), prompt_of(2)}, limits) == Tokens{1, 0});
}

// Some sequences somewhere in their lives, in pages that may not be enough.
struct RandomCrowd {
  std::mt19937_64 random;
  std::vector<SequenceProgress> sequences;
  std::vector<BatchCandidate> candidates;
  BatchLimits limits;

  RandomCrowd(std::uint64_t seed, std::uint32_t max_candidates, std::uint32_t max_tokens) : random(seed) {
    const std::uint32_t num_candidates = pick(max_candidates + 1);
    for (std::uint32_t i = 0; i < num_candidates; ++i) sequences.push_back(sequence());
    for (const auto& progress : sequences)
      candidates.push_back({.progress = &progress,
                            .page_capacity = std::max(progress.num_computed(), progress.capacity_needed(1)) -
                                             (pick(3) == 0 ? pick(2) : 0)});
    limits = {.max_tokens = pick(max_tokens + 1),
              .max_sequences = pick(max_candidates + 1),
              .prefill_chunk = pick(max_tokens + 1)};
  }

  std::uint32_t pick(std::uint32_t bound) { return static_cast<std::uint32_t>(random() % bound); }

  SequenceProgress sequence() {
    const std::uint32_t num_prompt = 1 + pick(5);
    SequenceProgress progress(num_prompt, num_prompt + 1 + pick(4));
    std::deque<SequenceStep> in_flight;
    for (std::uint32_t i = pick(8); i > 0; --i) {
      if (const auto step = progress.next_step(1 + pick(4), kPlenty)) {
        progress.submitted(*step);
        in_flight.push_back(*step);
      }
      if (pick(2) == 0 || in_flight.empty()) continue;
      progress.completed(in_flight.front());
      in_flight.pop_front();
    }
    return progress;
  }
};

// All ways to share the budget, tried one by one. The best gives most to the
// first in turn, then most to the second, and so on.
class ExhaustiveSearch {
 public:
  explicit ExhaustiveSearch(const RandomCrowd& crowd) : crowd_(crowd) {
    for (const bool prefilling : {false, true})
      for (std::size_t i = 0; i < crowd.candidates.size(); ++i)
        if (crowd.sequences[i].is_prefilling() == prefilling) turns_.push_back(i);
    Tokens tokens(crowd.candidates.size(), 0);
    best_ = tokens;
    try_all(0, tokens);
  }

  const Tokens& best() const { return best_; }

 private:
  void try_all(std::size_t turn, Tokens& tokens) {
    if (turn == turns_.size()) {
      if (is_allowed(tokens) && is_better(tokens)) best_ = tokens;
      return;
    }
    const std::size_t candidate = turns_[turn];
    const std::uint32_t most = most_of(candidate);
    for (std::uint32_t n = 0; n <= most; ++n) {
      tokens[candidate] = n;
      try_all(turn + 1, tokens);
    }
    tokens[candidate] = 0;
  }

  std::uint32_t most_of(std::size_t candidate) const {
    const SequenceProgress& progress = crowd_.sequences[candidate];
    const std::uint32_t most = progress.is_prefilling() ? crowd_.limits.prefill_chunk : 1;
    const auto step = progress.next_step(most, crowd_.candidates[candidate].page_capacity);
    return step ? step->num_tokens : 0;
  }

  bool is_allowed(const Tokens& tokens) const {
    std::uint32_t num_tokens = 0, num_sequences = 0;
    for (const std::uint32_t n : tokens) {
      num_tokens += n;
      num_sequences += n > 0 ? 1 : 0;
    }
    return num_tokens <= crowd_.limits.max_tokens && num_sequences <= crowd_.limits.max_sequences;
  }

  bool is_better(const Tokens& tokens) const {
    for (const std::size_t candidate : turns_)
      if (tokens[candidate] != best_[candidate]) return tokens[candidate] > best_[candidate];
    return false;
  }

  const RandomCrowd& crowd_;
  std::vector<std::size_t> turns_;
  Tokens best_;
};

TEST_CASE("batch_former: the batch is the best of all that could be formed") {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    const RandomCrowd crowd(seed, 5, 7);
    const auto shares = form_batch(crowd.candidates, crowd.limits);
    const Tokens tokens = tokens_of(shares, crowd.candidates.size());
    CAPTURE(seed);
    REQUIRE(tokens == ExhaustiveSearch(crowd).best());
  }
}

TEST_CASE("batch_former: no budget is exceeded and every share is its candidate's next step") {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    const RandomCrowd crowd(seed, 40, 60);
    const auto shares = form_batch(crowd.candidates, crowd.limits);
    CAPTURE(seed);
    REQUIRE(shares.size() <= crowd.limits.max_sequences);
    std::uint32_t num_tokens = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (i > 0) REQUIRE(shares[i - 1].candidate < shares[i].candidate);
      const BatchCandidate& candidate = crowd.candidates.at(shares[i].candidate);
      const SequenceStep& step = shares[i].step;
      num_tokens += step.num_tokens;
      REQUIRE(step.num_tokens >= 1);
      if (!candidate.progress->is_prefilling()) REQUIRE(step.num_tokens == 1);
      if (candidate.progress->is_prefilling()) REQUIRE(step.num_tokens <= crowd.limits.prefill_chunk);
      REQUIRE(step == candidate.progress->next_step(step.num_tokens, candidate.page_capacity));
    }
    REQUIRE(num_tokens <= crowd.limits.max_tokens);
  }
}

// As the scheduler runs it: no more sequences than tokens or places in a batch,
// and up to two batches on the device.
TEST_CASE("batch_former: every sequence that runs is finished") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    std::mt19937_64 random(seed);
    const auto pick = [&](std::uint32_t bound) { return static_cast<std::uint32_t>(random() % bound); };
    const BatchLimits limits{.max_tokens = 1 + pick(6),
                             .max_sequences = 1 + pick(6),
                             .prefill_chunk = 1 + pick(6),
                             .separates_prefill = pick(2) == 0};
    std::vector<SequenceProgress> sequences;
    std::uint32_t num_left = 0;  // tokens
    for (std::uint32_t i = std::min(limits.max_tokens, limits.max_sequences); i > 0; --i) {
      const std::uint32_t num_prompt = 1 + pick(30);
      sequences.emplace_back(num_prompt, num_prompt + 1 + pick(10));
      num_left += sequences.back().max_total() - 1;
    }
    const auto candidates = with_room(sequences);
    std::deque<std::vector<BatchShare>> in_flight;
    while (num_left > 0) {
      if (in_flight.size() < 2) {
        auto shares = form_batch(candidates, limits);
        REQUIRE((!shares.empty() || !in_flight.empty()));
        for (const auto& share : shares) {
          sequences[share.candidate].submitted(share.step);
          num_left -= share.step.num_tokens;
        }
        if (!shares.empty()) in_flight.push_back(std::move(shares));
      }
      if (in_flight.empty() || (in_flight.size() < 2 && pick(2) == 0)) continue;
      for (const auto& share : in_flight.front()) sequences[share.candidate].completed(share.step);
      in_flight.pop_front();
    }
    for (const auto& shares : in_flight)
      for (const auto& share : shares) sequences[share.candidate].completed(share.step);
    for (const auto& progress : sequences) CHECK(progress.is_at_limit());
  }
}

// A sequence that decodes has its token in every batch, however long the
// prompts are that come and go beside it.
TEST_CASE("batch_former: prompts never hold up those who are being answered") {
  const BatchLimits limits{.max_tokens = 5, .max_sequences = 5, .prefill_chunk = 5};
  std::vector<SequenceProgress> sequences{prompt_of(500), decoding(), prompt_of(500), decoding()};
  const auto candidates = with_room(sequences);
  for (int i = 0; i < 200; ++i) {
    const auto shares = form_batch(candidates, limits);
    const Tokens tokens = tokens_of(shares, 4);
    REQUIRE(tokens[1] == 1);
    REQUIRE(tokens[3] == 1);
    for (const auto& share : shares) {
      sequences[share.candidate].submitted(share.step);
      sequences[share.candidate].completed(share.step);
    }
  }
}

TEST_CASE("batch_former: holes and what is new come in one batch, in this order") {
  std::vector<SequenceProgress> sequences{prompt_of(20), decoding()};
  sequences[0].start(16, {{.begin = 0, .end = 4}, {.begin = 8, .end = 12}});
  const auto shares = form_batch(with_room(sequences), kWide);
  REQUIRE(shares.size() == 4);
  CHECK(shares[0].step == SequenceStep{.num_tokens = 4, .context_length = 0, .fills_hole = true});
  CHECK(shares[1].step == SequenceStep{.num_tokens = 4, .context_length = 8, .fills_hole = true});
  CHECK(shares[2].step == SequenceStep{.num_tokens = 4, .context_length = 16, .sample = true});
  CHECK(shares[3].candidate == 1);
  CHECK(sequences[0].has_holes());  // nothing is submitted yet
}

TEST_CASE("batch_former: holes count against the chunk and the budget") {
  std::vector<SequenceProgress> sequences{prompt_of(20)};
  sequences[0].start(16, {{.begin = 0, .end = 8}});
  const auto by_chunk =
      form_batch(with_room(sequences), {.max_tokens = 50, .max_sequences = 4, .prefill_chunk = 10});
  REQUIRE(by_chunk.size() == 2);
  CHECK(by_chunk[1].step == SequenceStep{.num_tokens = 2, .context_length = 16});
  const auto by_budget =
      form_batch(with_room(sequences), {.max_tokens = 5, .max_sequences = 4, .prefill_chunk = 10});
  REQUIRE(by_budget.size() == 1);
  CHECK(by_budget[0].step.num_tokens == 5);
}

// Who decodes with lists of so many penalized tokens.
struct Listed {
  std::vector<SequenceProgress> sequences;
  std::vector<BatchCandidate> candidates;

  explicit Listed(const std::vector<std::uint32_t>& lengths) {
    sequences.assign(lengths.size(), decoding());
    candidates = with_room(sequences);
    for (std::size_t i = 0; i < lengths.size(); ++i) candidates[i].num_penalized_tokens = lengths[i];
  }

  // Has them take part in a batch.
  Tokens form(std::uint64_t batch, std::uint32_t max_penalized_tokens) {
    BatchLimits limits = kWide;
    limits.max_penalized_tokens = max_penalized_tokens;
    const auto shares = form_batch(candidates, limits);
    for (const BatchShare& share : shares) {
      candidates[share.candidate].last_batch = batch;
      sequences[share.candidate].submitted(share.step);
      sequences[share.candidate].completed(share.step);
    }
    return tokens_of(shares, candidates.size());
  }
};

TEST_CASE("batch_former: lists that do not fit together go one after the other, in turns") {
  Listed crowd({6, 6, 6});
  CHECK(crowd.form(1, 10) == Tokens{1, 0, 0});
  CHECK(crowd.form(2, 10) == Tokens{0, 1, 0});
  CHECK(crowd.form(3, 10) == Tokens{0, 0, 1});
  CHECK(crowd.form(4, 10) == Tokens{1, 0, 0});
}

TEST_CASE("batch_former: those without lists are in every batch, and short lists beside long ones") {
  Listed crowd({8, 0, 8, 2});
  CHECK(crowd.form(1, 10) == Tokens{1, 1, 0, 1});
  CHECK(crowd.form(2, 10) == Tokens{0, 1, 1, 1});
  CHECK(crowd.form(3, 10) == Tokens{1, 1, 0, 1});
}

TEST_CASE("batch_former: lists that fit exactly go together") {
  Listed crowd({4, 6});
  CHECK(crowd.form(1, 10) == Tokens{1, 1});
}

TEST_CASE("batch_former: whoever is alone goes, whatever the limit says") {
  Listed crowd({11});
  CHECK(crowd.form(1, 10) == Tokens{1});
  CHECK(crowd.form(2, 0) == Tokens{1});
}

TEST_CASE("batch_former: a prompt goes on until it would draw, and that waits for its turn") {
  Listed crowd({6});
  crowd.sequences.push_back(prompt_of(5));
  crowd.candidates = with_room(crowd.sequences);
  crowd.candidates[0] = {
      .progress = &crowd.sequences[0], .page_capacity = kPlenty, .num_penalized_tokens = 6, .last_batch = 1};
  crowd.candidates[1].num_penalized_tokens = 6;
  crowd.candidates[1].last_batch = 1;
  BatchLimits limits = kWide;
  limits.max_penalized_tokens = 10;
  limits.prefill_chunk = 4;
  CHECK(tokens_of(form_batch(crowd.candidates, limits), 2) == Tokens{1, 4});
  limits.prefill_chunk = 5;
  CHECK(tokens_of(form_batch(crowd.candidates, limits), 2) == Tokens{1, 0});
  crowd.candidates[0].last_batch = 2;
  CHECK(tokens_of(form_batch(crowd.candidates, limits), 2) == Tokens{0, 5});
}

TEST_CASE("batch_former: holes are filled although the token behind them has to wait") {
  Listed crowd({6});
  crowd.sequences.push_back(prompt_of(20));
  crowd.sequences[1].start(16, {{.begin = 0, .end = 4}});
  crowd.candidates = with_room(crowd.sequences);
  for (BatchCandidate& candidate : crowd.candidates) candidate.num_penalized_tokens = 6;
  BatchLimits limits = kWide;
  limits.max_penalized_tokens = 10;
  const auto shares = form_batch(crowd.candidates, limits);
  REQUIRE(shares.size() == 2);
  CHECK(shares[1].step == SequenceStep{.num_tokens = 4, .context_length = 0, .fills_hole = true});
}

// Of all sets that fit: the one with the first in turn, if any has it, of these the
// ones with the second, and so on.
std::vector<bool> best_set(const std::vector<std::uint32_t>& lengths, std::uint32_t limit) {
  std::vector<bool> best;
  for (std::uint32_t set = 0; set < 1U << lengths.size(); ++set) {
    std::vector<bool> chosen(lengths.size());
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      chosen[i] = (set >> i & 1U) != 0;
      sum += chosen[i] ? lengths[i] : 0;
    }
    if (sum <= limit && chosen > best) best = chosen;
  }
  return best;
}

TEST_CASE("batch_former: of all sets of lists that fit it takes the first in turn") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    RandomCrowd crowd(seed, 6, 9);
    for (BatchCandidate& candidate : crowd.candidates) {
      candidate.num_penalized_tokens = crowd.pick(7);
      candidate.last_batch = crowd.pick(4);
    }
    const auto all = form_batch(crowd.candidates, crowd.limits);
    crowd.limits.max_penalized_tokens = 6 + crowd.pick(12);
    std::vector<BatchShare> drawing;
    for (const BatchShare& share : all)
      if (share.step.sample) drawing.push_back(share);
    std::stable_sort(drawing.begin(), drawing.end(), [&](const auto& a, const auto& b) {
      return crowd.candidates[a.candidate].last_batch < crowd.candidates[b.candidate].last_batch;
    });
    std::vector<std::uint32_t> lengths;
    for (const BatchShare& share : drawing)
      lengths.push_back(crowd.candidates[share.candidate].num_penalized_tokens);
    const auto chosen = best_set(lengths, crowd.limits.max_penalized_tokens);
    Tokens expected = tokens_of(all, crowd.candidates.size());
    for (std::size_t i = 0; i < drawing.size(); ++i)
      if (!chosen[i]) expected[drawing[i].candidate] = 0;
    CAPTURE(seed);
    REQUIRE(tokens_of(form_batch(crowd.candidates, crowd.limits), crowd.candidates.size()) == expected);
  }
}

// Sequences come and go, their lists grow with every token.
class LivingCrowd {
 public:
  explicit LivingCrowd(std::uint64_t seed) : random_(seed) {
    const std::uint32_t num_places = 2 + pick(6);
    limits_ = {.max_tokens = num_places + pick(8),
               .max_sequences = num_places,
               .prefill_chunk = 1 + pick(6),
               .max_penalized_tokens = kLongest - 1};
    members_.resize(num_places);
    for (Member& member : members_) member = begin();
  }

  // Checks what was formed.
  void step() {
    std::vector<BatchCandidate> candidates;
    for (const Member& member : members_)
      candidates.push_back({.progress = &member.progress,
                            .page_capacity = kPlenty,
                            .num_penalized_tokens = member.list_length(),
                            .last_batch = member.last_batch});
    BatchLimits free = limits_;
    free.max_penalized_tokens = kWide.max_penalized_tokens;
    const auto wanted = form_batch(candidates, free);
    auto shares = form_batch(candidates, limits_);
    const std::uint64_t batch = ++last_batch_;
    std::uint32_t num_listed = 0;
    for (const BatchShare& share : shares) {
      Member& member = members_[share.candidate];
      num_listed += share.step.sample ? member.list_length() : 0;
      member.progress.submitted(share.step);
      member.last_batch = batch;
      member.num_left_out = 0;
    }
    REQUIRE(num_listed <= limits_.max_penalized_tokens);
    REQUIRE(wanted.empty() == shares.empty());
    for (const BatchShare& share : wanted)
      if (members_[share.candidate].last_batch != batch)
        REQUIRE(++members_[share.candidate].num_left_out < members_.size());
    in_flight_.push_back(std::move(shares));
    if (in_flight_.size() == 2) complete();
    for (Member& member : members_)
      if (member.progress.is_at_limit() && member.progress.num_in_flight() == 0) member = begin();
  }

  std::uint64_t num_ended() const { return num_begun_ - members_.size(); }

 private:
  static constexpr std::uint32_t kLongest = 40;  // tokens

  struct Member {
    SequenceProgress progress;
    bool is_penalized = false;
    std::uint64_t last_batch = 0;
    std::uint32_t num_left_out = 0;  // batches in a row

    std::uint32_t list_length() const { return is_penalized ? progress.num_known() : 0; }
  };

  std::uint32_t pick(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }

  Member begin() {
    num_begun_ += 1;
    const std::uint32_t num_prompt = 1 + pick(kLongest - 1);
    return {.progress = {num_prompt, num_prompt + 1 + pick(kLongest - num_prompt)},
            .is_penalized = pick(4) != 0,
            .last_batch = last_batch_};
  }

  void complete() {
    for (const BatchShare& share : in_flight_.front())
      members_[share.candidate].progress.completed(share.step);
    in_flight_.pop_front();
  }

  std::mt19937_64 random_;
  BatchLimits limits_;
  std::vector<Member> members_;
  std::deque<std::vector<BatchShare>> in_flight_;
  std::uint64_t last_batch_ = 0;
  std::uint64_t num_begun_ = 0;
};

TEST_CASE("batch_former: nobody starves for a list, whoever comes and goes") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    LivingCrowd crowd(seed);
    for (int i = 0; i < 500; ++i) crowd.step();
    CHECK(crowd.num_ended() > 5);
  }
}

TEST_CASE("batch_former: a prompt that is scored goes on with the rows that the others leave") {
  std::vector<SequenceProgress> sequences{prompt_of(9), decoding(), prompt_of(9), prompt_of(9)};
  sequences[0].score_known();
  sequences[2].score_known();
  const BatchLimits limits{.max_tokens = 100, .max_sequences = 6, .prefill_chunk = 100};
  CHECK(formed(sequences, limits) == Tokens{3, 1, 1, 9});
  const BatchLimits tight{.max_tokens = 100, .max_sequences = 4, .prefill_chunk = 100};
  CHECK(formed(sequences, tight) == Tokens{1, 1, 1, 9});
}

TEST_CASE("batch_former: there are never more rows of logits than sequences") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    RandomCrowd crowd(seed, 8, 20);
    for (SequenceProgress& progress : crowd.sequences)
      if (progress.num_in_flight() == 0 && crowd.pick(2) == 0) {
        progress = prompt_of(1 + crowd.pick(12));
        progress.score_known();
      }
    for (BatchCandidate& candidate : crowd.candidates) candidate.page_capacity = kPlenty;
    std::uint32_t num_rows = 0;
    for (const BatchShare& share : form_batch(crowd.candidates, crowd.limits)) {
      num_rows += share.step.scores ? share.step.num_tokens : share.step.sample ? 1 : 0;
      CHECK_FALSE((share.step.scores && share.step.sample));
    }
    CAPTURE(seed);
    REQUIRE(num_rows <= crowd.limits.max_sequences);
  }
}

TEST_CASE("batch_former: sources are read whole, in order of arrival, apart from answers") {
  std::vector<SequenceProgress> sequences;
  for (const std::uint32_t num_tokens : {6, 9, 3}) {
    sequences.push_back(prompt_of(num_tokens + 1));
    sequences.back().begin_with_source(num_tokens);
  }
  sequences.push_back(decoding());
  const auto candidates = with_room(sequences);
  BatchLimits limits = kWide;
  CHECK(tokens_of(form_batch(candidates, limits), 4) == Tokens{0, 0, 0, 1});
  CHECK(tokens_of(form_source_batch(candidates, limits), 4) == Tokens{6, 9, 3, 0});
  limits.prefill_chunk = 2;  // of prompts that may be cut
  limits.max_tokens = 15;
  CHECK(tokens_of(form_source_batch(candidates, limits), 4) == Tokens{6, 9, 0, 0});
  limits.max_tokens = 14;  // the short one does not overtake
  CHECK(tokens_of(form_source_batch(candidates, limits), 4) == Tokens{6, 0, 0, 0});
  limits.max_sequences = 1;
  CHECK(form_source_batch(candidates, limits).size() == 1);
}

}  // namespace
}  // namespace troupe
