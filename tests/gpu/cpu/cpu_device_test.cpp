// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/cpu_device.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include "gpu/program/mask_slot.hpp"
#include "tests/gpu/generation.hpp"
#include "tests/gpu/tiny_model.hpp"
#include "tests/support/eventually.hpp"

namespace troupe {

TEST_CASE("cpu device: it describes itself") {
  const CpuDevice device(tiny_model());
  const auto& description = device.description();
  CHECK(description.name.find("cpu (2 threads") == 0);
  CHECK(description.page_size == 32);
  CHECK(description.num_pages == 64);
  CHECK(description.num_slots == 8);
  CHECK(description.context_length == 256);
  CHECK(description.vocabulary_size == 100);
}

TEST_CASE("cpu device: a batch that does not fit fails alone") {
  CpuDevice device(tiny_model());
  ProgramCache programs = make_programs();
  const auto expected = run(device, programs, good_batch());
  REQUIRE(expected.error.empty());
  struct Case {
    void (*spoil)(Batch&);
    const char* reason;
  };
  const Case cases[] = {
      {[](Batch& b) { b.token_ids[1] = 100; }, "token id 100 is outside the vocabulary of 100"},
      {[](Batch& b) { b.token_ids[1] = -1; }, "outside the vocabulary"},
      {[](Batch& b) { b.token_ids.push_back(1); }, "advance 3 tokens, the batch has 4"},
      {[](Batch& b) { b.slices[0].num_tokens = 0; }, "without tokens"},
      {[](Batch& b) { b.slices[0].slot = 8; }, "slot 8 does not exist"},
      {[](Batch& b) { b.slices[0].context_length = 254; }, "257 tokens, at most 256"},
      {[](Batch& b) { b.slices[0].context_length = 4294967295U; }, "at most 256"},
      {[](Batch& b) { b.slices[0].num_pages = 0; }, "pages do not hold"},
      {[](Batch& b) { b.slices[0].num_pages = 3; }, "pages do not hold"},
      {[](Batch& b) { b.slices[0].first_page = 4294967295U; }, "pages do not hold"},
      {[](Batch& b) { b.slices[0].context_length = 62; }, "pages do not hold"},
      {[](Batch& b) { b.page_table[1] = 64; }, "page 64 does not exist"},
      {[](Batch& b) { b.slices[0].input_from_slot = true; }, "input comes from the slot"},
      {[](Batch& b) { b.slices[0].num_pending = 9; }, "9 tokens are pending, at most 8"},
      {[](Batch& b) {
         b.token_ids.resize(65);
         b.slices[0].num_tokens = 65;
       },
       "does not fit its"},
  };
  for (const auto& [spoil, reason] : cases) {
    CAPTURE(reason);
    Batch bad = good_batch();
    spoil(bad);
    const auto result = run(device, programs, bad);
    CHECK(result.error.find(reason) != std::string::npos);
    CHECK(result.batch_id == 5);
    CHECK(run(device, programs, good_batch()).tokens == expected.tokens);
  }
}

TEST_CASE("cpu device: penalties are the same however many batches are in flight") {
  CpuDevice device(tiny_model());
  ProgramCache programs = make_programs();
  std::vector<DirectRequest> requests;
  for (std::uint32_t i = 0; i < 6; ++i) {
    requests.push_back({.prompt = {3, 4, 5, 3},
                        .num_new = 40,
                        .sampling = {.temperature = i % 2 == 0 ? 0.0F : 0.7F,
                                     .seed = i,
                                     .repetition_penalty = i % 3 == 0 ? 1.0F : 1.1F,
                                     .frequency_penalty = i < 4 ? 0.4F : 0.0F,
                                     .presence_penalty = i < 3 ? 0.0F : 0.2F},
                        .first_iteration = i});
  }
  const auto expected = generate(device, programs, requests);
  for (const std::uint32_t in_flight : {2U, 5U}) {
    for (const std::uint32_t seed : {1U, 2U}) {
      CHECK(generate(device, programs, requests, {.seed = seed, .shuffle = true, .in_flight = in_flight}) ==
            expected);
    }
  }
  auto without = requests;
  for (auto& request : without) {
    request.sampling.repetition_penalty = 1.0F;
    request.sampling.frequency_penalty = request.sampling.presence_penalty = 0.0F;
  }
  CHECK(generate(device, programs, without) != expected);
}

TEST_CASE(
    "cpu device: states are handed out to slices that want one, and change no bit of what is computed") {
  CapturedLogits captured;
  CpuDevice device(tiny_model(), {.on_logits = capture_logits(captured), .poison_memory = true});
  REQUIRE(device.description().hands_out_states);
  ProgramCache programs = make_programs();
  Batch batch = good_batch();
  batch.slices.push_back(batch.slices[0]);
  batch.slices[1].sequence = 43;
  batch.slices[1].slot = 1;
  batch.slices[1].first_page = 2;
  batch.page_table.insert(batch.page_table.end(), {8, 9});
  batch.token_ids.insert(batch.token_ids.end(), {7, 8, 9});
  const auto without = run(device, programs, batch);
  REQUIRE(without.error.empty());
  CHECK(without.states.empty());
  const CapturedLogits expected = std::exchange(captured, {});
  batch.slices[0].wants_state = batch.slices[1].wants_state = true;
  const auto both = run(device, programs, batch);
  CHECK(both.tokens == without.tokens);
  CHECK(captured == expected);
  const std::size_t width = tiny_llama().hidden_size;
  REQUIRE(both.states.size() == 2 * width);
  for (const float number : both.states) CHECK(std::isfinite(number));
  batch.slices[0].wants_state = false;
  const auto second = run(device, programs, batch);
  CHECK(second.states ==
        std::vector<float>(both.states.begin() + static_cast<std::ptrdiff_t>(width), both.states.end()));
  Batch alone = good_batch();
  alone.slices[0].wants_state = true;
  CHECK(run(device, programs, alone).states ==
        std::vector<float>(both.states.begin(), both.states.begin() + static_cast<std::ptrdiff_t>(width)));
}

TEST_CASE("cpu device: log-probabilities are there for the slices that ask") {
  CapturedLogits captured;
  CpuDevice device(tiny_model(), {.on_logits = capture_logits(captured)});
  ProgramCache programs = make_programs();
  CHECK(run(device, programs, good_batch()).logprobs.empty());
  captured.clear();
  Batch batch = good_batch();
  batch.slices.push_back(batch.slices[0]);
  batch.slices[1].sequence = 43;
  batch.slices[1].slot = 1;
  batch.slices[1].first_page = 2;
  batch.slices[1].sampling.top_logprobs = 2;
  batch.token_ids = {3, 4, 5, 9, 8, 7};
  batch.page_table = {0, 1, 2, 3};
  const auto result = run(device, programs, batch);
  REQUIRE(result.logprobs.size() == 2);
  CHECK(result.logprobs[0].top.empty());
  REQUIRE(result.logprobs[1].top.size() == 2);
  CHECK(result.logprobs[1].top[0].id == result.tokens[1]);  // it was the arg max
  CHECK(result.logprobs[1].top[0].logprob == result.logprobs[1].logprob);
  const auto& logits = captured[43].at(0);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(double{logit});
  const double expected = logits[static_cast<std::size_t>(result.tokens[1])] - std::log(sum);
  CHECK(result.logprobs[1].logprob == doctest::Approx(expected).epsilon(1e-6));
}

// Against the logits behind each beginning of the prompt.
TEST_CASE("cpu device: a prompt is scored token by token, and the slot knows what was drawn") {
  const std::vector<std::int32_t> prompt = {3, 14, 15, 92, 65, 35, 89};
  ProgramCache programs = make_programs();
  CapturedLogits captured;
  std::vector<std::vector<std::int32_t>> plain;
  {
    CpuDevice device(tiny_model(), {.on_logits = capture_logits(captured)});
    std::vector<DirectRequest> beginnings;
    for (std::size_t i = 1; i <= prompt.size(); ++i)
      beginnings.push_back({.prompt = {prompt.begin(), prompt.begin() + static_cast<int>(i)}, .num_new = 2});
    plain = generate(device, programs, beginnings);
  }
  CpuDevice device(tiny_model());
  const auto batch = std::make_shared<Batch>(scoring_batch(prompt, device.description().page_size, 3));
  const auto program = programs.find(batch->cell, batch->num_tokens(), batch->num_output_rows());
  const auto result = wait_for(device, device.submit(program, batch));
  REQUIRE(result.error == "");
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    const auto& logits = captured[i].at(0);
    double sum = 0.0;
    for (const float logit : logits) sum += std::exp(double{logit});
    const std::int32_t next = i + 1 < prompt.size() ? prompt[i + 1] : plain.back().at(0);
    CHECK(result.tokens[i] == next);
    CHECK(result.logprobs[i].logprob ==
          doctest::Approx(logits[static_cast<std::size_t>(next)] - std::log(sum)).epsilon(1e-5));
    REQUIRE(result.logprobs[i].top.size() == 3);
    CHECK(result.logprobs[i].top[0].id == plain[i].at(0));
  }
  Batch next{.id = 2, .slices = {batch->slices.back()}, .token_ids = {0}, .page_table = {0}};
  next.slices[0].context_length = static_cast<std::uint32_t>(prompt.size());
  next.slices[0].input_from_slot = true;
  const auto drawn = wait_for(device, device.submit(programs.find(0, 1, 1), std::make_shared<Batch>(next)));
  CHECK(drawn.tokens.at(0) == plain.back().at(1));
}

