// SPDX-License-Identifier: Apache-2.0
// The predictor in the engine: it learns, it outlives the server, and whatever is wrong
// with it, answers come as without it.
#include "actors/lengths/predictor.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "policy/lengths/length_guess.hpp"
#include "store/length_file.hpp"
#include "telemetry/log.hpp"
#include "tests/actors/byte_model.hpp"
#include "tests/actors/byte_tokenizer.hpp"
#include "tests/actors/world.hpp"
#include "tests/support/observability/logged_lines.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

const std::uint64_t kFingerprint = sim::SimSettings().fingerprint.value();

sim::SimSettings predicting() {
  auto settings = sim::small_settings();
  settings.options.serving.reservation = ReservationPolicy::kPredicted;
  return settings;
}

// The answers of so many requests, one after the other.
std::vector<std::string> answers_in(sim::SimWorld& world, int num_requests) {
  std::vector<std::string> texts;
  for (int i = 0; i < num_requests; ++i) {
    const auto client = submit(world, letters("prompt " + std::to_string(i), 6, 20 + i));
    REQUIRE(world.run());
    texts.push_back(client->text());
  }
  return texts;
}

TEST_CASE("predictor: it is asked about each answer, and its accuracy is in the metrics") {
  sim::SimWorld world(predicting());
  answers_in(world, 12);
  CHECK(world.metric("troupe_lengths_forecast_total") == 12);
  // All answers have the 6 tokens that they may have, and all of that is set aside.
  CHECK(world.metric("troupe_length_forecast_coverage_ratio") == 1);
  const std::string all = world.metrics().expose();
  for (const std::string_view stage : kLengthStageNames)
    CHECK(all.find("stage=\"" + std::string(stage) + "\"} ") != std::string::npos);
  CHECK(leftovers(world) == "");
}

TEST_CASE("predictor: by default there is none, and nothing is asked") {
  sim::SimWorld world(sim::small_settings());
  answers_in(world, 3);
  CHECK(world.metric("troupe_lengths_forecast_total") == 0);
}

TEST_CASE("predictor: what it has learnt is there at the next start") {
  const test::TemporaryDirectory root;
  const auto directory = std::make_shared<const StateDirectory>(root.path() / "state");
  auto settings = predicting();
  settings.options.store.directory = directory;
  const std::string model = byte_model().name;
  for (std::uint64_t start = 1; start <= 2; ++start) {
    {
      sim::SimWorld world(settings);
      answers_in(world, 10);
    }
    const auto text = read_length_file(*directory, model);
    REQUIRE(text);
    const auto predictor = LengthPredictor::decode(*text, 0.6, kFingerprint);
    REQUIRE(predictor);
    CHECK(predictor->num_learnt() == 10 * start);
  }
}

TEST_CASE("predictor: answers that a stop string ends are learnt as whole ones") {
  const test::TemporaryDirectory root;
  const auto directory = std::make_shared<const StateDirectory>(root.path() / "state");
  auto settings = predicting();
  settings.options.store.directory = directory;
  {
    sim::SimWorld world(settings);
    auto request = letters("prompt", 60);
    const auto whole = submit(world, request);
    REQUIRE(world.run());  // it is cut off by max_tokens
    request.stop = {whole->text().substr(20, 3)};
    const auto stopped = submit(world, request);
    REQUIRE(world.run());
    REQUIRE(stopped->finished()->reason == FinishReason::kStop);
  }
  const auto text = read_length_file(*directory, byte_model().name);
  REQUIRE(text);
  // Behind a number: at least so many.
  CHECK(text->find(" 60+") != std::string::npos);
  for (auto plus = text->find('+'); plus != std::string::npos; plus = text->find('+', plus + 1))
    CHECK(text->substr(plus - 3, 3) == " 60");
}

TEST_CASE("predictor: a damaged file is warned of and replaced, and answers are the same") {
  const test::TemporaryDirectory root;
  const auto directory = std::make_shared<const StateDirectory>(root.path() / "state");
  auto settings = predicting();
  settings.options.store.directory = directory;
  const std::string model = byte_model().name;
  sim::SimWorld without(sim::small_settings());
  const auto expected = answers_in(without, 4);
  REQUIRE_FALSE(write_length_file(*directory, model, "troupe-lengths 1\nkey 7 broken\nsum 1\n"));
  {
    sim::SimWorld world(settings);
    CHECK(answers_in(world, 4) == expected);
    CHECK(leftovers(world) == "");
  }
  const auto text = read_length_file(*directory, model);
  REQUIRE(text);
  CHECK(LengthPredictor::decode(*text, 0.6, kFingerprint));
}

