// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/length_predictor.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace troupe {
namespace {

using Stage = LengthPredictor::Stage;
constexpr std::uint32_t kMaxTokens = 2000;
constexpr std::uint64_t kModel = 7;

std::vector<std::int32_t> prompt_of(std::int32_t application, std::int32_t question) {
  std::vector<std::int32_t> prompt(LengthPredictor::kBeginningTokens, application);
  prompt.push_back(question);
  return prompt;
}

// Answers one after the other, each of so many tokens; the share that fitted.
struct Traffic {
  LengthPredictor predictor;
  std::uint64_t last = 0;
  int num_fitted = 0, num_answers = 0;

  LengthGuess answer(const std::string& tenant, std::int32_t application, SeenLength length,
                     std::uint32_t max_tokens = kMaxTokens) {
    const auto prompt = prompt_of(application, static_cast<std::int32_t>(++last));
    const LengthGuess guess =
        predictor.foresee(last, {.tenant = tenant, .prompt = prompt, .max_tokens = max_tokens});
    predictor.learn(last, length);
    num_fitted += length.num_tokens <= guess.reserved ? 1 : 0;
    num_answers += 1;
    return guess;
  }
  double coverage() const { return static_cast<double>(num_fitted) / num_answers; }
};

TEST_CASE("length predictor: nothing is known, so all that may come is reserved") {
  Traffic traffic;
  const LengthGuess guess = traffic.answer("a", 1, {.num_tokens = 10});
  CHECK(guess.reserved == kMaxTokens);
  CHECK(guess.likely == kMaxTokens);
  CHECK(traffic.predictor.num_learnt() == 1);
  CHECK(traffic.predictor.num_awaited() == 0);
}

TEST_CASE("length predictor: applications are told apart by the beginnings of their prompts") {
  Traffic traffic;
  for (int i = 0; i < 100; ++i) {
    traffic.answer("a", 1, {.num_tokens = 10});
    traffic.answer("a", 2, {.num_tokens = 1000});
  }
  CHECK(traffic.predictor.stage() == Stage::kBeginning);
  CHECK(traffic.answer("a", 1, {.num_tokens = 10}).likely == 10);
  CHECK(traffic.answer("a", 2, {.num_tokens = 1000}).likely == 1000);
}

TEST_CASE("length predictor: a tenant's answers tell of its others where beginnings are new") {
  Traffic traffic;
  for (std::int32_t i = 0; i < 100; ++i) {
    traffic.answer("short", 1000 + i, {.num_tokens = 20});
    traffic.answer("long", 2000 + i, {.num_tokens = 800});
  }
  CHECK(traffic.predictor.stage() == Stage::kTenant);
  CHECK(traffic.answer("short", 5000, {.num_tokens = 20}).likely == 20);
  CHECK(traffic.answer("long", 5001, {.num_tokens = 800}).likely == 800);
}

TEST_CASE("length predictor: another tenant's prompts of the same beginning tell nothing") {
  Traffic traffic;
  for (int i = 0; i < 20; ++i) traffic.answer("a", 1, {.num_tokens = 10});
  for (int i = 0; i < 20; ++i) traffic.answer("b", 1, {.num_tokens = 700});
  CHECK(traffic.answer("a", 1, {.num_tokens = 10}).likely == 10);
  CHECK(traffic.answer("b", 1, {.num_tokens = 700}).likely == 700);
}

TEST_CASE("length predictor: a stage that misleads is switched off by its loss") {
  Traffic traffic;
  std::mt19937_64 random(1);
  // Each beginning has another length every time it has become known.
  for (std::int32_t i = 0; i < 600; ++i) {
    const bool is_odd_turn = (i / 3 / 10) % 2 == 1;
    const bool is_odd_application = i % 3 == 1;
    const std::uint32_t length = is_odd_turn == is_odd_application ? 10 : 1000;
    traffic.answer("a", i % 3, {.num_tokens = length});
  }
  CHECK(traffic.predictor.stage() == Stage::kEveryone);
  CHECK(traffic.predictor.accuracy().mean_loss(Stage::kBeginning) >
        traffic.predictor.accuracy().mean_loss(Stage::kEveryone));
}

TEST_CASE("length predictor: answers that were cut off are not taken for short ones") {
  Traffic traffic;
  std::mt19937_64 random(2);
  for (int i = 0; i < 200; ++i)  // half of them are left after 5 tokens
    traffic.answer("a", 1, i % 2 == 0 ? SeenLength{.num_tokens = 400} : SeenLength{5, false});
  CHECK(traffic.answer("a", 1, {.num_tokens = 400}).likely == 400);
}

TEST_CASE("length predictor: no guess is beyond what the answer may have") {
  Traffic traffic;
  for (int i = 0; i < 50; ++i) traffic.answer("a", 1, {.num_tokens = 900});
  const LengthGuess guess = traffic.answer("a", 1, {.num_tokens = 64, .is_whole = false}, 64);
  CHECK(guess.reserved == 64);
  CHECK(guess.likely == 64);
}

TEST_CASE("length predictor: the wanted share of answers fits, also when lengths drift") {
  const std::vector<std::function<double(double)>> medians{
      [](double) { return 200.0; },                        // steady
      [](double at) { return 20.0 + 780.0 * at; },         // growing
      [](double at) { return 800.0 - 780.0 * at; },        // shrinking
      [](double at) { return at < 0.5 ? 50.0 : 900.0; }};  // all at once
  for (const double quantile : {0.5, 0.7, 0.9})
    for (std::size_t drift = 0; drift < medians.size(); ++drift) {
      Traffic traffic{.predictor = LengthPredictor(quantile)};
      std::mt19937_64 random(drift);
      std::normal_distribution<double> spread(0, 0.6);
      for (int i = 0; i < 2000; ++i) {
        const double median = medians[drift](i / 2000.0);
        const auto length =
            static_cast<std::uint32_t>(std::clamp(median * std::exp(spread(random)), 1.0, 1999.0));
        traffic.answer("a", 1, {.num_tokens = length});
      }
      CAPTURE(quantile);
      CAPTURE(drift);
      CHECK(std::abs(traffic.coverage() - quantile) < 0.03);
    }
}

TEST_CASE("length predictor: keys of requests that never come again take no memory for ever") {
  Traffic traffic;
  for (std::int32_t i = 0; i < 3000; ++i) traffic.answer("tenant " + std::to_string(i), i, {.num_tokens = 3});
  const std::string text = traffic.predictor.encode(kModel);
  std::size_t num_keys = 0;
  for (auto at = text.find("\nkey "); at != std::string::npos; at = text.find("\nkey ", at + 1)) ++num_keys;
  CHECK(num_keys == LengthPredictor::kMostKeys);
}

// Answers whose length the state tells, and nothing else; `is_told` false: the state tells nothing.
struct StateTraffic {
  LengthPredictor predictor;
  std::mt19937_64 random{11};
  std::uint64_t last = 0;
  int num_refined = 0, num_fitted = 0, num_answers = 0;