TEST_CASE("cpu device: a program of another network is refused, not run") {
  CpuDevice device(tiny_model());
  ModelConfig other = tiny_llama();
  other.num_layers = 3;
  ProgramCache programs(make_network(other), tiny_model()->compute_type, {64, 8});
  CHECK(run(device, programs, good_batch()).error.find("is not on this device") != std::string::npos);
}

TEST_CASE("cpu device: a failed batch voids its slot, and only that sequence") {
  CpuDevice device(tiny_model());
  ProgramCache programs = make_programs();
  Batch first = good_batch();
  Batch other = good_batch();
  other.slices[0].slot = 1;
  other.page_table = {2, 3};
  REQUIRE(run(device, programs, first).error.empty());
  const auto other_token = run(device, programs, other).tokens[0];
  Batch failing = good_batch();
  failing.token_ids[0] = 1000;
  REQUIRE_FALSE(run(device, programs, failing).error.empty());

  Batch next{.id = 9, .slices = {}, .token_ids = {0, 0}, .page_table = {0, 1, 2, 3}};
  next.slices.push_back(first.slices[0]);
  next.slices.push_back(other.slices[0]);
  for (auto& slice : next.slices) {
    slice.num_tokens = 1;
    slice.context_length = 3;
    slice.input_from_slot = true;
  }
  next.slices[1].first_page = 2;
  const auto result = run(device, programs, next);
  CHECK(result.error.empty());
  CHECK(result.tokens[0] == -1);

  Batch known = other;
  known.token_ids = {other_token};
  known.slices[0].num_tokens = 1;
  known.slices[0].context_length = 3;
  CHECK(run(device, programs, known).tokens[0] == result.tokens[1]);
}

