// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/small_worlds.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "tests/support/sanitizers.hpp"

using namespace troupe;

namespace {

// TROUPE_STATES=10000000 explores so many, by hand.
ExploreLimits limits_of(std::size_t max_states) {
  const char* const wanted = std::getenv("TROUPE_STATES");
  return {.max_states = wanted ? std::stoull(wanted) : max_states};
}

// Beginnings in common, inside a page too; the last one needs a whole device.
std::vector<SmallRequest> three_requests() {
  return {{.prompt = {1, 2, 3}, .max_tokens = 3, .flow = "a", .ends_early = true},
          {.prompt = {1, 2, 3, 4}, .max_tokens = 2, .flow = "a"},
          {.prompt = {1, 2, 3, 4, 5}, .max_tokens = 3, .flow = "b"}};
}

using std::chrono::microseconds;

const SmallModel kChat{}, kEncoder{.kind = ModelKind::kEmbedding};
const SmallModel kTranslator{
    .source = SourceRule{.source_end = 9, .answer_begins = {5}, .max_source = 4, .max_answer = 8}};
const SmallModel kCells{.unfolding = UnfoldingRule{}};
const SmallModel kCellTranslator{
    .unfolding = UnfoldingRule{.kind = UnfoldingKind::kEncodeDecode, .decoder_start = 5, .attends = true}};
const SmallModel kTrees{.kind = ModelKind::kEmbedding,
                        .unfolding = UnfoldingRule{.kind = UnfoldingKind::kTree, .max_children = 2}};

// Two chats of model 0 and two inputs of model 1, which fit into one batch.
std::vector<SmallRequest> chats_and_inputs() {
  return {{.prompt = {1, 2, 3}, .max_tokens = 2, .flow = "a"},
          {.prompt = {1, 2, 3, 4, 5}, .max_tokens = 2, .flow = "b"},
          {.prompt = {7, 8}, .flow = "a", .model = 1},
          {.prompt = {9, 10, 11}, .flow = "b", .model = 1}};
}

// The same source twice, and a longer one that begins like it.
std::vector<SmallRequest> three_sources() {
  return {{.prompt = {1, 2}, .max_tokens = 3, .flow = "a", .ends_early = true},
          {.prompt = {1, 2}, .max_tokens = 2, .flow = "b"},
          {.prompt = {1, 2, 3}, .max_tokens = 2, .flow = "a"}};
}

enum class Extent { kUpToTheLimit, kWhole };

void expect_no_violation(const SmallWorldSettings& settings, std::size_t max_states,
                         Extent extent = Extent::kUpToTheLimit) {
  const ExploreLimits limits =
      limits_of(extent == Extent::kWhole ? max_states : test::fewer_if_sanitized(max_states));
  const Exploration found = explore(settings, limits);
  MESSAGE(settings.name << ": " << found.report());
  CHECK(found.violation.empty());
  if (extent == Extent::kWhole) CHECK(found.is_whole);
  CHECK(found.num_compared > 0);
}

}  // namespace