TEST_CASE("predictor: what was learnt of another model of the same name is not taken for this one's") {
  const test::TemporaryDirectory root;
  const auto directory = std::make_shared<const StateDirectory>(root.path() / "state");
  auto settings = predicting();
  settings.options.store.directory = directory;
  const std::string model = byte_model().name;
  {
    sim::SimWorld world(settings);
    answers_in(world, 9);
  }
  const auto learnt = LengthPredictor::decode(read_length_file(*directory, model).value(), 0.6, kFingerprint);
  REQUIRE(learnt);
  REQUIRE_FALSE(write_length_file(*directory, model, learnt->encode(77)));
  {
    sim::SimWorld world(settings);
    answers_in(world, 4);
    CHECK(leftovers(world) == "");
  }
  const auto anew = LengthPredictor::decode(read_length_file(*directory, model).value(), 0.6, kFingerprint);
  REQUIRE(anew);
  CHECK(anew->num_learnt() == 4);
}

TEST_CASE("predictor: of a model whose fingerprint is not known nothing is kept, and nothing is read") {
  const test::TemporaryDirectory root;
  const auto directory = std::make_shared<const StateDirectory>(root.path() / "state");
  auto settings = predicting();
  settings.options.store.directory = directory;
  settings.fingerprint = std::nullopt;
  const std::string model = byte_model().name;
  {
    sim::SimWorld world(settings);
    answers_in(world, 9);
    CHECK(world.metric("troupe_lengths_forecast_total") == 9);
  }
  CHECK_FALSE(read_length_file(*directory, model));
  LengthPredictor of_none;  // as an unknown fingerprint was taken for the number 0
  for (std::uint64_t id = 1; id <= 5; ++id) {
    of_none.foresee(id, {.tenant = "a", .prompt = {}, .max_tokens = 9});
    of_none.learn(id, {.num_tokens = 3});
  }
  const std::string kept = of_none.encode(0);
  REQUIRE_FALSE(write_length_file(*directory, model, kept));
  {
    sim::SimWorld world(settings);
    answers_in(world, 2);
    CHECK(leftovers(world) == "");
  }
  CHECK(read_length_file(*directory, model) == kept);
}

// So many answers that end by themselves, eight at once.
std::vector<std::string> long_answers_in(sim::SimWorld& world, int num_requests) {
  std::vector<std::string> texts;
  for (int i = 0; i < num_requests; i += 8) {
    std::vector<std::shared_ptr<sim::SimClient>> clients;
    for (int j = i; j < i + 8; ++j)
      clients.push_back(submit(world, letters("prompt", 100, static_cast<std::uint64_t>(j))));
    REQUIRE(world.run());
    for (const auto& client : clients) texts.push_back(client->text());
  }
  return texts;
}

TEST_CASE(
    "predictor: with states that tell lengths the whole server learns from them and from looks, answers the "
    "same") {
  constexpr int kRequests = 640;
  auto settings = predicting();
  sim::SimWorld without(settings);
  const auto expected = long_answers_in(without, kRequests);
  CHECK(without.metric("troupe_length_forecast_states") == 0);
  settings.device.state_strength = 0.95;
  sim::SimWorld world(settings);
  CHECK(long_answers_in(world, kRequests) == expected);
  CHECK(world.metric("troupe_length_forecast_states") == kRequests);
  CHECK(world.metric("troupe_length_forecast_looks") > 100);
  CHECK(leftovers(world) == "");
}

// Two run at once, so others wait, for longer than the encoder takes.
sim::SimSettings reading() {
  auto settings = predicting();
  settings.device.description.num_slots = settings.options.serving.max_batch_sequences = 2;
  settings.options.serving.reserved_quantile = 0.6;
  settings.encoder = sim::small_encoder();
  settings.encoder->description.max_batch_tokens = 512;
  settings.encoder->batch_time = std::chrono::microseconds(10);
  settings.encoder->token_time = {};
  settings.options.length_encoder = 1;
  return settings;
}

// Two kinds of prompts that begin alike; answers to one are short, to the other long, and end by themselves.
GenerationRequest of_kind(bool is_long, std::uint64_t number) {
  const std::string prompt =
      std::string(LengthPredictor::kBeginningTokens, 'p') + (is_long ? "zzzz" : "aaaa");
  const auto tokens = ByteTokenizer().encode(prompt);
  for (std::uint64_t seed = number * 1000;; ++seed) {
    const std::uint32_t length = sim::sim_tokens_left(tokens, seed);
    if (is_long ? length < 50 || length > 80 : length > 8) continue;
    auto request = letters(prompt, 85, seed);
    request.ignore_eos = false;
    return request;
  }
}

// Each of a flow of its own, so that all may be read at once.
std::vector<std::shared_ptr<sim::SimClient>> ask_eight(sim::SimWorld& world, std::uint64_t round) {
  std::vector<std::shared_ptr<sim::SimClient>> clients;
  for (std::uint64_t i = 0; i < 8; ++i) {
    auto request = of_kind((i * 5 + round) % 3 == 0, round * 8 + i);
    request.flow = std::to_string(i);
    clients.push_back(submit(world, request));
  }
  return clients;
}