TEST_CASE("cpu device: many batches in flight complete in order, with one call each") {
  CpuDevice device(tiny_model());
  ProgramCache programs = make_programs();
  std::atomic<int> calls{0};
  std::atomic<bool> moved_before_call{true};
  device.set_listener([&] {
    const int call = calls.fetch_add(1) + 1;
    if (device.completed() < static_cast<Ticket>(call)) moved_before_call = false;
  });
  const auto program = programs.find(0, 64, 8);
  constexpr Ticket kNumBatches = 300;
  for (Ticket i = 1; i <= kNumBatches; ++i) {
    Batch batch = good_batch();
    batch.id = i;
    if (i % 10 == 0) batch.token_ids[0] = -5;
    CHECK(device.submit(program, std::make_shared<Batch>(batch)) == i);
  }
  std::int32_t token = -2;
  for (Ticket i = 1; i <= kNumBatches; ++i) {
    const auto result = wait_for(device, i);
    CHECK(result.batch_id == i);
    CHECK(result.error.empty() == (i % 10 != 0));
    if (!result.error.empty()) continue;
    CHECK(result.network_nanoseconds > 0);
    if (token == -2) token = result.tokens[0];
    CHECK(result.tokens[0] == token);
  }
  CHECK(test::eventually([&] { return calls.load() == static_cast<int>(kNumBatches); }));
  device.set_listener({});
  CHECK(moved_before_call.load());
}

