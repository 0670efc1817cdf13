// SPDX-License-Identifier: Apache-2.0
// S3's experiment in small: what is set aside for answers decides how many run at once.
#include <doctest/doctest.h>

#include "loadgen/simulator/simulator.hpp"
#include "tests/loadgen/simulator/simulated_traffic.hpp"

using namespace troupe;
using namespace troupe::loadgen;

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

Simulation play(ReservationPolicy reservation, AdmissionOrder order = AdmissionOrder::kArrival) {
  CostProfile profile = plain_profile();
  profile.serving.num_pages = 64;  // of 16 tokens: two answers of 400
  profile.serving.settings.max_batch_sequences = 32;
  profile.serving.settings.max_queue_time = std::chrono::hours(1);
  profile.serving.settings.reservation = reservation;
  profile.serving.settings.admission_order = order;
  RequestClass asks_for_more;
  asks_for_more.asked_tokens = 400;
  ListedConversations source(two_applications(400));
  return simulate(profile, source, {asks_for_more}, {});
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

TEST_CASE("simulated reservations: the shortest first have the shorter mean latency") {
  const Simulation arrival = play(ReservationPolicy::kPredicted);
  const Simulation shortest = play(ReservationPolicy::kPredicted, AdmissionOrder::kShortestFirst);
  CHECK(mean_latency(shortest) < mean_latency(arrival));
}