std::vector<std::string> answers_in_rounds(sim::SimWorld& world, std::uint64_t num_rounds) {
  std::vector<std::string> texts;
  for (std::uint64_t round = 0; round < num_rounds; ++round) {
    const auto clients = ask_eight(world, round);
    REQUIRE(world.run());
    for (const auto& client : clients) texts.push_back(client->text());
  }
  return texts;
}

// label: as in stage="encoder".
double value_of(sim::SimWorld& world, const std::string& name, const std::string& label) {
  std::istringstream lines(world.metrics().expose());
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name + "{") && line.find(label) != std::string::npos)
      return std::stod(line.substr(line.rfind(' ') + 1));
  FAIL("there is no " << name << " of " << label);
  return 0;
}

double outcome(sim::SimWorld& world, const std::string& of) {
  return value_of(world, "troupe_length_readings_total", "outcome=\"" + of + "\"");
}

double loss_of(sim::SimWorld& world, const std::string& stage) {
  return value_of(world, "troupe_length_forecast_loss_tokens", "stage=\"" + stage + "\"");
}

TEST_CASE("predictor: prompts that wait are read, the scheduler hears of it, and answers are the same") {
  constexpr std::uint64_t kRounds = 40;
  sim::SimWorld without(predicting());
  const auto expected = answers_in_rounds(without, kRounds);
  sim::SimWorld world(reading());
  CHECK(answers_in_rounds(world, kRounds) == expected);
  const double num_read = outcome(world, "read");
  CHECK(num_read > 100);
  CHECK(outcome(world, "failed") == 0);
  CHECK(world.metric("troupe_length_forecast_vectors") == num_read);
  CHECK(loss_of(world, "encoder") < 0.8 * loss_of(world, "beginning"));
  CHECK(leftovers(world) == "");
  // The forecasts of those that wait tell long answers from short ones.
  const auto clients = ask_eight(world, kRounds);
  REQUIRE(world.run([&] { return outcome(world, "read") >= num_read + 6; }));
  int num_waiting = 0;
  for (const auto& client : clients) {
    const Sequence* sequence = world.scheduler().core().find(client->id());
    if (sequence == nullptr || sequence->has_started) continue;
    num_waiting += 1;
    const bool is_long = std::get<TextPrompt>(client->plan().request.prompt).text.back() == 'z';
    CHECK((sequence->length.likely > 25) == is_long);
  }
  CHECK(num_waiting > 1);
  REQUIRE(world.run());
  CHECK(leftovers(world) == "");
}

TEST_CASE("predictor: a prompt that needs not wait is not read") {
  sim::SimWorld world(reading());
  answers_in(world, 12);
  CHECK(world.metric("troupe_lengths_forecast_total") == 12);
  CHECK(world.metric("troupe_length_readings_total") == 0);
}

TEST_CASE("predictor: no more prompts than a few are read at once, and with a slow encoder nothing waits") {
  for (const auto batch_time : {std::chrono::microseconds(10), std::chrono::microseconds(5000)}) {
    auto settings = reading();
    settings.encoder->batch_time = batch_time;
    sim::SimWorld world(settings);
    std::vector<std::shared_ptr<sim::SimClient>> clients;
    for (std::uint64_t i = 0; i < 24; ++i) clients.push_back(submit(world, of_kind(i % 3 == 0, i)));
    world.settle();
    // Chats, and inputs of the encoder.
    CHECK(world.scheduler().num_sequences() == 24 + PredictorState::kMostReadingOfFlow);
    CHECK(outcome(world, "skipped") > 0);
    REQUIRE(world.run());
    for (const auto& client : clients) CHECK(client->finished().has_value());
    // With the quick one others were asked about again, and read.
    const bool is_quick = batch_time < std::chrono::milliseconds(1);
    CHECK(outcome(world, "read") > (is_quick ? PredictorState::kMostReadingOfFlow : 0));
    CHECK(leftovers(world) == "");
  }
}

TEST_CASE("predictor: who floods leaves others a place where prompts are read") {
  auto settings = reading();
  settings.encoder->batch_time = std::chrono::milliseconds(5);
  sim::SimWorld world(settings);
  const auto submit_of = [&](const std::string& tenant, std::uint64_t number) {
    auto request = of_kind(false, number);
    request.flow = tenant;
    submit(world, request);
  };
  for (std::uint64_t i = 0; i < 24; ++i) submit_of("flood", i);
  world.settle();
  CHECK(world.scheduler().num_sequences() == 24 + PredictorState::kMostReadingOfFlow);
  for (std::uint64_t i = 24; i < 26; ++i) submit_of("guest", i);
  world.settle();
  CHECK(world.scheduler().num_sequences() == 26 + PredictorState::kMostReading);
  REQUIRE(world.run());
  CHECK(leftovers(world) == "");
}

