// SPDX-License-Identifier: Apache-2.0
// S3's experiment in small: what is set aside for answers decides how many run at once.
#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "loadgen/simulator/simulator.hpp"
#include "loadgen/workload/random_source.hpp"
#include "tests/loadgen/simulator/simulated_traffic.hpp"

using namespace troupe;
using namespace troupe::loadgen;

namespace reservations_test {
namespace {

// Two applications, told apart by the beginnings of their prompts: answers of 8 tokens
// and of 80. All ask for 400.
std::vector<PlannedConversation> two_applications(int num_requests) {
  std::vector<PlannedConversation> conversations;
  for (int i = 0; i < num_requests; ++i) {
    const bool is_long = i % 4 == 0;
    conversations.push_back(lone_request({}, 10, is_long ? 80 : 8));
    conversations.back().prefix = {{.id = is_long ? 1U : 2U, .num_tokens = 32}};
  }
  return conversations;
}

CostProfile small_profile(ReservationPolicy reservation, AdmissionOrder order) {
  CostProfile profile = plain_profile();
  profile.serving.num_pages = 64;  // of 16 tokens: two answers of 400
  profile.serving.settings.max_batch_sequences = 32;
  profile.serving.settings.max_queue_time = std::chrono::hours(1);
  profile.serving.settings.reservation = reservation;
  profile.serving.settings.admission_order = order;
  return profile;
}

Simulation play(ReservationPolicy reservation, AdmissionOrder order = AdmissionOrder::kArrival) {
  RequestClass asks_for_more;
  asks_for_more.asked_tokens = 400;
  ListedConversations source(two_applications(400));
  return simulate(small_profile(reservation, order), source, {asks_for_more}, {});
}

// Answers of 4 to 400 tokens, of which prompts tell nothing; all ask for 400.
std::vector<PlannedConversation> any_lengths(int num_requests) {
  std::vector<PlannedConversation> conversations;
  RandomSource random(7, RandomStream::kOutputTokens, 0);
  for (int i = 0; i < num_requests; ++i) {
    const double logarithm = std::log(4) + random.uniform() * std::log(99);
    conversations.push_back(lone_request({}, 10, static_cast<std::uint32_t>(std::exp(logarithm))));
  }
  return conversations;
}

Simulation play_with_states(std::vector<PlannedConversation> conversations,
                            std::optional<double> state_strength) {
  RequestClass asks_for_more;
  asks_for_more.asked_tokens = 400;
  ListedConversations source(std::move(conversations));
  return simulate(small_profile(ReservationPolicy::kPredicted, AdmissionOrder::kArrival), source,
                  {asks_for_more}, {.state_strength = state_strength});
}

Simulation play_with_vectors(std::vector<PlannedConversation> conversations,
                             std::optional<double> encoder_strength) {
  RequestClass asks_for_more;
  asks_for_more.asked_tokens = 400;
  ListedConversations source(std::move(conversations));
  return simulate(small_profile(ReservationPolicy::kPredicted, AdmissionOrder::kShortestFirst), source,
                  {asks_for_more}, {.encoder_strength = encoder_strength});
}

double seconds(const Simulation& simulation) {
  return std::chrono::duration<double>(simulation.result.duration).count();
}

double mean_latency(const Simulation& simulation) {
  double sum = 0;
  for (const RequestRecord& record : simulation.result.records)
    sum += std::chrono::duration<double>(record.finished - record.intended).count();
  return sum / static_cast<double>(simulation.result.records.size());
}

}  // namespace

TEST_CASE("simulated reservations: every answer is as long as planned, whatever it asks for") {
  using enum ReservationPolicy;
  for (const auto policy : {kOnDemand, kMax, kHistory, kPredicted, kOracle}) {
    const Simulation simulation = play(policy);
    REQUIRE(simulation.result.records.size() == 400);
    for (const RequestRecord& record : simulation.result.records) {
      CHECK(record.outcome == Outcome::kCompleted);
      CHECK(record.output_tokens == (record.conversation % 4 == 0 ? 80 : 8));
    }
  }
}

TEST_CASE(
    "simulated reservations: what is predicted runs in less time than max, what is known in less still") {
  const Simulation most = play(ReservationPolicy::kMax), predicted = play(ReservationPolicy::kPredicted);
  const Simulation oracle = play(ReservationPolicy::kOracle);
  CHECK(seconds(most) > 1.3 * seconds(predicted));
  CHECK(seconds(oracle) < seconds(predicted));
  CHECK(most.totals.num_preemptions == 0);
  CHECK(predicted.totals.num_preemptions <= 400);  // at most once each
}

TEST_CASE(
    "simulated reservations: where states tell lengths, heads learn them, beat the rest, and are used") {
  const Simulation simulation = play_with_states(any_lengths(2000), 0.9);
  REQUIRE(simulation.predictors.size() == 1);
  const LengthPredictor& predictor = simulation.predictors.front();
  const ForecastAccuracy& accuracy = predictor.accuracy();
  CHECK(predictor.stage() == LengthStage::kState);
  CHECK(predictor.num_states_learnt() > 1000);
  CHECK(accuracy.mean_loss(LengthStage::kState) < 0.7 * accuracy.mean_loss(LengthStage::kBeginning));
  CHECK(accuracy.tau(LengthStage::kState) > 0.6);
  CHECK(predictor.uses_looks());
  CHECK(accuracy.looks().loss < 0.8 * accuracy.looks().standing_loss);
  CHECK(simulation.totals.num_refined > 100);
  CHECK(simulation.totals.num_shrunk > 100);
  const Simulation without = play_with_states(any_lengths(2000), std::nullopt);
  CHECK(without.predictors.front().num_states_learnt() == 0);
  CHECK(without.totals.num_refined == 0);
  CHECK(simulation.totals.num_preemptions < without.totals.num_preemptions);
  CHECK(seconds(simulation) < 1.1 * seconds(without));
}

// A look knows how many tokens have come, too, and may be used for that.
TEST_CASE(
    "simulated reservations: states that are noise are learnt from, are no stage, and cost next to nothing") {
  const Simulation simulation = play_with_states(two_applications(1200), 0.0);
  const LengthPredictor& predictor = simulation.predictors.front();
  CHECK(predictor.num_states_learnt() > 1000);
  CHECK(predictor.num_looks_learnt() > 200);
  CHECK(predictor.stage() == LengthStage::kBeginning);
  const JudgedLooks& looks = predictor.accuracy().looks();
  CHECK(looks.loss <= 1.05 * looks.standing_loss);
  const Simulation without = play_with_states(two_applications(1200), std::nullopt);
  CHECK(seconds(simulation) < 1.05 * seconds(without));
}

TEST_CASE("simulated reservations: where vectors of prompts that wait tell lengths, the shortest is found") {
  const Simulation simulation = play_with_vectors(any_lengths(2000), 0.9);
  const LengthPredictor& predictor = simulation.predictors.front();
  const ForecastAccuracy& accuracy = predictor.accuracy();
  CHECK(predictor.stage() == LengthStage::kEncoder);
  CHECK(predictor.num_vectors_learnt() > 1000);
  CHECK(accuracy.mean_loss(LengthStage::kEncoder) < 0.7 * accuracy.mean_loss(LengthStage::kBeginning));
  const Simulation without = play_with_vectors(any_lengths(2000), std::nullopt);
  CHECK(without.predictors.front().num_vectors_learnt() == 0);
  CHECK(mean_latency(simulation) < 0.9 * mean_latency(without));
  CHECK_THROWS(play_with_vectors(any_lengths(3), -0.5));
}

TEST_CASE("simulated reservations: vectors that are noise are no stage, and cost next to nothing") {
  const Simulation simulation = play_with_vectors(two_applications(1200), 0.0);
  const LengthPredictor& predictor = simulation.predictors.front();
  CHECK(predictor.num_vectors_learnt() > 1000);
  CHECK(predictor.stage() == LengthStage::kBeginning);
  const Simulation without = play_with_vectors(two_applications(1200), std::nullopt);
  CHECK(seconds(simulation) < 1.05 * seconds(without));
}

TEST_CASE("simulated reservations: with states, equal seeds give equal results") {
  const Simulation one = play_with_states(any_lengths(300), 0.8),
                   same = play_with_states(any_lengths(300), 0.8);
  CHECK(one.num_events == same.num_events);
  CHECK(one.result.duration == same.result.duration);
  CHECK(one.predictors.front().encode(1) == same.predictors.front().encode(1));
  CHECK_THROWS(play_with_states(any_lengths(3), 1.5));
}

TEST_CASE(
    "simulated reservations: less is set aside where pages come back from the host than where they don't") {
  const auto quantile = [](std::uint32_t num_host_pages) {
    RequestClass asks_for_more;
    asks_for_more.asked_tokens = 400;
    CostProfile profile = small_profile(ReservationPolicy::kPredicted, AdmissionOrder::kArrival);
    profile.serving.num_host_pages = num_host_pages;
    profile.serving.settings.cache_policy = EvictionPolicy::kValue;
    // Prompts are dear: a batch's tokens beyond those that 32 answers draw take 2 ms each.
    profile.iteration = {.fixed = 1e6, .knots = {1, 33}, .slopes = {1e4, 2e6}};
    ListedConversations source(any_lengths(1500));
    return simulate(profile, source, {asks_for_more}, {}).predictors.front().quantile();
  };
  const double from_host = quantile(1000), computed_anew = quantile(0);
  MESSAGE("quantiles: " << from_host << " from the host, " << computed_anew << " computed anew");
  CHECK(from_host < 0.3);
  CHECK(computed_anew > from_host + 0.1);
}

TEST_CASE("simulated reservations: the shortest first have the shorter mean latency") {
  const Simulation arrival = play(ReservationPolicy::kPredicted);
  const Simulation shortest = play(ReservationPolicy::kPredicted, AdmissionOrder::kShortestFirst);
  CHECK(mean_latency(shortest) < mean_latency(arrival));
}

}  // namespace reservations_test
