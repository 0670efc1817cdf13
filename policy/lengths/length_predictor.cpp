// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/length_predictor.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "policy/lengths/reservation.hpp"

namespace troupe {
namespace {

using Stage = LengthPredictor::Stage;

constexpr std::uint64_t kPrime = 0x9E3779B97F4A7C15U;

// Keys are kept in a file: the same in every process.
std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * kPrime;
  return hash ^ (hash >> 29U);
}

std::array<std::uint64_t, LengthPredictor::kNumKeys> keys_of(const LengthQuestion& question) {
  std::uint64_t tenant = mixed(1, question.tenant.size());
  for (const char letter : question.tenant) tenant = mixed(tenant, static_cast<unsigned char>(letter));
  std::uint64_t beginning = mixed(tenant, 2);
  const std::size_t num_tokens = std::min(question.prompt.size(), LengthPredictor::kBeginningTokens);
  for (const std::int32_t token : question.prompt.first(num_tokens))
    beginning = mixed(beginning, static_cast<std::uint32_t>(token));
  return {0, tenant, beginning};
}

constexpr std::size_t place_of(Stage stage) { return static_cast<std::size_t>(stage); }

}  // namespace

LengthPredictor::LengthPredictor(double quantile)
    : quantile_(quantile),
      calibration_(quantile_.value()),
      reading_(quantile_.value()),
      at_prefill_(quantile_.value()),
      running_(quantile_.value()),
      accuracy_(quantile_.value()) {}

LengthGuess LengthPredictor::foresee(std::uint64_t answer, const LengthQuestion& question) {
  const std::uint32_t most = std::max(1U, question.max_tokens);
  Awaited awaited{.keys = keys_of(question),
                  .max_tokens = most,
                  .prompt_tokens = static_cast<std::uint32_t>(question.prompt.size())};
  num_questions_ += 1;
  LengthGuess guess{.reserved = most, .likely = most};
  for (std::size_t i = 0; i < kNumKeys; ++i) {
    const auto found = known_.find(awaited.keys[i]);
    if (found != known_.end()) found->second.last_used = num_questions_;
    if (found != known_.end() && found->second.lengths.size() >= kFewLengths)
      guess = {.reserved = std::clamp(found->second.lengths.quantile(quantile()), 1U, most),
               .likely = std::clamp(found->second.lengths.quantile(kLikely), 1U, most)};
    awaited.guesses[i] = guess;
  }
  const LengthGuess& used = awaited.guesses[place_of(best_of(kNumKeys))];
  awaited.at_arrival = calibration_.apply(used.reserved, most);
  awaited.likely = used.likely;
  const auto before = awaited_.find(answer);
  if (before != awaited_.end()) {
    run_on(answer, before->second, 0);
    awaited.vector = std::move(before->second.vector);
  }
  guess_by_vector(awaited);
  const LengthGuess result{.reserved = awaited.reserved_waiting(), .likely = awaited.likely};
  if (before != awaited_.end() || awaited_.size() < kMostAwaited)
    awaited_.insert_or_assign(answer, std::move(awaited));
  return result;
}

// As the stage before, where there is no vector or the head knows too little.
void LengthPredictor::guess_by_vector(Awaited& awaited) const {
  LengthGuess& guess = awaited.guesses[place_of(Stage::kEncoder)];
  guess = awaited.guesses[place_of(Stage::kBeginning)];
  if (!awaited.vector.empty() && reading_.hazards.num_learnt() >= kFewStates) {
    const LengthBelief belief = reading_.hazards.belief(awaited.vector);
    guess = {.reserved = std::clamp(belief.quantile(quantile()), 1U, awaited.max_tokens),
             .likely = std::clamp(belief.quantile(kLikely), 1U, awaited.max_tokens)};
    awaited.by_vector = reading_.calibration.apply(guess.reserved, awaited.max_tokens);
    awaited.is_read = !awaited.runs() && best_of(kNumKeys + 1) == Stage::kEncoder;
    if (awaited.is_read) awaited.likely = guess.likely;
  }
  if (awaited.at_prefill.reserved == 0) awaited.guesses[place_of(Stage::kState)] = guess;
}

std::optional<LengthGuess> LengthPredictor::read(std::uint64_t answer, std::span<const float> vector) {
  if (!lacks_vector(answer)) return std::nullopt;
  Awaited& awaited = awaited_.find(answer)->second;
  auto features =
      reading_.features.take(vector, {.prompt = awaited.prompt_tokens, .most = awaited.max_tokens});
  if (!features) return std::nullopt;
  awaited.vector = *std::move(features);
  guess_by_vector(awaited);
  if (!awaited.is_read) return std::nullopt;
  return LengthGuess{.reserved = awaited.by_vector.reserved, .likely = awaited.likely};
}