  std::vector<float> state_of(std::uint32_t length, bool is_told) {
    std::normal_distribution<float> noise(0, 0.3F);
    std::vector<float> state(64);
    const float place = is_told ? std::log2(static_cast<float>(length)) : 0;
    for (std::size_t i = 0; i < state.size(); ++i)
      state[i] = std::sin(place * (1 + static_cast<float>(i) / 16)) + noise(random);
    return state;
  }
  void answer(std::uint32_t length, bool is_told = true, bool is_whole = true) {
    const auto prompt = prompt_of(1, static_cast<std::int32_t>(++last));
    auto guess = predictor.foresee(last, {.tenant = "a", .prompt = prompt, .max_tokens = kMaxTokens});
    if (const auto refined = predictor.refine(last, state_of(length, is_told))) {
      CHECK(refined->reserved >= guess.reserved);  // memory that was set aside stays so
      CHECK(refined->reserved <= kMaxTokens);
      guess = *refined;
      num_refined += 1;
    }
    predictor.learn(last, {.num_tokens = length, .is_whole = is_whole});
    num_fitted += length <= guess.reserved ? 1 : 0;
    num_answers += 1;
  }
  void answers(int count, bool is_told = true) {
    for (int i = 0; i < count; ++i)
      answer(static_cast<std::uint32_t>(std::exp2(std::uniform_real_distribution<double>(1, 9)(random))),
             is_told);
  }
};

TEST_CASE("length predictor: the share of answers that fits follows what too little and too much cost") {
  const auto coverage_by = [](double brought_back) {
    LengthPredictor predictor(0);
    std::mt19937_64 random(3);
    int num_fitted = 0;
    for (std::uint64_t answer = 1; answer <= 4000; ++answer) {
      const auto length = static_cast<std::uint32_t>(1 + random() % 400);
      const LengthGuess guess =
          predictor.foresee(answer, {.tenant = "a", .prompt = {}, .max_tokens = kMaxTokens});
      const bool is_short = guess.reserved < length;
      predictor.learn(answer, {.num_tokens = length},
                      {.unused_token = 1000, .brought_back = is_short ? brought_back : 0});
      num_fitted += answer > 2000 && !is_short ? 1 : 0;
    }
    CHECK(std::abs(predictor.accuracy().coverage() - predictor.quantile()) < 0.1);
    return num_fitted / 2000.0;
  };
  CHECK(std::abs(coverage_by(0) - ReservedQuantile::kLeast) < 0.05);
  CHECK(coverage_by(1e9) > 0.9);
  const double between = coverage_by(100e3);
  CHECK(between > 0.3);
  CHECK(between < 0.8);
}

TEST_CASE("length predictor: a state that tells the length is used, and its loss is the least") {
  StateTraffic traffic;
  traffic.answers(1500);
  CHECK(traffic.predictor.stage() == Stage::kState);
  CHECK(traffic.predictor.accuracy().mean_loss(Stage::kState) <
        0.6 * traffic.predictor.accuracy().mean_loss(Stage::kBeginning));
  CHECK(traffic.num_refined > 500);
  CHECK(traffic.predictor.num_states_learnt() == 1500);
  traffic.num_fitted = traffic.num_answers = 0;
  traffic.answers(2000);
  CHECK(std::abs(traffic.predictor.accuracy().coverage() - 0.6) < 0.05);
  CHECK(traffic.num_fitted >= 0.6 * traffic.num_answers);  // what is reserved never shrinks
}

TEST_CASE("length predictor: of each tenth of guesses about the wanted share fits, and errors are small") {
  StateTraffic traffic;
  traffic.answers(3000);
  const ForecastAccuracy& accuracy = traffic.predictor.accuracy();
  double sum = 0;
  for (std::size_t tenth = 0; tenth < LengthPredictor::kNumTenths; ++tenth) {
    CAPTURE(tenth);
    CHECK(std::abs(accuracy.coverage(tenth) - 0.6) <= 0.2);  // of 50 answers each: three deviations
    sum += accuracy.coverage(tenth) / LengthPredictor::kNumTenths;
  }
  CHECK(sum == doctest::Approx(accuracy.coverage()));
  CHECK(accuracy.mean_log_error() < 0.6);  // of all answers alone: 1.4
  CHECK(accuracy.tau(Stage::kState) > 0.7);
  CHECK(std::abs(accuracy.tau(Stage::kEveryone)) < 0.2);
  CHECK(accuracy.mean_loss(Stage::kState) < 0.6 * accuracy.constant_loss());
}

// Requests that wait until an encoder has read their prompts. The vector tells the length; `is_told` false:
// nothing.
struct VectorTraffic {
  StateTraffic states;
  LengthPredictor& predictor = states.predictor;
  int num_read = 0, num_fitted = 0, num_answers = 0;