TEST_CASE("cpu device: a batch with slices, but without a program, fails alone") {
  CpuDevice device(tiny_model());
  const auto with_slices = std::make_shared<Batch>(good_batch());
  const auto result = wait_for(device, device.submit(nullptr, with_slices));
  CHECK(result.error.find("no program") != std::string::npos);
  auto tokens_only = std::make_shared<Batch>();
  tokens_only->token_ids = {1};
  CHECK(wait_for(device, device.submit(nullptr, tokens_only)).error.find("advance 0 tokens") !=
        std::string::npos);
}

TEST_CASE("cpu device: tickets are collected once, in order") {
  CpuDevice device(tiny_model());
  ProgramCache programs = make_programs();
  CHECK_THROWS_AS(device.collect(1), std::logic_error);
  run(device, programs, good_batch());
  CHECK_THROWS_AS(device.collect(1), std::logic_error);
  CHECK_THROWS_AS(device.collect(3), std::logic_error);
}

TEST_CASE("cpu device: it can go at any moment, and the next one gives the same tokens") {
  ProgramCache programs = make_programs();
  const auto program = programs.find(0, 64, 8);
  std::int32_t token = -2;
  std::mt19937 random(4);
  for (int round = 0; round < 20; ++round) {
    CpuDevice device(tiny_model(), {.poison_memory = true});
    device.set_listener([] {});
    const auto result = run(device, programs, good_batch());
    if (token == -2) token = result.tokens[0];
    CHECK(result.tokens[0] == token);
    for (unsigned n = random() % 20; n > 0; --n) {
      device.submit(program, std::make_shared<Batch>(good_batch()));
    }
    std::this_thread::sleep_for(std::chrono::microseconds{random() % 300});
  }
}

TEST_CASE("cpu device: the same seed and position draw the same token again") {
  CpuDevice device(tiny_model());
  ProgramCache programs = make_programs();
  DirectRequest request{.prompt = {1, 2, 3}, .num_new = 40, .sampling = {.temperature = 1.2F, .seed = 99}};
  const auto whole = generate(device, programs, {request})[0];
  DirectRequest resumed = request;
  resumed.prompt.insert(resumed.prompt.end(), whole.begin(), whole.begin() + 15);
  resumed.num_new = 25;
  const auto rest = generate(device, programs, {resumed})[0];
  CHECK(std::equal(rest.begin(), rest.end(), whole.begin() + 15, whole.end()));
}

TEST_CASE("cpu device: suppressed tokens are never drawn") {
  CpuDevice device(tiny_model());
  ProgramCache programs = make_programs();
  Batch batch = good_batch();
  std::vector<std::int32_t> suppressed;
  for (int i = 0; i < 99; ++i) {
    const auto token = run(device, programs, batch).tokens[0];
    REQUIRE(token >= 0);
    CHECK(std::find(suppressed.begin(), suppressed.end(), token) == suppressed.end());
    suppressed.push_back(token);
    batch.slices[0].suppressed = suppressed;
  }
}

namespace {

// Every third token, others for each place in the answer.
std::shared_ptr<const TokenMask> third_of_all(std::uint32_t place) {
  TokenMask mask(mask_words(100));
  for (std::uint32_t id = place % 3; id < 100; id += 3) mask[id / 32] |= 1U << (id % 32);
  return std::make_shared<const TokenMask>(std::move(mask));
}

// A token of a sequence in slot 0 from its last draw, whose answer has so many already.
std::shared_ptr<Batch> decode_batch(std::uint32_t place, std::shared_ptr<MaskSlot> slot) {
  auto batch = std::make_shared<Batch>(good_batch());
  SequenceSlice& slice = batch->slices[0];
  slice.num_tokens = 1;
  slice.context_length = 2 + place;
  slice.input_from_slot = true;
  batch->token_ids = {0};
  if (slot) {
    batch->awaited_masks = {std::move(slot)};
  } else {
    slice.allowed = *third_of_all(place);
  }
  return batch;
}

std::shared_ptr<Batch> prompt_batch() {
  auto batch = std::make_shared<Batch>(good_batch());
  batch->slices[0].allowed = *third_of_all(0);
  return batch;
}

// With masks that are known when the batches are formed.
std::vector<std::int32_t> masked_answer(CpuDevice& device, ProgramCache& programs, std::uint32_t num_tokens) {
  std::vector<std::int32_t> tokens{run(device, programs, *prompt_batch()).tokens.at(0)};
  for (std::uint32_t i = 1; i < num_tokens; ++i)
    tokens.push_back(run(device, programs, *decode_batch(i, nullptr)).tokens.at(0));
  return tokens;
}

}  // namespace