TEST_CASE("predictor: a prompt that kills the encoder's device is read once, and costs no answer") {
  sim::SimWorld world(reading());
  answers_in_rounds(world, 1);
  for (std::uint64_t i = 0; i < 7; ++i) {
    const auto client = submit(world, of_kind(false, 100 + i));
    REQUIRE(world.run());
    CHECK(client->finished());
  }
  // With the next answer those that wait are asked about again.
  const auto clients = ask_eight(world, 20);
  const SequenceId poison = clients.back()->id() | SequenceId{1} << 63U;
  int num_faults = 0;
  world.devices().choose_fault = [&](const Batch& batch, std::uint64_t) {
    for (const auto& slice : batch.slices)
      if (slice.sequence == poison) return ++num_faults, sim::Fault::kBatchError;
    return sim::Fault::kNone;
  };
  const auto lines = test::logged_by(LogFormat::kText, [&] { REQUIRE(world.run()); });
  configure_logging(LogLevel::kOff, LogFormat::kText);
  for (const auto& client : clients) CHECK(client->finished());
  CHECK(num_faults > 0);
  CHECK(num_faults <= 3);
  // By the number of the request whose prompt it was.
  const std::string sequence = "sequence=" + std::to_string(clients.back()->id());
  CHECK(std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
          return line.find("a prompt is not read: workers die of it") != std::string::npos &&
                 line.ends_with(sequence);
        }) == 1);
  CHECK(outcome(world, "failed") == 1);
  CHECK(leftovers(world) == "");
}

TEST_CASE("predictor: what is being read ends with its request, and with the engine") {
  std::shared_ptr<ActorCensus> census;
  {
    sim::SimWorld world(reading());
    const auto clients = ask_eight(world, 0);
    world.settle();
    CHECK(world.scheduler().num_sequences() > 8);
    for (const auto& client : clients) client->cancel();
    world.settle();
    CHECK(world.scheduler().num_sequences() == 0);  // before the encoder is done with its batch
    REQUIRE(world.run());
    CHECK(outcome(world, "read") == 0);
    CHECK(outcome(world, "skipped") > 0);
    CHECK(leftovers(world) == "");
    const auto others = ask_eight(world, 1);
    world.settle();
    CHECK(world.scheduler().num_sequences() > 8);
    world.engine().environment().registry->cancel_all();
    census = world.engine().environment().census;
  }
  CHECK(census->count() == 0);
}

TEST_CASE("predictor: an encoder whose batches kill its device costs no answer") {
  auto settings = reading();
  settings.options.max_restarts = 8;
  sim::SimWorld without(predicting());
  const auto expected = answers_in_rounds(without, 3);
  sim::SimWorld world(settings);
  int num_faults = 0;
  world.devices().choose_fault = [&](const Batch& batch, std::uint64_t) {
    const bool is_of_encoder = !batch.slices.empty() && batch.slices.front().sequence >> 63U != 0;
    return is_of_encoder && num_faults++ < 4 ? sim::Fault::kBatchError : sim::Fault::kNone;
  };
  CHECK(answers_in_rounds(world, 3) == expected);
  CHECK(num_faults > 4);
  CHECK(leftovers(world) == "");
}

TEST_CASE("predictor: what vectors have taught is there at the next start, of the same encoder only") {
  const test::TemporaryDirectory root;
  auto settings = reading();
  settings.options.store.directory = std::make_shared<const StateDirectory>(root.path() / "state");
  double num_read = 0;
  const auto vectors_after_a_start = [&] {
    sim::SimWorld world(settings);
    answers_in_rounds(world, 2);
    num_read += outcome(world, "read");
    return world.metric("troupe_length_forecast_vectors");
  };
  // since: prompts read at that time; none of these is still known.
  const auto check_after_a_start = [&](double since) {
    const double num_vectors = vectors_after_a_start();
    CHECK(num_vectors == num_read - since);
    CHECK(num_read > since);
  };
  check_after_a_start(0);
  check_after_a_start(0);
  settings.encoder_fingerprint = 7;
  check_after_a_start(num_read);
  settings.encoder_fingerprint = std::nullopt;  // not known, so nothing is kept
  for (int start = 0; start < 2; ++start) check_after_a_start(num_read);
}

TEST_CASE("predictor: when it has died, answers come as without it") {
  sim::SimWorld without(sim::small_settings());
  const auto expected = answers_in(without, 4);
  sim::SimWorld world(predicting());
  send_stop(world.engine().actors().predictor);
  world.settle();
  CHECK(answers_in(world, 4) == expected);
  CHECK(world.metric("troupe_lengths_forecast_total") == 0);
  CHECK(leftovers(world) == "");
}

}  // namespace
}  // namespace troupe