  LengthGuess ask(std::uint32_t length, bool is_told) {
    const auto prompt = prompt_of(1, static_cast<std::int32_t>(++states.last));
    const LengthQuestion question{.tenant = "a", .prompt = prompt, .max_tokens = kMaxTokens};
    LengthGuess guess = predictor.foresee(states.last, question);
    CHECK(predictor.lacks_vector(states.last));
    const auto read = predictor.read(states.last, states.state_of(length, is_told));
    CHECK_FALSE(predictor.lacks_vector(states.last));
    if (!read) return guess;
    num_read += 1;
    const LengthGuess again = predictor.foresee(states.last, question);  // as while it waits
    CHECK(again.reserved == read->reserved);
    CHECK(again.likely == read->likely);
    return *read;
  }
  void answer(std::uint32_t length, bool is_told = true, bool is_whole = true) {
    const LengthGuess guess = ask(length, is_told);
    CHECK(guess.reserved <= kMaxTokens);
    predictor.learn(states.last, {.num_tokens = length, .is_whole = is_whole});
    num_fitted += length <= guess.reserved ? 1 : 0;
    num_answers += 1;
  }
  std::uint32_t any_length() {
    return static_cast<std::uint32_t>(std::exp2(std::uniform_real_distribution<double>(1, 9)(states.random)));
  }
  void answers(int count, bool is_told = true) {
    for (int i = 0; i < count; ++i) answer(any_length(), is_told);
  }
};

TEST_CASE("length predictor: a vector that tells the length is used while a request waits") {
  VectorTraffic traffic;
  traffic.answers(1500);
  CHECK(traffic.predictor.stage() == Stage::kEncoder);
  CHECK(traffic.predictor.accuracy().mean_loss(Stage::kEncoder) <
        0.6 * traffic.predictor.accuracy().mean_loss(Stage::kBeginning));
  CHECK(traffic.predictor.accuracy().tau(Stage::kEncoder) > 0.7);
  CHECK(traffic.num_read > 500);
  CHECK(traffic.predictor.num_vectors_learnt() == 1500);
  CHECK(traffic.predictor.num_states_learnt() == 0);
  traffic.num_fitted = traffic.num_answers = 0;
  traffic.answers(1000);
  CHECK(std::abs(traffic.num_fitted - 0.6 * traffic.num_answers) < 0.05 * traffic.num_answers);
}

TEST_CASE("length predictor: a vector that misleads is switched off, and the share that fits stays") {
  VectorTraffic traffic;
  traffic.answers(800);
  REQUIRE(traffic.predictor.stage() == Stage::kEncoder);
  // Vectors tell nothing of lengths from here on.
  const auto mislead = [&](int count) {
    for (int i = 0; i < count; ++i) {
      traffic.ask(traffic.any_length(), true);
      traffic.predictor.learn(traffic.states.last, {.num_tokens = traffic.any_length()});
    }
  };
  mislead(120);
  CHECK(traffic.predictor.accuracy().mean_loss(Stage::kEncoder) > 0);
  mislead(500);
  const ForecastAccuracy& accuracy = traffic.predictor.accuracy();
  CHECK(accuracy.mean_loss(traffic.predictor.stage()) <= accuracy.mean_loss(Stage::kBeginning));
  CHECK(traffic.predictor.stage() != Stage::kEncoder);
  const int num_read = traffic.num_read;
  mislead(100);
  CHECK(traffic.num_read - num_read < 100);
  CHECK(std::abs(accuracy.coverage() - 0.6) < 0.07);
}

TEST_CASE("length predictor: answers whose prompts were read and that were cut off are no short ones") {
  VectorTraffic traffic;
  for (int i = 0; i < 400; ++i) {
    traffic.ask(400, true);
    traffic.predictor.note_running(traffic.states.last, 3);
    traffic.predictor.learn(traffic.states.last,
                            i % 2 == 0 ? SeenLength{.num_tokens = 400} : SeenLength{5, false});
  }
  traffic.ask(400, true);
  traffic.predictor.learn(traffic.states.last, {.num_tokens = 400});
  const auto& guesses = traffic.predictor.accuracy().answers().back().guesses;
  const std::uint32_t likely = guesses[static_cast<std::size_t>(Stage::kEncoder)].likely;
  CHECK(likely > 250);
  CHECK(likely < 600);
}

TEST_CASE("length predictor: a vector that comes when its request runs is learnt from and changes nothing") {
  VectorTraffic traffic;
  traffic.answers(800);
  REQUIRE(traffic.predictor.stage() == Stage::kEncoder);
  auto& predictor = traffic.predictor;
  const auto prompt = prompt_of(1, 1);
  const LengthQuestion question{.tenant = "a", .prompt = prompt, .max_tokens = kMaxTokens};
  const auto vector = traffic.states.state_of(300, true);
  const LengthGuess first = predictor.foresee(9000, question);
  predictor.note_running(9000, 2);
  CHECK_FALSE(predictor.read(9000, vector));
  predictor.learn(9000, {.num_tokens = 300});
  CHECK(predictor.accuracy().answers().back().reserved == first.reserved);
  CHECK(predictor.num_vectors_learnt() == 801);
  CHECK_FALSE(predictor.read(9000, vector));  // it is over
  CHECK_FALSE(predictor.read(9001, vector));  // never asked about
  predictor.foresee(9002, question);
  CHECK_FALSE(predictor.read(9002, std::vector<float>{std::nanf(""), 1}));
  CHECK(predictor.lacks_vector(9002));
  CHECK(predictor.read(9002, vector));
  CHECK_FALSE(predictor.read(9002, vector));  // once is enough
}

TEST_CASE("length predictor: the state at the end of a prefill takes over from the vector") {
  VectorTraffic traffic;
  for (int i = 0; i < 900; ++i) {
    const std::uint32_t length = traffic.any_length();
    const LengthGuess waiting = traffic.ask(length, i % 2 == 0);  // every other one tells
    if (const auto refined =
            traffic.predictor.refine(traffic.states.last, traffic.states.state_of(length, true)))
      CHECK(refined->reserved >= waiting.reserved);
    traffic.predictor.learn(traffic.states.last, {.num_tokens = length});
  }
  const ForecastAccuracy& accuracy = traffic.predictor.accuracy();
  CHECK(traffic.predictor.stage() == Stage::kState);
  CHECK(accuracy.mean_loss(Stage::kState) < accuracy.mean_loss(Stage::kEncoder));
  CHECK(accuracy.mean_loss(Stage::kEncoder) < accuracy.mean_loss(Stage::kBeginning));
}

TEST_CASE("length predictor: what vectors have taught is kept for the same encoder, and for no other") {
  constexpr std::uint64_t kEncoder = 70;
  VectorTraffic traffic;
  traffic.answers(600);
  REQUIRE(traffic.predictor.stage() == Stage::kEncoder);
  const auto text = traffic.predictor.encode(kModel, kEncoder);
  auto same = LengthPredictor::decode(text, 0.6, kModel, kEncoder);
  REQUIRE(same);
  CHECK(same->encode(kModel, kEncoder) == text);
  CHECK(same->num_vectors_learnt() == 600);
  CHECK(same->stage() == Stage::kEncoder);
  const auto vector = traffic.states.state_of(100, true);
  for (LengthPredictor* predictor : {&traffic.predictor, &*same})
    predictor->foresee(9000, {.tenant = "a", .prompt = {}, .max_tokens = kMaxTokens});
  const auto expected = traffic.predictor.read(9000, vector), found = same->read(9000, vector);
  REQUIRE(expected);
  REQUIRE(found);
  CHECK(found->reserved == expected->reserved);
  const std::vector<std::optional<std::uint64_t>> others = {kEncoder + 1, std::nullopt};
  for (const auto& encoder : others) {
    const auto other = LengthPredictor::decode(text, 0.6, kModel, encoder);
    REQUIRE(other);
    CHECK(other->num_learnt() == 600);
    CHECK(other->num_vectors_learnt() == 0);
    CHECK(other->stage() <= Stage::kBeginning);  // nor by state, which guessed as the encoder did
    CHECK(other->accuracy().mean_loss(Stage::kEncoder) == other->accuracy().mean_loss(Stage::kBeginning));
  }
  // Of an encoder that was not known nothing is kept.
  const auto unknown = LengthPredictor::decode(traffic.predictor.encode(kModel), 0.6, kModel, kEncoder);
  REQUIRE(unknown);
  CHECK(unknown->num_vectors_learnt() == 0);
  CHECK(unknown->stage() <= Stage::kBeginning);
}

TEST_CASE("length predictor: of a file of another version or another model nothing is read") {
  Traffic traffic;
  for (int i = 0; i < 20; ++i) traffic.answer("a", 1, {.num_tokens = 10});
  CHECK(LengthPredictor::decode(traffic.predictor.encode(kModel), 0.6, kModel));
  CHECK_FALSE(LengthPredictor::decode(traffic.predictor.encode(kModel), 0.6, kModel + 1));
  std::string text = "troupe-lengths 2\nmodel 7\nlearnt 9\nkey 0 12 340+\n";
  std::uint64_t sum = 0xCBF29CE484222325U;
  for (const char byte : text) sum = (sum ^ static_cast<unsigned char>(byte)) * 0x100000001B3U;
  text += "sum " + std::to_string(sum) + "\n";
  CHECK_FALSE(LengthPredictor::decode(text, 0.6, kModel));
}

TEST_CASE("length predictor: a state that tells nothing any more is switched off") {
  StateTraffic traffic;
  traffic.answers(1000);
  REQUIRE(traffic.predictor.stage() == Stage::kState);
  // As after other weights: the states of before now stand for other lengths.
  for (int i = 0; i < 700; ++i) traffic.answer(1 + static_cast<std::uint32_t>(traffic.random() % 2), false);
  for (int i = 0; i < 700; ++i) traffic.answer(static_cast<std::uint32_t>(traffic.random() % 500 + 1), false);
  traffic.num_fitted = traffic.num_answers = 0;
  for (int i = 0; i < 1000; ++i)
    traffic.answer(static_cast<std::uint32_t>(traffic.random() % 500 + 1), false);
  CHECK(traffic.predictor.accuracy().mean_loss(traffic.predictor.stage()) <=
        traffic.predictor.accuracy().mean_loss(Stage::kBeginning));
  CHECK(traffic.num_fitted >= 0.57 * traffic.num_answers);
}

TEST_CASE(
    "length predictor: states of answers that it was not asked about, or that are none, change nothing") {
  Traffic traffic;
  traffic.answer("a", 1, {.num_tokens = 10});
  const auto before = traffic.predictor.encode(kModel);
  CHECK_FALSE(traffic.predictor.refine(999, std::vector<float>{1, 2, 3}));
  const auto prompt = prompt_of(1, 5);
  traffic.predictor.foresee(7, {.tenant = "a", .prompt = prompt, .max_tokens = 9});
  CHECK_FALSE(traffic.predictor.refine(7, std::vector<float>{std::nanf("")}));
  CHECK(traffic.predictor.encode(kModel) == before);
}

TEST_CASE("length predictor: what the head has learnt is the same after a restart, or all is refused") {
  StateTraffic traffic;
  traffic.answers(600);
  const auto text = traffic.predictor.encode(kModel);
  auto restored = LengthPredictor::decode(text, 0.6, kModel);
  REQUIRE(restored);
  CHECK(restored->encode(kModel) == text);
  CHECK(restored->num_states_learnt() == 600);
  StateTraffic again{.predictor = *restored, .random = traffic.random, .last = traffic.last};
  again.answers(1);
  traffic.answers(1);
  const auto& expected = traffic.predictor.accuracy().answers().back();
  const auto& found = again.predictor.accuracy().answers().back();
  CHECK(found.reserved == expected.reserved);
  CHECK(found.likely == expected.likely);
  std::mt19937_64 random(1);
  for (int i = 0; i < 40; ++i) {
    std::string damaged = text;
    const auto place = static_cast<std::size_t>(random() % text.size());
    damaged[place] = static_cast<char>(damaged[place] ^ 1);
    CHECK_FALSE(LengthPredictor::decode(damaged, 0.6, kModel));
    CHECK_FALSE(LengthPredictor::decode(text.substr(0, place), 0.6, kModel));
  }
}

TEST_CASE("length predictor: what it has learnt is the same after a restart") {
  Traffic traffic;
  for (std::uint32_t i = 0; i < 700; ++i) {
    traffic.answer("a", 1, {.num_tokens = 10 + i % 7});
    traffic.answer("b", 2, {.num_tokens = 500 + i % 11, .is_whole = i % 5 != 0});
  }
  const auto text = traffic.predictor.encode(kModel);
  const auto restored = LengthPredictor::decode(text, 0.6, kModel);
  REQUIRE(restored);
  CHECK(restored->encode(kModel) == text);
  CHECK(restored->stage() == traffic.predictor.stage());
  CHECK(restored->accuracy().coverage() == traffic.predictor.accuracy().coverage());
  Traffic again{.predictor = *restored, .last = traffic.last};
  const LengthGuess expected = traffic.answer("b", 2, {.num_tokens = 500});
  const LengthGuess guess = again.answer("b", 2, {.num_tokens = 500});
  CHECK(guess.reserved == expected.reserved);
  CHECK(guess.likely == expected.likely);
}

TEST_CASE("length predictor: text that was cut short or changed in any byte is refused") {
  Traffic traffic;
  for (std::uint32_t i = 0; i < 12; ++i)
    traffic.answer("a", 1, {.num_tokens = 10 + i, .is_whole = i % 3 != 0});
  const std::string text = traffic.predictor.encode(kModel);
  REQUIRE(LengthPredictor::decode(text, 0.6, kModel));
  for (std::size_t size = 0; size < text.size(); ++size)
    CHECK_FALSE(LengthPredictor::decode(text.substr(0, size), 0.6, kModel));
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    CHECK_FALSE(LengthPredictor::decode(damaged, 0.6, kModel));
  }
}