TEST_CASE("cpu device: masks that come before a batch runs or while it does draw what known ones draw") {
  CpuDevice device(tiny_model(), {.longest_mask_wait = std::chrono::seconds(30)});
  REQUIRE(device.description().waits_for_masks);
  ProgramCache programs = make_programs();
  constexpr std::uint32_t kNumTokens = 20;
  const auto expected = masked_answer(device, programs, kNumTokens);
  for (const bool is_before : {true, false}) {
    CAPTURE(is_before);
    const auto program = programs.find(0, 64, 8);
    std::vector<Ticket> tickets{device.submit(program, prompt_batch())};
    std::vector<std::shared_ptr<MaskSlot>> slots;
    for (std::uint32_t i = 1; i < kNumTokens; ++i) {
      slots.push_back(std::make_shared<MaskSlot>());
      if (is_before) slots.back()->set(third_of_all(i));
      tickets.push_back(device.submit(program, decode_batch(i, slots.back())));
    }
    std::vector<std::int32_t> tokens;
    for (std::uint32_t i = 0; i < kNumTokens; ++i) {
      tokens.push_back(wait_for(device, tickets[i]).tokens.at(0));
      if (!is_before && i + 1 < kNumTokens) slots[i]->set(third_of_all(i + 1));
    }
    CHECK(tokens == expected);
  }
}

TEST_CASE(
    "cpu device: a mask that never comes leaves its slice undrawn, harms no other, and can be made good") {
  CpuDevice device(tiny_model());
  ProgramCache programs = make_programs();
  const auto expected = masked_answer(device, programs, 3);
  const auto other = run(device, programs, good_batch()).tokens;
  for (const bool is_closed : {true, false}) {
    CAPTURE(is_closed);
    const auto program = programs.find(0, 64, 8);
    const auto first = device.submit(program, prompt_batch());
    const auto slot = std::make_shared<MaskSlot>();
    if (is_closed) slot->close();
    auto batch = decode_batch(1, slot);
    Batch neighbour = good_batch();  // in slot 1, with pages of its own
    neighbour.slices[0].sequence = 43;
    neighbour.slices[0].slot = 1;
    neighbour.slices[0].first_page = 2;
    batch->slices.push_back(neighbour.slices[0]);
    batch->token_ids.insert(batch->token_ids.end(), {3, 4, 5});
    batch->page_table.insert(batch->page_table.end(), {2, 3});
    batch->awaited_masks.push_back(nullptr);
    const auto undrawn = device.submit(program, batch);
    const auto behind = device.submit(program, decode_batch(2, std::make_shared<MaskSlot>()));
    CHECK(wait_for(device, first).tokens.at(0) == expected[0]);
    const BatchResult result = wait_for(device, undrawn);
    CHECK(result.error.empty());
    CHECK(result.tokens == std::vector{kNoMask, other[0]});
    if (!is_closed) CHECK(result.mask_wait_nanoseconds.at(0) >= MaskSlot::kLongestWait.count());
    const BatchResult void_result = wait_for(device, behind);
    CHECK(void_result.tokens == std::vector{-1});
    CHECK(void_result.mask_wait_nanoseconds.at(0) == 0);  // its input was never drawn: nothing is waited for
    // Again, the input known now and the mask with it.
    auto again = decode_batch(1, nullptr);
    again->slices[0].input_from_slot = false;
    again->token_ids = {expected[0]};
    CHECK(run(device, programs, *again).tokens.at(0) == expected[1]);
    CHECK(run(device, programs, *decode_batch(2, nullptr)).tokens.at(0) == expected[2]);
  }
}

}  // namespace troupe
