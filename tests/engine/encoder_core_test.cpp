// SPDX-License-Identifier: Apache-2.0
#include "engine/encoder_core.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace troupe;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace {

constexpr std::uint32_t kLongest = 40, kMaxTokens = 60, kMaxTexts = 5;

// A core over workers that finish a batch when the test says so. A batch takes 1 ms, and 10 us a token
// computed; a text's vector is the sum of its tokens, without padding.
class EncoderWorld {
 public:
  explicit EncoderWorld(ServingSettings serving)
      : core_([&] {
          serving.max_batch_tokens = kMaxTokens;
          serving.max_in_flight = 1;
          return CoreOptions{.serving = serving, .pages = {}};
        }()) {
    start_worker();
  }

  void hand(const Event& event) {
    Commands commands;
    core_.on(event, EncoderCore::TimePoint(now), commands);
    for (const Command& command : commands) {
      if (const auto* output = std::get_if<Emit>(&command)) take(*output);
      if (const auto* batch = std::get_if<SubmitBatch>(&command)) in_flight.push_back(*batch);
      if (const auto* timer = std::get_if<SetTimer>(&command))
        timers.push_back(timer->time.time_since_epoch());
    }
  }
  void start_worker() {
    hand(WorkerReady{.worker = 0,
                     .epoch = ++epoch_,
                     .description = {.name = "encoder",
                                     .num_slots = kMaxTexts,
                                     .max_batch_tokens = kMaxTokens,
                                     .context_length = kLongest,
                                     .vocabulary_size = 1000,
                                     .cells = {{.name = "encoder_pass",
                                                .state = StateKind::kNone,
                                                .result = ResultKind::kVector,
                                                .vector_size = 1}}}});
  }
  void lose_worker() {
    in_flight.clear();
    hand(WorkerLost{.worker = 0, .epoch = epoch_});
    start_worker();
  }
  SequenceId encode(std::uint32_t num_tokens, const std::string& flow = "a") {
    auto ticket = std::make_shared<AdmissionTicket>();
    ticket->sequence = ++last_sequence_;
    ticket->prompt.assign(num_tokens, static_cast<std::int32_t>(1 + last_sequence_ % 7));
    ticket->flow = flow;
    expected_[last_sequence_] =
        static_cast<float>(std::accumulate(ticket->prompt.begin(), ticket->prompt.end(), 0));
    hand(Admit{.ticket = std::move(ticket)});
    return last_sequence_;
  }
  void finish_batch() {
    const SubmitBatch batch = std::move(in_flight.front());
    in_flight.pop_front();
    now += milliseconds(1) + batch.batch->num_tokens() * nanoseconds(10'000);
    BatchDone done{.worker = 0, .epoch = batch.epoch, .result = {}};
    done.result.batch_id = batch.batch_id;
    auto token = batch.batch->token_ids.begin();
    for (const SequenceSlice& slice : batch.batch->slices) {
      done.result.vectors.push_back(
          static_cast<float>(std::accumulate(token, token + (slice.num_tokens - slice.num_padding), 0)));
      token += slice.num_tokens;
    }
    hand(done);
  }
  void finish_all() {
    while (!in_flight.empty()) finish_batch();
  }
  // Lengths of the texts of the batch in flight.
  std::vector<std::uint32_t> batch_lengths() const {
    std::vector<std::uint32_t> lengths;
    for (const SequenceSlice& slice : in_flight.front().batch->slices)
      lengths.push_back(slice.num_tokens - slice.num_padding);
    return lengths;
  }
  // Every text has its own vector, and has had it once.
  bool has_all() const { return answered_ == expected_ && num_answers_ == expected_.size(); }
  const EncoderCore& core() const { return core_; }

  std::deque<SubmitBatch> in_flight;
  std::vector<nanoseconds> timers;
  nanoseconds now{milliseconds(1)};

 private:
  void take(const Emit& command) {
    const auto* encoded = std::get_if<Encoded>(&command.output);
    if (encoded == nullptr) return;
    answered_[command.sequence] = encoded->vector.at(0);
    num_answers_ += 1;
  }

  EncoderCore core_;
  std::map<SequenceId, float> expected_, answered_;
  std::size_t num_answers_ = 0;
  SequenceId last_sequence_ = 0;
  Epoch epoch_ = 0;
};

using Lengths = std::vector<std::uint32_t>;

ServingSettings batching(EncoderBatching arm) { return {.encoder_batching = arm}; }

// One text runs; these wait.
void queue(EncoderWorld& world, const Lengths& lengths) {
  world.encode(1);
  for (const std::uint32_t length : lengths) world.encode(length);
}

}  // namespace

TEST_CASE("encoder core: ragged, a batch has the texts that fit, none of them padded") {
  EncoderWorld world(batching(EncoderBatching::kRagged));
  queue(world, {3, 40, 17, 2});
  world.finish_batch();
  CHECK(world.batch_lengths() == Lengths{3, 40, 17});
  CHECK(world.in_flight.front().batch->num_tokens() == 60);
  world.finish_all();
  CHECK(world.has_all());
}

TEST_CASE("encoder core: padded, a batch computes each text as long as its longest") {
  EncoderWorld world(batching(EncoderBatching::kPadded));
  queue(world, {3, 20, 17, 2});
  world.finish_batch();
  CHECK(world.batch_lengths() == Lengths{3, 20, 17});
  const Batch& batch = *world.in_flight.front().batch;
  CHECK(batch.num_tokens() == 60);
  CHECK(world.in_flight.front().shape.num_tokens == 60);
  CHECK(batch.slices[0].num_padding == 17);
  world.finish_all();
  CHECK(world.has_all());
}