// The numbers of a line, one of them another: its sum is right.
std::string altered(const std::string& text, std::size_t number, const std::string& value) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= number; ++i) begin = text.find(' ', begin) + 1;
  const std::size_t end = text.find_first_of(" \n", begin);
  const std::size_t sum_line = text.rfind("sum ");
  std::string other = text.substr(0, begin) + value + text.substr(end, sum_line - end);
  std::uint64_t sum = 0xCBF29CE484222325U;
  for (const char byte : other) sum = (sum ^ static_cast<unsigned char>(byte)) * 0x100000001B3U;
  return other + "sum " + std::to_string(sum) + "\n";
}

TEST_CASE("length predictor: an answer that ended by itself has shown if it fitted, or the text is refused") {
  Traffic traffic;
  traffic.answer("a", 1, {.num_tokens = 10});
  const std::string text = traffic.predictor.encode(kModel);
  const std::size_t judged = text.find("judged ");
  REQUIRE(judged != std::string::npos);
  const auto num_before = static_cast<std::size_t>(
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(judged), ' '));
  const std::size_t has_fitted = num_before + 1 + 2 * kNumLengthStages + 1;  // behind what was reserved
  CHECK(LengthPredictor::decode(altered(text, has_fitted, "0"), 0.6, kModel));
  CHECK_FALSE(LengthPredictor::decode(altered(text, has_fitted, "2"), 0.6, kModel));
}