bool LengthPredictor::lacks_vector(std::uint64_t answer) const {
  const auto found = awaited_.find(answer);
  return found != awaited_.end() && found->second.vector.empty();
}

// The head learns of every state, and is asked from the first ones on: so is it judged.
std::optional<LengthGuess> LengthPredictor::refine(std::uint64_t answer, std::span<const float> state) {
  const auto found = awaited_.find(answer);
  if (found == awaited_.end()) return std::nullopt;
  Awaited& awaited = found->second;
  const std::uint32_t most = awaited.max_tokens;
  auto features = at_prefill_.features.take(state, {.prompt = awaited.prompt_tokens, .most = most});
  if (!features) return std::nullopt;
  awaited.features = *std::move(features);
  if (at_prefill_.hazards.num_learnt() < kFewStates) return std::nullopt;
  awaited.belief = at_prefill_.hazards.belief(awaited.features);
  const LengthGuess guess{.reserved = std::clamp(awaited.belief->quantile(quantile()), 1U, most),
                          .likely = std::clamp(awaited.belief->quantile(kLikely), 1U, most)};
  awaited.guesses[place_of(Stage::kState)] = guess;
  awaited.at_prefill = at_prefill_.calibration.apply(guess.reserved, most);
  awaited.is_refined = stage() == Stage::kState;
  if (!awaited.is_refined) return std::nullopt;
  awaited.likely = guess.likely;
  return LengthGuess{.reserved = std::max(awaited.reserved_waiting(), awaited.at_prefill.reserved),
                     .likely = guess.likely};
}

std::optional<LengthGuess> LengthPredictor::look(std::uint64_t answer, std::span<const float> state,
                                                 const LookPlace& place) {
  const auto found = awaited_.find(answer);
  if (found == awaited_.end()) return std::nullopt;
  Awaited& awaited = found->second;
  const std::uint32_t num_generated = place.num_generated;
  if (num_generated >= awaited.max_tokens) return std::nullopt;
  const RunningHead::Sight sight{.state = state,
                                 .sizes = {.prompt = awaited.prompt_tokens,
                                           .most = awaited.max_tokens - num_generated,
                                           .generated = num_generated},
                                 .standing = awaited.standing(place)};
  const auto rest = running_.look(awaited.looks, sight, awaited.belief ? &*awaited.belief : nullptr);
  if (!rest || !uses_looks()) return std::nullopt;
  return LengthGuess{.reserved = num_generated + rest->reserved, .likely = num_generated + rest->likely};
}

// As the supervisor of reservations doubles it, a page ahead of its end.
std::uint32_t LengthPredictor::Awaited::standing(const LookPlace& place) const {
  ForeseenLength length{.max_tokens = max_tokens};
  length.reserve(std::max(reserved_waiting(), reserved()), place.page_size);
  while (place.num_generated >= length.report_at)
    length.reserve(doubled_reservation({.reserved = length.reserved, .max_tokens = max_tokens}),
                   place.page_size);
  return length.reserved;
}

void LengthPredictor::note_running(std::uint64_t answer, std::uint32_t num_generated) {
  const auto found = awaited_.find(answer);
  if (found == awaited_.end() || num_generated <= found->second.num_running) return;
  Awaited& awaited = found->second;
  teach(awaited, {.id = answer,
                  .length = {.num_tokens = num_generated, .is_whole = false},
                  .told = awaited.num_running,
                  .runs = true});
  running_.learn_running(answer, awaited.looks, num_generated);
  run_on(answer, awaited, num_generated);
}

// The heads that have seen something of it.
void LengthPredictor::teach(const Awaited& awaited, const HazardHead::Answer& seen) {
  if (!awaited.vector.empty()) reading_.hazards.learn(awaited.vector, seen);
  if (!awaited.features.empty()) at_prefill_.hazards.learn(awaited.features, seen);
}

// 0: no longer.
void LengthPredictor::run_on(std::uint64_t answer, Awaited& awaited, std::uint32_t num_tokens) {
  for (const std::uint64_t key : awaited.keys) {
    if (num_tokens > 0) {
      known_of(key).lengths.run(answer, num_tokens);
    } else if (const auto found = known_.find(key); found != known_.end()) {
      found->second.lengths.run(answer, 0);
    }
  }
  awaited.num_running = num_tokens;
}