TEST_CASE("small worlds: without misfortunes every order of events ends well") {
  expect_no_violation({.name = "no misfortunes", .sizes = {}, .requests = three_requests(), .budget = {}},
                      100'000);
}

TEST_CASE("small worlds: two requests on a worker that dies, each order wholly") {
  const std::vector<SmallRequest> two{{.prompt = {1, 2, 3}, .max_tokens = 2, .flow = "a"},
                                      {.prompt = {1, 2, 3, 4, 5}, .max_tokens = 3, .flow = "b"}};
  expect_no_violation({.name = "two requests",
                       .sizes = {.num_workers = 1},
                       .requests = two,
                       .budget = {.deaths = 1, .cancels = 1, .pauses = 1}},
                      300'000, Extent::kWhole);
}

TEST_CASE("small worlds: deaths, cancels and pauses of two workers break no invariant") {
  expect_no_violation(
      {.name = "two workers",
       .sizes = {},
       .requests = three_requests(),
       .budget = {.deaths = 2, .cancels = 1, .pauses = 1, .damaged_loads = 1, .long_waits = 1, .forgets = 1}},
      100'000);
}

TEST_CASE("small worlds: memory set aside for answers breaks no invariant, however wrong it is") {
  SmallWorldSettings settings{.name = "longest answers are reserved",
                              .sizes = {.num_workers = 1},
                              .requests = three_requests(),
                              .budget = {.deaths = 1, .cancels = 1, .pauses = 1},
                              .reservation = ReservationPolicy::kMax};
  expect_no_violation(settings, 20'000);
  settings.name = "one token is reserved, the shortest first";
  settings.reservation = ReservationPolicy::kPredicted;
  settings.admission_order = AdmissionOrder::kShortestFirst;
  expect_no_violation(settings, 20'000);
}

TEST_CASE("small worlds: guided requests draw ahead of their masks, which come in time, late or for nobody") {
  const std::vector<SmallRequest> requests{
      {.prompt = {1, 2, 3}, .max_tokens = 4, .flow = "a", .ends_early = true, .is_guided = true},
      {.prompt = {1, 2, 3, 4}, .max_tokens = 2, .flow = "a"},
      {.prompt = {1, 2}, .max_tokens = 3, .flow = "b", .is_guided = true}};
  SmallWorldSettings settings{.name = "a guided request alone",
                              .sizes = {.num_workers = 1},
                              .requests = {requests[0]},
                              .budget = {.deaths = 1, .cancels = 1, .pauses = 1, .late_masks = 3},
                              .waits_for_masks = true};
  expect_no_violation(settings, 100'000, Extent::kWhole);
  settings.name = "guided requests on a worker that waits for masks";
  settings.requests = requests;
  expect_no_violation(settings, 60'000);
  settings.name = "guided requests on two workers that wait for masks";
  settings.sizes = {};
  settings.budget = {.deaths = 2, .cancels = 1, .pauses = 1, .damaged_loads = 1, .late_masks = 2};
  expect_no_violation(settings, 60'000);
}

TEST_CASE("small worlds: guided requests on workers that do not wait for masks") {
  expect_no_violation({.name = "masks first",
                       .sizes = {},
                       .requests = {{.prompt = {1, 2, 3}, .max_tokens = 3, .flow = "a", .is_guided = true},
                                    {.prompt = {1, 2, 3, 4}, .max_tokens = 2, .flow = "a"}},
                       .budget = {.deaths = 1, .cancels = 1, .pauses = 1, .long_waits = 1}},
                      40'000);
}

TEST_CASE(
    "small worlds: free tokens are drawn ahead, and what is behind the last of them counts for nothing") {
  SmallWorldSettings settings{
      .name = "free tokens, one of them drawn again, on workers that do not wait for masks",
      .sizes = {},
      .requests = {{.prompt = {kStrays, 2}, .max_tokens = 5, .flow = "a", .is_guided = true, .last_free = 2},
                   {.prompt = {1, 2, 3, 4}, .max_tokens = 2, .flow = "a"}},
      .budget = {.deaths = 1, .cancels = 1, .pauses = 1}};
  expect_no_violation(settings, 40'000);
  settings.name = "the same on one that waits";
  settings.sizes = {.num_workers = 1};
  settings.budget = {.deaths = 1, .cancels = 1, .pauses = 1, .late_masks = 2};
  settings.waits_for_masks = true;
  expect_no_violation(settings, 40'000);
}

TEST_CASE("small worlds: a slow disk that fails breaks no invariant") {
  expect_no_violation(
      {.name = "disk",
       .sizes = {.num_workers = 1, .num_host_pages = 3, .num_disk_pages = 4},
       .requests = three_requests(),
       .budget =
           {.deaths = 1, .cancels = 1, .pauses = 1, .damaged_loads = 1, .failed_transfers = 1, .forgets = 1}},
      100'000);
}

TEST_CASE("small worlds: a chat model and an encoder on two workers that die and hang") {
  expect_no_violation({.name = "chat model and encoder",
                       .sizes = {},
                       .requests = chats_and_inputs(),
                       .budget = {.deaths = 2, .cancels = 1, .pauses = 1, .long_waits = 1, .hangs = 1},
                       .models = {kChat, kEncoder}},
                      60'000);
}

TEST_CASE("small worlds: a chat model and an encoder on a worker that dies three times") {
  expect_no_violation({.name = "three deaths",
                       .sizes = {.num_workers = 1, .num_host_pages = 0},
                       .requests = {{.prompt = {1, 2, 3}, .max_tokens = 1, .flow = "a"},
                                    {.prompt = {7, 8}, .flow = "a", .model = 1},
                                    {.prompt = {9, 10, 11}, .flow = "b", .model = 1}},
                       .budget = {.deaths = 3},
                       .models = {kChat, kEncoder}},
                      60'000);
}

TEST_CASE("small worlds: two chat models on two workers, each with pages of its own") {
  expect_no_violation({.name = "two chat models",
                       .sizes = {},
                       .requests = {{.prompt = {1, 2, 3}, .max_tokens = 2, .flow = "a"},
                                    {.prompt = {1, 2, 3, 4}, .max_tokens = 2, .flow = "b"},
                                    {.prompt = {1, 2, 3}, .max_tokens = 2, .flow = "a", .model = 1},
                                    {.prompt = {1, 2, 3, 4}, .max_tokens = 2, .flow = "b", .model = 1}},
                       .budget = {.deaths = 2, .cancels = 1, .pauses = 1, .hangs = 1},
                       .models = {kChat, kChat}},
                      60'000);
}

TEST_CASE("small worlds: an encoder alone, each order wholly") {
  expect_no_violation({.name = "encoder",
                       .sizes = {.num_host_pages = 0},
                       .requests = {{.prompt = {7, 8}, .flow = "a"}, {.prompt = {9, 10, 11}, .flow = "b"}},
                       .budget = {.deaths = 2, .cancels = 1},
                       .models = {kEncoder}},
                      100'000, Extent::kWhole);
}

TEST_CASE("small worlds: an encoder-decoder on a worker that dies, each order wholly") {
  auto requests = three_sources();
  requests.erase(requests.begin());
  expect_no_violation({.name = "two sources",
                       .sizes = {.num_workers = 1},
                       .requests = requests,
                       .budget = {.deaths = 1, .cancels = 1, .pauses = 1},
                       .models = {kTranslator}},
                      300'000, Extent::kWhole);
}

TEST_CASE("small worlds: an encoder-decoder on two workers that die, with loads that fail") {
  expect_no_violation(
      {.name = "three sources",
       .sizes = {},
       .requests = three_sources(),
       .budget = {.deaths = 2, .cancels = 1, .pauses = 1, .damaged_loads = 1, .long_waits = 1},
       .models = {kTranslator}},
      40'000);
}

TEST_CASE("small worlds: an encoder-decoder beside a chat model, on workers that die and hang") {
  expect_no_violation({.name = "encoder-decoder and chat model",
                       .sizes = {.num_host_pages = 2},
                       .requests = {{.prompt = {1, 2}, .max_tokens = 2, .flow = "a"},
                                    {.prompt = {1, 2}, .max_tokens = 2, .flow = "b"},
                                    {.prompt = {1, 2, 3}, .max_tokens = 2, .flow = "a", .model = 1}},
                       .budget = {.deaths = 2, .cancels = 1, .pauses = 1, .hangs = 1},
                       .models = {kTranslator, kChat}},
                      40'000);
}

TEST_CASE("small worlds: recurrent cells on a worker that dies, each order wholly") {
  expect_no_violation({.name = "recurrent cells",
                       .sizes = {.num_workers = 1},
                       .requests = {{.prompt = {1, 2}, .max_tokens = 3, .flow = "a", .ends_early = true},
                                    {.prompt = {1, 2, 3}, .max_tokens = 2, .flow = "b"}},
                       .budget = {.deaths = 1, .cancels = 1, .pauses = 1},
                       .models = {kCells}},
                      300'000, Extent::kWhole);
}

TEST_CASE("small worlds: recurrent encoders and decoders that want more rows than there are") {
  expect_no_violation({.name = "recurrent encoder and decoder",
                       .sizes = {.num_slots = 3},
                       .requests = three_sources(),
                       .budget = {.deaths = 2, .cancels = 1, .pauses = 1, .long_waits = 1, .hangs = 1},
                       .models = {kCellTranslator}},
                      40'000);
}

TEST_CASE("small worlds: trees on two workers that die") {
  expect_no_violation({.name = "trees",
                       .sizes = {.num_slots = 3},
                       .requests = {{.prompt = {1, 2, 3}, .flow = "a"},
                                    {.prompt = {1, 2, 3, 4}, .flow = "b"},
                                    {.prompt = {7}, .flow = "a"}},
                       .budget = {.deaths = 2, .cancels = 1, .hangs = 1},
                       .models = {kTrees}},
                      40'000);
}

TEST_CASE("small worlds: recurrent cells beside a chat model and an encoder") {
  expect_no_violation({.name = "cells, chat model and encoder",
                       .sizes = {.num_host_pages = 0},
                       .requests = {{.prompt = {1, 2, 3}, .max_tokens = 2, .flow = "a"},
                                    {.prompt = {1, 2}, .max_tokens = 3, .flow = "b"},
                                    {.prompt = {1, 2}, .max_tokens = 2, .flow = "a", .model = 1},
                                    {.prompt = {7, 8}, .flow = "b", .model = 2}},
                       .budget = {.deaths = 2, .cancels = 1, .pauses = 1},
                       .models = {kCells, kChat, kEncoder}},
                      40'000);
}

TEST_CASE("small worlds: a graph or a source that kills workers is found, and no other one is blamed") {
  for (const SmallModel& model : {kTranslator, kCellTranslator}) {
    auto requests = three_sources();
    requests[1].kills = true;
    expect_no_violation({.name = model.source ? "a source that kills" : "a graph that kills",
                         .sizes = {.num_slots = 3, .num_host_pages = 0},
                         .requests = requests,
                         .budget = {.cancels = 1},
                         .models = {model}},
                        20'000);
  }
}

TEST_CASE(
    "small worlds: a request that kills workers is found, whichever model's, and no other one is blamed") {
  for (const bool is_input : {false, true}) {
    auto requests = chats_and_inputs();
    requests[is_input ? 2 : 0].kills = true;
    requests.erase(requests.begin() + 1);
    expect_no_violation({.name = is_input ? "an input that kills" : "a chat that kills",
                         .sizes = {.num_host_pages = 0},
                         .requests = requests,
                         .budget = {.cancels = 1},
                         .models = {kChat, kEncoder}},
                        60'000);
  }
}

TEST_CASE("small worlds: models take turns by time, and streams wait for one batch of inputs at most") {
  std::vector<SmallRequest> requests{{.prompt = {1, 2, 3}, .max_tokens = 12, .flow = "a"}};
  for (std::int32_t i = 0; i < 6; ++i)
    requests.push_back({.prompt = {i, 1, 2, 3, 4, 5, 6, 7}, .flow = "a", .model = 1});
  expect_no_violation(
      {.name = "turns",
       .sizes = {.num_workers = 1, .num_slots = 1, .num_device_pages = 10, .num_host_pages = 0},
       .requests = requests,
       .budget = {.deaths = 1, .cancels = 1},
       .models = {{.batch_time = microseconds(100)},
                  {.kind = ModelKind::kEmbedding, .batch_time = microseconds(150)}},
       .itl_factor = 2.5},
      60'000);
}

// A request that only waited for its load left its last page in the tree as if it were
// computed. The load failed, and whatever found that page lost its context, for ever.
TEST_CASE("small worlds: a request that leaves while its load fails leaves nothing that others find") {
  using enum SmallAction::Kind;
  SmallWorld world({.name = "failed load",
                    .sizes = {.num_workers = 1, .num_host_pages = 3, .num_disk_pages = 4},
                    .requests = three_requests(),
                    .budget = {.deaths = 1, .cancels = 1, .pauses = 1, .damaged_loads = 1}});
  for (const SmallAction action : std::vector<SmallAction>{{kStart, 0},
                                                           {kArrive, 0},
                                                           {kRun, 0},
                                                           {kRun, 0},
                                                           {kArrive, 1},
                                                           {kPause, 1},
                                                           {kRun, 0},
                                                           {kRun, 0},
                                                           {kRun, 0},
                                                           {kArrive, 2},
                                                           {kDie, 0},
                                                           {kStart, 0},
                                                           {kCancel, 2},
                                                           {kRunDamaged, 0},
                                                           {kResume, 1}}) {
    const auto possible = world.actions();  // a damaged load only where a batch has one
    REQUIRE(std::find(possible.begin(), possible.end(), action) != possible.end());
    world.act(action);
  }
  world.drain();
  CHECK(world.violation() == "");
  CHECK(world.has_ended());
}

TEST_CASE("small worlds: a device that drops a copy is found out by a wrong token, in few steps") {
  const Exploration found = explore({.name = "drops copies",
                                     .sizes = {.num_workers = 1},
                                     .requests = three_requests(),
                                     .budget = {},
                                     .defect = SmallMachine::Defect::kDropsCopiesWithin},
                                    {.max_states = 100'000, .drain_every = 0});
  MESSAGE(found.report());
  CHECK_FALSE(found.violation.empty());
  CHECK(found.path.size() < 12);
}

TEST_CASE("small worlds: a device that loses rows of state is found out by what reads them, in few steps") {
  const Exploration found = explore({.name = "loses rows",
                                     .sizes = {.num_workers = 1},
                                     .requests = three_sources(),
                                     .budget = {},
                                     .models = {kCellTranslator},
                                     .defect = SmallMachine::Defect::kLosesRows},
                                    {.max_states = 10'000, .drain_every = 0});
  MESSAGE(found.report());
  CHECK(found.violation == "sequence 1 reads a row that was never written");
  CHECK(found.path.size() < 6);
}

TEST_CASE("small worlds: a device that says nothing is found out by a request that never ends") {
  const Exploration found = explore({.name = "never reports",
                                     .sizes = {.num_workers = 1},
                                     .requests = three_requests(),
                                     .budget = {},
                                     .defect = SmallMachine::Defect::kNeverReports},
                                    {.max_states = 1000, .drain_every = 1});
  CHECK(found.violation == "request 0 never ends, though nothing more goes wrong");
  CHECK(found.path.back().kind == SmallAction::kTick);
}