// 45 answers at once, the first 20 of which are short.
TEST_CASE("length predictor: right after a start, answers that still run count, not only those that ended") {
  LengthPredictor with, without;
  const auto prompt = prompt_of(1, 1);
  const LengthQuestion question{.tenant = "a", .prompt = prompt, .max_tokens = kMaxTokens};
  for (std::uint64_t id = 1; id <= 45; ++id)
    for (LengthPredictor* predictor : {&with, &without}) predictor->foresee(id, question);
  for (std::uint64_t id = 1; id <= 20; ++id) {
    for (std::uint64_t other = 21; other <= 45; ++other)
      with.note_running(other, 10 + static_cast<std::uint32_t>(id));
    for (LengthPredictor* predictor : {&with, &without}) predictor->learn(id, {.num_tokens = 10});
  }
  CHECK(without.foresee(100, question).likely == 10);
  CHECK(with.foresee(100, question).likely ==
        kMaxTokens);  // more than half are longer than all that is known
  for (std::uint64_t id = 21; id <= 45; ++id)
    for (LengthPredictor* predictor : {&with, &without}) predictor->learn(id, {.num_tokens = 900});
  CHECK(with.num_awaited() == 1);
  CHECK(with.foresee(101, question).likely == 900);  // none runs any more
  CHECK(without.foresee(101, question).likely == 900);
}

