// SPDX-License-Identifier: Apache-2.0
// The real server with the demo model, whose answers' lengths follow from their prompts: what is told
// of them, and what the server learns of them by itself.
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/eventually.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/http/chat.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/observability/received_span.hpp"
#include "tests/support/observability/server_metrics.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/small_embedder.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

std::vector<std::string> flags(const std::vector<std::string>& more) {
  std::vector<std::string> all = {
      "--model", TROUPE_SOURCE_DIR "/models/demo", "--log-level", "warning", "--memory", "256MiB"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

constexpr int kDifferent = 60;  // questions, asked in turn

std::string answer_to(std::uint16_t port, int question, int num_different) {
  const int last = 2 + question * 37 % num_different;
  return content_of(chat(port, user_asks("Count to " + std::to_string(last) + "."), /*max_tokens=*/600));
}

// So many questions, eight at once; their answers.
std::vector<std::string> answers_to(std::uint16_t port, int num_questions, int num_different = kDifferent) {
  std::vector<std::string> answers(static_cast<std::size_t>(num_questions));
  std::vector<std::thread> askers;
  for (int first = 0; first < 8; ++first)
    askers.emplace_back([&answers, port, num_questions, num_different, first] {
      for (int i = first; i < num_questions; i += 8)
        answers[static_cast<std::size_t>(i)] = answer_to(port, i, num_different);
    });
  for (std::thread& asker : askers) asker.join();
  return answers;
}

// The predictor hears of an answer's end some time after its client.
bool has_learnt(const ServerProcess& server, int num_answers) {
  return eventually(
      [&] { return ServerMetrics(server.port()).sum("troupe_length_forecast_states") == num_answers; });
}

// Changes of what is set aside, as the spans of requests tell them. The first forecast of a request is none.
struct ToldChanges {
  int num_requests = 0, num_grown = 0, num_shrunk = 0;
  int num_looked_at = 0;  // requests with more changes than the one of a prefill's end

  void add(const ReceivedSpan& request) {
    std::vector<int> told;
    int num_changes = -1;
    for (const ReceivedEvent& event : request.events) {
      if (event.name != "predict" && event.name != "overrun") continue;
      told.push_back(event.attributes.at("troupe.reserved_tokens").get<int>());
      if (event.name == "overrun" || ++num_changes == 0) continue;
      (told.back() > told.at(told.size() - 2) ? num_grown : num_shrunk) += 1;
    }
    num_requests += 1;
    num_looked_at += num_changes > 1 ? 1 : 0;
  }
};

ToldChanges changes_told_in(const std::string& file) {
  constexpr int kServerKind = 2;
  ToldChanges changes;
  for (const ReceivedSpan& span : read_spans(file))
    if (span.kind == kServerKind) changes.add(span);
  return changes;
}

std::filesystem::path only_length_file(const std::filesystem::path& directory) {
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    if (entry.path().filename().string().starts_with("lengths-")) return entry.path();
  FAIL("there is no file of lengths");
  return {};
}

}  // namespace

TEST_CASE(
    "lengths: a server that sets memory aside by them is told how long answers will be, others refuse") {
  json body = {{"messages", user_asks("Count to 9.")}, {"temperature", 0}, {"troupe_answer_tokens", 18}};
  const auto answer_of = [&body](const ServerProcess& server) {
    return http_post(server.port(), "/v1/chat/completions", body.dump());
  };
  const ServerProcess oracle(flags({"--reservation", "oracle"}));
  const auto told = answer_of(oracle);
  REQUIRE(told.status == 200);
  const std::string expected = "1, 2, 3, 4, 5, 6, 7, 8, 9";
  CHECK(content_of(json::parse(told.body)) == expected);
  body["troupe_answer_tokens"] = 1;  // which is not so
  CHECK(content_of(json::parse(answer_of(oracle).body)) == expected);
  const ServerProcess other(flags({"--reservation", "max"}));
  const auto refused = answer_of(other);
  CHECK(refused.status == 400);
  CHECK(json::parse(refused.body).at("error").at("param") == "troupe_answer_tokens");
}

TEST_CASE("lengths: the model's own state is learnt to tell them, kept, and changes no answer") {
  constexpr int kQuestions = 640, kAskedAgain = 40;
  const TemporaryDirectory directory;
  const std::string store = (directory.path() / "state").string();
  const auto predicting = flags({"--reservation", "predicted", "--store-directory", store});
  std::vector<std::string> expected;
  {
    const ServerProcess server(flags({}));
    expected = answers_to(server.port(), kDifferent);
  }
  {
    ServerProcess server(predicting);
    const auto answers = answers_to(server.port(), kQuestions);
    for (std::size_t i = 0; i < answers.size(); ++i) CHECK(answers[i] == expected[i % kDifferent]);
    CHECK(has_learnt(server, kQuestions));
    const ServerMetrics metrics(server.port());
    const double by_state = metrics.sum("troupe_length_forecast_loss_tokens", "stage=\"state\"");
    const double by_all = metrics.sum("troupe_length_forecast_loss_tokens", "stage=\"everyone\"");
    MESSAGE("mean pinball loss: " << by_state << " tokens by state, " << by_all << " by all answers; "
                                  << metrics.sum("troupe_length_forecast_busy_seconds_total") << " s");
    CHECK(by_state < 0.7 * by_all);
    CHECK(metrics.sum("troupe_reservations_refined_total") > 0);
    server.signal(SIGTERM);
    CHECK(server.wait() == 0);
  }
  {
    ServerProcess server(predicting);
    answers_to(server.port(), kAskedAgain);
    CHECK(has_learnt(server, kQuestions + kAskedAgain));
    server.signal(SIGTERM);
    CHECK(server.wait() == 0);
  }
  const auto file = only_length_file(store);
  std::string text = file_text(file);
  REQUIRE(text.find("\nprefill head ") != std::string::npos);
  text[text.find("\nprefill head ") + 28] ^= 1;
  std::ofstream(file) << text;
  ServerProcess server(predicting);
  CHECK(answers_to(server.port(), kAskedAgain) ==
        std::vector<std::string>(expected.begin(), expected.begin() + kAskedAgain));
  CHECK(has_learnt(server, kAskedAgain));
  CHECK(server.output().find("what was learnt of lengths is damaged") != std::string::npos);
}

// The model counts, so its state tells at each token how far it has come. With nine of ten answers to fit,
// much is set aside at an arrival, and a look at one that ends soon shrinks it.
TEST_CASE("lengths: answers that run are looked at, which costs less than what stood and changes it") {
  constexpr int kQuestions = 320, kLongest = 99;
  const TemporaryDirectory directory;
  const std::string trace = (directory.path() / "trace.jsonl").string();
  ServerProcess server(
      flags({"--reservation", "predicted", "--reserved-percent", "90", "--trace-file", trace}));
  answers_to(server.port(), kQuestions, kLongest);
  CHECK(has_learnt(server, kQuestions));
  const ServerMetrics metrics(server.port());
  const double by_look = metrics.sum("troupe_length_forecast_look_loss_tokens", "guess=\"look\"");
  const double standing = metrics.sum("troupe_length_forecast_look_loss_tokens", "guess=\"standing\"");
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
  const ToldChanges told = changes_told_in(trace);
  MESSAGE("looks: " << metrics.sum("troupe_length_forecast_looks") << " learnt, mean pinball loss " << by_look
                    << " tokens, without them " << standing << "; grown " << told.num_grown << ", shrunk "
                    << told.num_shrunk << ", of " << told.num_looked_at << " answers by looks");
  CHECK(metrics.sum("troupe_length_forecast_looks") > kQuestions);
  CHECK(by_look > 0);
  CHECK(by_look < standing);
  CHECK(told.num_requests == kQuestions);
  CHECK(told.num_looked_at > 0);
  CHECK(told.num_shrunk > 0);  // at the end of a prefill they only grow
  CHECK(told.num_grown == metrics.sum("troupe_reservations_refined_total"));
  CHECK(told.num_shrunk == metrics.sum("troupe_reservations_shrunk_total"));
}

// Two run at once, so most of the eight that ask at the same time wait. The embedder is a BERT of random
// weights: that there is something to be learnt of its vectors is others' concern.
TEST_CASE(
    "lengths: an encoder reads the prompts that wait, what it tells is kept, and answers are the same") {
  constexpr int kQuestions = 160;
  const TemporaryDirectory directory;
  const auto embedder = directory.path() / "embedder";
  write_small_embedder(embedder);
  const std::string store = (directory.path() / "state").string();
  const auto reading = flags({"--model", embedder.string(), "--reservation", "predicted", "--length-encoder",
                              "embedder", "--max-batch-sequences", "2", "--store-directory", store});
  std::vector<std::string> expected;
  {
    const ServerProcess server(flags({}));
    expected = answers_to(server.port(), kDifferent);
  }
  double num_read = 0;
  for (int start = 0; start < 2; ++start) {
    ServerProcess server(reading);
    const auto answers = answers_to(server.port(), kQuestions);
    for (std::size_t i = 0; i < answers.size(); ++i) CHECK(answers[i] == expected[i % kDifferent]);
    CHECK(has_learnt(server, kQuestions * (start + 1)));
    const ServerMetrics metrics(server.port());
    num_read += metrics.sum("troupe_length_readings_total", "outcome=\"read\"");
    CHECK(num_read > 20 * (start + 1));
    CHECK(metrics.sum("troupe_length_readings_total", "outcome=\"failed\"") == 0);
    // With those of the start before. A vector that comes with the end of its answer is not learnt from.
    const double num_learnt = metrics.sum("troupe_length_forecast_vectors");
    CHECK(num_learnt <= num_read);
    CHECK(num_learnt > 0.5 * num_read);
    CHECK(metrics.sum("troupe_length_forecast_loss_tokens", "stage=\"encoder\"") > 0);
    MESSAGE(num_read << " prompts read; mean pinball loss "
                     << metrics.sum("troupe_length_forecast_loss_tokens", "stage=\"encoder\"")
                     << " tokens by vectors, "
                     << metrics.sum("troupe_length_forecast_loss_tokens", "stage=\"beginning\"")
                     << " without");
    server.signal(SIGTERM);
    CHECK(server.wait() == 0);
  }
  CHECK(file_text(only_length_file(store)).find("\nreading head ") != std::string::npos);
}
