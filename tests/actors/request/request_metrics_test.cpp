// SPDX-License-Identifier: Apache-2.0
// What the actors record of a request, in virtual time, where a
// message takes a microsecond.
#include "actors/request.hpp"

#include <doctest/doctest.h>

#include "tests/actors/recording_sink.hpp"
#include "tests/actors/world.hpp"

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kBatchTime{10};

sim::SimSettings timed_settings() {
  auto settings = sim::small_settings();
  settings.device.batch_time = kBatchTime;
  return settings;
}

double refused(const sim::SimWorld& world, const std::string& reason) {
  return world.metric("troupe_requests_refused_total{model_name=\"simulation\",reason=\"" + reason + "\"}");
}

double ended(const sim::SimWorld& world, const std::string& reason) {
  return world.metric("troupe_requests_total{finished_reason=\"" + reason + "\",model_name=\"simulation\"}");
}

TEST_CASE("request metrics: the parts of a request's time add up") {
  sim::SimWorld world(timed_settings());
  submit(world, letters("hello", 5));
  REQUIRE(world.run());
  const auto sum = [&](const std::string& name) { return world.metric("troupe_" + name + "_seconds_sum"); };
  const auto about = [](double seconds) { return doctest::Approx(seconds).epsilon(0.005); };
  // One batch for the prompt, which gives the first token, and one for each other token.
  CHECK(sum("request_prefill_time") == about(0.01));
  CHECK(sum("request_decode_time") == about(0.04));
  CHECK(sum("request_inference_time") == about(0.05));
  CHECK(sum("time_to_first_token") == about(sum("request_queue_time") + 0.01));
  CHECK(sum("e2e_request_latency") == about(sum("request_queue_time") + 0.05));
  CHECK(sum("inter_token_latency") == about(0.04));
  CHECK(sum("time_per_output_token") == about(0.01));
  CHECK(sum("normalized_latency") == about(sum("e2e_request_latency") / 5));
  CHECK(world.metric("troupe_inter_token_latency_seconds_count") == 4);
}

TEST_CASE("request metrics: who waits for a slot has a queue time and no longer prefill") {
  auto settings = timed_settings();
  settings.options.serving.max_batch_sequences = 1;
  sim::SimWorld world(settings);
  submit(world, letters("hello", 5, 1));
  submit(world, letters("world", 5, 2));
  REQUIRE(world.run());
  CHECK(world.metric("troupe_request_queue_time_seconds_sum") >= 0.05);
  CHECK(world.metric("troupe_request_prefill_time_seconds_sum") == doctest::Approx(0.02).epsilon(0.3));
}

TEST_CASE("request metrics: prompt tokens are computed or cached, and asked lengths are kept") {
  sim::SimWorld world(sim::small_settings());
  submit(world, letters(std::string(41, 'x') + "one", 5));
  REQUIRE(world.run());
  submit(world, letters(std::string(41, 'x') + "two", 7));
  REQUIRE(world.run());
  CHECK(world.metric("troupe_prompt_tokens_total") == 88);
  CHECK(world.metric("troupe_cached_prompt_tokens_total") == 41);
  CHECK(world.metric("troupe_computed_prompt_tokens_total") == 47);
  CHECK(world.metric("troupe_request_prompt_tokens_sum") == 88);
  CHECK(world.metric("troupe_request_generation_tokens_sum") == 12);
  CHECK(world.metric("troupe_request_params_max_tokens_sum") == 12);
  CHECK(world.metric("troupe_request_params_n_count") == 2);
  CHECK(world.metric("troupe_recomputed_tokens_total") == 0);
}

TEST_CASE("request metrics: every token of a batch is one of prefill or of decode") {
  sim::SimWorld world(sim::small_settings());
  submit(world, letters("hello", 5));
  REQUIRE(world.run());
  const auto tokens = [&](const std::string& phase) {
    return world.metric("troupe_batch_tokens_total{model_name=\"simulation\",phase=\"" + phase + "\"}");
  };
  CHECK(tokens("prefill") == 5);
  CHECK(tokens("decode") == 4);
  CHECK(world.metric("troupe_iteration_tokens_sum") == 9);
  CHECK(world.metric("troupe_batches_in_flight") == 0);
}

TEST_CASE("request metrics: what a preemption throws away is counted when it is computed again") {
  auto settings = sim::small_settings();
  settings.device.description.num_pages = 20;
  settings.options.serving.cache_policy = EvictionPolicy::kNone;  // nothing of it is found again
  sim::SimWorld world(settings);
  for (int i = 0; i < 8; ++i) submit(world, letters("hello", 60, i));
  REQUIRE(world.run());
  REQUIRE(world.metric("troupe_num_preemptions_total") > 0);
  CHECK(world.metric("troupe_recomputed_tokens_total") >= world.metric("troupe_num_preemptions_total"));
  CHECK(world.metric("troupe_generation_tokens_total") == 8 * 60);
}

TEST_CASE("request metrics: cached pages that give way are counted") {
  sim::SimWorld world(sim::small_settings());  // 64 pages of 4 tokens
  for (char letter = 'a'; letter < 'i'; ++letter) {
    submit(world, letters(std::string(40, letter), 5));
    REQUIRE(world.run());
  }
  CHECK(world.metric("troupe_kv_pages_evicted_total") > 0);
  CHECK(world.metric("troupe_kv_page_tokens") == 4);
  CHECK(world.metric("troupe_kv_pages_capacity") == 64);
}

TEST_CASE("request metrics: overload, too long and waited too long are different reasons") {
  auto settings = timed_settings();
  settings.options.serving.max_batch_sequences = 1;
  settings.options.serving.max_waiting = 2;
  settings.options.serving.max_queue_time = std::chrono::milliseconds(500);
  sim::SimWorld world(settings);
  submit(world, letters("hello", 100));
  world.settle();
  for (int i = 0; i < 4; ++i) world.engine().submit(letters("hello", 5), std::make_shared<RecordingSink>());
  world.settle();
  CHECK(refused(world, "overload") == 2);
  world.engine().submit(letters(std::string(5000, 'x'), 5), std::make_shared<RecordingSink>());
  REQUIRE(world.run());
  CHECK(refused(world, "queue_time") == 2);
  CHECK(ended(world, "length") == 1);
  CHECK(ended(world, "error") == 0);
}

}  // namespace
}  // namespace troupe