// A key that is forgotten and comes again knows nothing of those that ran under it, until they are told of.
TEST_CASE("length predictor: an answer that runs counts once, whatever others of as many tokens do") {
  Traffic traffic;
  LengthPredictor& predictor = traffic.predictor;
  const auto prompt = prompt_of(1, 1);
  const LengthQuestion question{.tenant = "a", .prompt = prompt, .max_tokens = kMaxTokens};
  const auto run_16 = [&](std::uint64_t first, std::uint32_t num_tokens) {
    for (std::uint64_t id = first; id < first + 16; ++id) predictor.note_running(id, num_tokens);
  };
  constexpr std::uint64_t kOld = 100'000, kNew = 200'000;
  for (std::uint64_t id = kOld; id < kOld + 16; ++id) predictor.foresee(id, question);
  run_16(kOld, 20);
  for (std::int32_t i = 0; i < 1100; ++i)
    traffic.answer("tenant " + std::to_string(i), 1000 + i, {.num_tokens = 1000});
  for (int i = 0; i < 24; ++i) traffic.answer("a", 1, {.num_tokens = 10});
  for (std::uint64_t id = kNew; id < kNew + 16; ++id) predictor.foresee(id, question);
  CHECK(predictor.foresee(1, question).likely == 10);
  run_16(kNew, 20);
  run_16(kOld, 30);
  // 24 have ended, 32 run and have more tokens.
  CHECK(predictor.foresee(2, question).likely == kMaxTokens);
}