TEST_CASE("encoder core: none, a batch has one text") {
  EncoderWorld world(batching(EncoderBatching::kNone));
  queue(world, {3, 20});
  world.finish_batch();
  CHECK(world.batch_lengths() == Lengths{3});
  world.finish_all();
  CHECK(world.has_all());
}

TEST_CASE("encoder core: dp, short texts do not wait on long ones' padding") {
  EncoderWorld world(batching(EncoderBatching::kDp));
  queue(world, {3, 30, 2, 29, 4});
  world.finish_batch();
  CHECK(world.batch_lengths() == Lengths{2, 3, 4});  // with the oldest text
  CHECK(world.in_flight.front().batch->num_tokens() == 12);
  world.finish_batch();
  CHECK(world.batch_lengths() == Lengths{29, 30});
  world.finish_all();
  CHECK(world.has_all());
}

TEST_CASE("encoder core: dp, what batches take is learnt") {
  EncoderWorld world(batching(EncoderBatching::kDp));
  for (int i = 0; i < 400; ++i) {
    world.encode(8);
    world.finish_all();
  }
  CHECK(world.core().costs().num_learnt() == 400);
  CHECK(world.core().costs()(8, 1) == doctest::Approx(1'080'000).epsilon(0.01));
}

TEST_CASE("encoder core: dp, nobody waits for more than a plan's batches") {
  EncoderWorld world(batching(EncoderBatching::kDp));
  for (int i = 0; i < 400; ++i) world.encode(1 + static_cast<std::uint32_t>(i) % 40);
  const SequenceId last = world.encode(40, "other flow");
  std::size_t num_texts = 0;
  const auto has = [&](const SubmitBatch& batch) {
    return std::any_of(batch.batch->slices.begin(), batch.batch->slices.end(),
                       [last](const SequenceSlice& slice) { return slice.sequence == last; });
  };
  while (!has(world.in_flight.front())) {
    num_texts += world.in_flight.front().batch->slices.size();
    world.finish_batch();
  }
  CHECK(num_texts <= 2 * 4 * kMaxTexts + 1);
}

TEST_CASE("encoder core: whatever the batching, each text gets its vector once") {
  for (const EncoderBatching arm :
       {EncoderBatching::kRagged, EncoderBatching::kPadded, EncoderBatching::kNone, EncoderBatching::kDp}) {
    for (const BatchTrigger trigger : {BatchTrigger::kHungry, BatchTrigger::kLazy}) {
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        CAPTURE(static_cast<int>(arm));
        CAPTURE(static_cast<int>(trigger));
        CAPTURE(seed);
        std::mt19937_64 random(seed);
        EncoderWorld world({.encoder_batching = arm, .encoder_trigger = trigger});
        for (int i = 0; i < 300; ++i) {
          world.encode(1 + static_cast<std::uint32_t>(random() % kLongest), std::to_string(random() % 3));
          if (random() % 3 == 0 && !world.in_flight.empty()) {
            const Batch& batch = *world.in_flight.front().batch;
            CHECK((batch.num_tokens() <= kMaxTokens && batch.slices.size() <= kMaxTexts));
            world.finish_batch();
          }
          // A text that seems to have killed two workers would be given up.
          if (random() % 60 == 0 && !world.core().has_suspects()) world.lose_worker();
        }
        world.finish_all();
        world.now += milliseconds(10);
        world.hand(TimerFired{});
        world.finish_all();
        CHECK(world.has_all());
        CHECK(world.core().num_sequences() == 0);
      }
    }
  }
}

TEST_CASE("encoder core: lazy, a text waits for others until a timer that is set once") {
  EncoderWorld world({.encoder_trigger = BatchTrigger::kLazy, .encoder_timeout = milliseconds(20)});
  world.encode(3);
  const nanoseconds due = world.now + milliseconds(20);
  CHECK(world.timers == std::vector<nanoseconds>{due});
  world.now += milliseconds(7);
  world.encode(4);
  CHECK(world.timers.size() == 1);
  CHECK(world.in_flight.empty());
  world.hand(TimerFired{});  // another model's
  CHECK(world.in_flight.empty());
  world.now = due;
  world.hand(TimerFired{});
  CHECK(world.batch_lengths() == Lengths{3, 4});
}

TEST_CASE("encoder core: lazy, a full batch starts at once") {
  EncoderWorld world({.encoder_trigger = BatchTrigger::kLazy, .encoder_timeout = milliseconds(20)});
  for (std::uint32_t i = 1; i < kMaxTexts; ++i) world.encode(2);
  CHECK(world.in_flight.empty());
  world.encode(2);
  CHECK(world.batch_lengths().size() == kMaxTexts);
}

TEST_CASE("encoder core: lazy, half of the objective is kept for what a batch takes") {
  EncoderWorld world({.encoder_trigger = BatchTrigger::kLazy,
                      .encoder_timeout = milliseconds(20),
                      .encoder_objective = milliseconds(20)});
  world.encode(40);
  CHECK(world.timers.back() == world.now + milliseconds(10));  // what a token takes is not known
  world.now = world.timers.back();
  world.hand(TimerFired{});
  world.finish_batch();  // 1.4 ms for 40 tokens
  world.encode(20);
  CHECK(world.timers.back() == world.now + milliseconds(10) - std::chrono::microseconds(700));
}