void LengthPredictor::learn(std::uint64_t answer, SeenLength length, const ReservationCosts& costs) {
  const auto found = awaited_.find(answer);
  if (found == awaited_.end()) return;
  Awaited awaited = std::move(found->second);
  awaited_.erase(found);
  const std::uint32_t told = awaited.num_running;
  run_on(answer, awaited, 0);
  if (length.num_tokens == 0 && !length.is_whole) return;  // it never began
  num_learnt_ += 1;
  aim(awaited, length, costs);
  judge(answer, awaited, length);
  for (const std::uint64_t key : awaited.keys) known_of(key).lengths.add(length);
  teach(awaited, {.id = answer, .length = length, .told = told});
}

// The quantile learns from the last reservation before the answer ran: what looks have changed since is
// judged by what they knew.
void LengthPredictor::aim(const Awaited& awaited, SeenLength length, const ReservationCosts& costs) {
  const std::uint32_t reserved = awaited.reserved();
  quantile_.observe(costs, length.num_tokens > reserved ? length.num_tokens - reserved : 0);
  calibration_.aim_at(quantile());
  reading_.calibration.aim_at(quantile());
  at_prefill_.calibration.aim_at(quantile());
  running_.aim_at(quantile());
  accuracy_.aim_at(quantile());
}

// An answer that reached max_tokens could not have taken more: its length is known.
void LengthPredictor::judge(std::uint64_t answer, const Awaited& awaited, SeenLength length) {
  const SeenLength known{.num_tokens = length.num_tokens,
                         .is_whole = length.is_whole || length.num_tokens >= awaited.max_tokens};
  const JudgedLooks looks = running_.learn(answer, awaited.looks, known, length);
  if (const auto has_fitted = fits(awaited.at_arrival.reserved, known))
    calibration_.learn(awaited.at_arrival, *has_fitted);
  if (awaited.by_vector.reserved > 0)
    if (const auto has_fitted = fits(awaited.by_vector.reserved, known))
      reading_.calibration.learn(awaited.by_vector, *has_fitted);
  if (awaited.at_prefill.reserved > 0)
    if (const auto has_fitted = fits(awaited.at_prefill.reserved, known))
      at_prefill_.calibration.learn(awaited.at_prefill, *has_fitted);
  accuracy_.add({.length = known,
                 .guesses = awaited.guesses,
                 .reserved = awaited.reserved(),
                 .has_fitted = fits(awaited.reserved(), known),
                 .likely = awaited.likely,
                 .looks = looks});
}

// Made, if it is new.
LengthPredictor::Known& LengthPredictor::known_of(std::uint64_t key) {
  if (known_.size() >= kMostKeys && !known_.contains(key)) {
    const auto oldest = std::min_element(known_.begin(), known_.end(), [](const auto& a, const auto& b) {
      return a.second.last_used < b.second.last_used;
    });
    known_.erase(oldest);
  }
  Known& known = known_[key];
  known.last_used = std::max(known.last_used, num_questions_);
  return known;
}

// The vectors of another encoder stand for other lengths. A guess by state that is the same was the
// encoder's, as no state had come.
void LengthPredictor::forget_encoder() {
  reading_ = StateHead(quantile());
  ForecastAccuracy accuracy(accuracy_.quantile());
  for (JudgedAnswer judged : accuracy_.answers()) {
    const LengthGuess forgotten = judged.guesses[place_of(Stage::kEncoder)];
    for (const Stage stage : {Stage::kEncoder, Stage::kState}) {
      LengthGuess& guess = judged.guesses[place_of(stage)];
      if (guess.reserved == forgotten.reserved && guess.likely == forgotten.likely)
        guess = judged.guesses[place_of(Stage::kBeginning)];
    }
    accuracy.add(judged);
  }
  accuracy_ = std::move(accuracy);
}

Stage LengthPredictor::stage() const { return best_of(kNumStages); }

Stage LengthPredictor::best_of(std::size_t num_stages) const {
  std::size_t best = 0;
  for (std::size_t i = 1; i < num_stages; ++i)
    if (accuracy_.mean_loss(static_cast<Stage>(i)) < accuracy_.mean_loss(static_cast<Stage>(best))) best = i;
  return static_cast<Stage>(best);
}

bool LengthPredictor::uses_looks() const {
  const JudgedLooks& looks = accuracy_.looks();
  return looks.num >= kFewLooks && looks.loss < looks.standing_loss;
}

}  // namespace troupe