LookPlace at_token(std::uint32_t num_generated) { return {.num_generated = num_generated, .page_size = 16}; }

// Answers that are looked at every 32 tokens. At the end of the prefill nothing is known of the length; a
// look tells the rest as far as `is_told`.
struct LookTraffic {
  LengthPredictor predictor;
  std::mt19937_64 random{5};
  std::uint64_t last = 0;
  int num_looks = 0, num_used = 0, num_enough = 0;
  double off = 0;

  std::vector<float> state_of(std::uint32_t rest, bool is_told) {
    std::normal_distribution<float> noise(0, 0.5F);
    std::vector<float> state(64);
    const float place = is_told ? std::log2(static_cast<float>(rest)) : 0;
    for (std::size_t i = 0; i < state.size(); ++i)
      state[i] = std::sin(place * (1 + static_cast<float>(i) / 16)) + noise(random);
    return state;
  }
  void answer(std::uint32_t length, bool is_told) {
    const auto prompt = prompt_of(1, static_cast<std::int32_t>(++last));
    predictor.foresee(last, {.tenant = "a", .prompt = prompt, .max_tokens = kMaxTokens});
    predictor.refine(last, state_of(1, false));
    for (std::uint32_t at = 32; at < length; at += 32) {
      num_looks += 1;
      const auto guess = predictor.look(last, state_of(length - at, is_told), at_token(at));
      if (!guess) continue;
      CHECK(guess->reserved > at);
      CHECK(guess->reserved <= kMaxTokens);
      num_used += 1;
      num_enough += guess->reserved >= length ? 1 : 0;
      off += std::abs(std::log(static_cast<double>(guess->likely) / length));
    }
    predictor.learn(last, {.num_tokens = length});
  }
  void answers(int count, bool is_told) {
    for (int i = 0; i < count; ++i)
      answer(static_cast<std::uint32_t>(std::exp2(std::uniform_real_distribution<double>(3, 10)(random))),
             is_told);
  }
  void forget_counts() { num_looks = num_used = num_enough = 0, off = 0; }
};

TEST_CASE(
    "length predictor: looks at answers that run are used where they tell, and enough of them suffice") {
  LookTraffic traffic;
  traffic.answers(800, true);
  CHECK(traffic.predictor.uses_looks());
  traffic.forget_counts();
  traffic.answers(800, true);
  CHECK(traffic.num_used == traffic.num_looks);
  CHECK(traffic.off / traffic.num_used < 0.35);
  const JudgedLooks& looks = traffic.predictor.accuracy().looks();
  CHECK(std::abs(looks.num_fitted / static_cast<double>(looks.num) - 0.6) < 0.06);
  CHECK(looks.loss < 0.6 * looks.standing_loss);
}

TEST_CASE(
    "length predictor: looks are judged against a reservation that is doubled where the supervisor does it") {
  LookTraffic traffic;
  traffic.answers(400, true);
  LengthPredictor& predictor = traffic.predictor;
  const auto standing_loss = [&](std::uint64_t id, std::uint32_t before_end) {
    const auto prompt = prompt_of(1, 1);
    const auto reserved =
        predictor.foresee(id, {.tenant = "a", .prompt = prompt, .max_tokens = kMaxTokens}).reserved;
    REQUIRE(reserved > 40);
    REQUIRE(reserved < kMaxTokens / 2);
    REQUIRE(predictor.look(id, traffic.state_of(40, true), at_token(reserved - before_end)));
    predictor.learn(id, {.num_tokens = reserved + 20});
    return std::pair(reserved, predictor.accuracy().answers().back().looks.standing_loss);
  };
  CHECK(standing_loss(9000, 17).second == doctest::Approx(0.6 * 20));
  const auto [half, doubled] = standing_loss(9001, 16);
  CHECK(doubled == doctest::Approx(0.4 * (half - 20)));
}

TEST_CASE("length predictor: looks that mislead are switched off while they do") {
  LookTraffic traffic;
  traffic.answers(600, true);
  REQUIRE(traffic.predictor.uses_looks());
  // Other weights: a look tells of the rest what was so before, and now all answers are of one length.
  for (int i = 0; i < 520; ++i) {
    traffic.predictor.foresee(++traffic.last, {.tenant = "a", .prompt = {}, .max_tokens = kMaxTokens});
    for (std::uint32_t at = 32; at < 256; at += 32)
      traffic.predictor.look(traffic.last,
                             traffic.state_of(1 + static_cast<std::uint32_t>(traffic.random() % 900), true),
                             at_token(at));
    traffic.predictor.learn(traffic.last, {.num_tokens = 256});
  }
  const JudgedLooks& looks = traffic.predictor.accuracy().looks();
  CHECK(traffic.predictor.uses_looks() == (looks.loss < looks.standing_loss));
  CHECK_FALSE(traffic.predictor.uses_looks());
  traffic.answers(900, true);
  CHECK(traffic.predictor.uses_looks());
}

TEST_CASE("length predictor: looks that are late, double, beyond the end or broken change nothing") {
  LookTraffic traffic;
  traffic.answers(400, true);
  REQUIRE(traffic.predictor.uses_looks());
  auto& predictor = traffic.predictor;
  predictor.foresee(9000, {.tenant = "a", .prompt = {}, .max_tokens = 100});
  CHECK_FALSE(predictor.look(9001, traffic.state_of(50, true), at_token(32)));  // never asked about
  CHECK(predictor.look(9000, traffic.state_of(50, true), at_token(64)));
  CHECK_FALSE(predictor.look(9000, traffic.state_of(50, true), at_token(64)));
  CHECK_FALSE(predictor.look(9000, traffic.state_of(50, true), at_token(32)));
  CHECK_FALSE(predictor.look(9000, traffic.state_of(50, true), at_token(100)));
  CHECK_FALSE(predictor.look(9000, std::vector<float>{std::nanf("")}, at_token(96)));
  predictor.learn(9000, {.num_tokens = 100, .is_whole = false});
  CHECK_FALSE(predictor.look(9000, traffic.state_of(50, true), at_token(128)));
}

TEST_CASE("length predictor: what looks have taught is the same after a restart") {
  LookTraffic traffic;
  traffic.answers(400, true);
  const auto restored = LengthPredictor::decode(traffic.predictor.encode(kModel), 0.6, kModel);
  REQUIRE(restored);
  CHECK(restored->encode(kModel) == traffic.predictor.encode(kModel));
  CHECK(restored->num_looks_learnt() == traffic.predictor.num_looks_learnt());
  LookTraffic again{.predictor = *restored, .random = traffic.random, .last = traffic.last};
  again.answer(500, true);
  traffic.answer(500, true);
  CHECK(again.predictor.accuracy().looks().loss == traffic.predictor.accuracy().looks().loss);
}

TEST_CASE(
    "length predictor: of a file with a right sum and any number in it, guesses are in range and can be "
    "kept") {
  LookTraffic taught;
  taught.answers(150, true);
  const std::string text = taught.predictor.encode(kModel);
  const auto num_numbers = static_cast<std::size_t>(std::count(text.begin(), text.end(), ' ')) - 1;
  std::mt19937_64 random(7);
  const std::vector<std::string> values = {
      "3e38", "-3e38", "1e300", "-1e300", "1e-44", "-1", "0", "4294967295", "18446744073709551615",
      "1e15", "20",    "0.5"};
  int num_read = 0;
  for (int round = 0; round < 400; ++round) {
    // Of the first lines each number, of the long ones any.
    const std::size_t number = round < 40 ? static_cast<std::size_t>(round) : random() % num_numbers;
    const std::string& value = values[random() % values.size()];
    CAPTURE(number);
    CAPTURE(value);
    const auto predictor = LengthPredictor::decode(altered(text, number, value), 0.6, kModel);
    if (!predictor) continue;
    num_read += 1;
    LookTraffic traffic{.predictor = *predictor, .random = std::mt19937_64(3)};
    traffic.answers(12, true);  // which checks each guess
    const JudgedLooks& looks = traffic.predictor.accuracy().looks();
    CHECK(looks.loss >= 0);
    CHECK(looks.loss <= 4294967296.0 * looks.num);
    CHECK(looks.standing_loss >= 0);
    CHECK(looks.standing_loss <= 4294967296.0 * looks.num);
    CHECK(looks.num_fitted <= looks.num);
    CHECK(traffic.predictor.num_learnt() > 12);
    CHECK(LengthPredictor::decode(traffic.predictor.encode(kModel), 0.6, kModel));
  }
  CHECK(num_read > 40);
}

TEST_CASE("pinball loss: too few tokens and too many cost as the rank says") {
  CHECK(pinball_loss(0.75, 100, {.num_tokens = 140}) == doctest::Approx(30));
  CHECK(pinball_loss(0.75, 100, {.num_tokens = 60}) == doctest::Approx(10));
  CHECK(pinball_loss(0.75, 100, {.num_tokens = 140, .is_whole = false}) == doctest::Approx(30));
  CHECK_FALSE(pinball_loss(0.75, 100, {.num_tokens = 60, .is_whole = false}));
}

}  // namespace
}  // namespace troupe
