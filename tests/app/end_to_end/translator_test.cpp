// SPDX-License-Identifier: Apache-2.0
// The real server with transformer encoder-decoders, asked over HTTP: small random ones and a published
// one answer as CTranslate2 does with the same weights, alone, among others and short of memory.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/file_text.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/test_data.hpp"

using namespace troupe;
using namespace troupe::test;
using nlohmann::json;

namespace {

constexpr const char* kFixtures = TROUPE_SOURCE_DIR "/tests/fixtures/translators/";
constexpr const char* kNetworks[] = {"marian", "m2m100"};

// Token i is a letter; or a word of a letter, as sentencepiece writes it.
json tokenizer_file(std::size_t size, bool has_words) {
  json vocabulary;
  for (std::size_t i = 0; i < size; ++i)
    vocabulary[(has_words ? "\u2581" : "") + std::string(1, static_cast<char>('A' + i))] = i;
  json decoder = {{"type", "Fuse"}};
  if (has_words)
    decoder = {{"type", "Sequence"},
               {"decoders",
                {{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
                 {{"type", "Fuse"}},
                 {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  return {
      {"version", "1.0"},
      {"added_tokens", json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", nullptr},
      {"post_processor", nullptr},
      {"decoder", decoder},
      {"model", {{"type", "BPE"}, {"unk_token", nullptr}, {"vocab", vocabulary}, {"merges", json::array()}}}};
}

class TranslatorServer {
 public:
  explicit TranslatorServer(std::vector<std::string> more_flags = {}, bool has_words = false)
      : server_(flags(std::move(more_flags), has_words)) {}

  HttpAnswer post(const json& body) const {
    return http_post(server_.port(), "/v1/completions", body.dump());
  }
  json answer(const json& body) const {
    const auto given = post(body);
    REQUIRE_MESSAGE(given.status == 200, given.body);
    return json::parse(given.body);
  }

 private:
  std::vector<std::string> flags(std::vector<std::string> flags, bool has_words) {
    flags.insert(flags.end(), {"--log-level", "warning", "--device", "cpu", "--compute-type", "f32"});
    for (const char* name : kNetworks) {
      const auto path = directory_.path() / name;
      std::filesystem::copy(std::string(kFixtures) + name, path);
      std::ofstream(path / "tokenizer.json") << tokenizer_file(60, has_words).dump();
      flags.insert(flags.end(), {"--model", path.string()});
    }
    return flags;
  }

  TemporaryDirectory directory_;
  ServerProcess server_;
};

json reference_of(const std::string& name) {
  return json::parse(file_text(kFixtures + name + std::string("/reference.json")));
}

// Of the tokens, but an end.
std::string letters(const json& tokens, std::int32_t end) {
  std::string text;
  for (const json& token : tokens)
    if (token != end) text += static_cast<char>('A' + token.get<int>());
  return text;
}

void check_answers(const TranslatorServer& server, int num_rounds) {
  std::vector<std::pair<std::string, std::future<json>>> answers;
  for (int round = 0; round < num_rounds; ++round)
    for (const std::string name : kNetworks)
      for (const json& example : reference_of(name)) {
        const json body = {
            {"model", name}, {"prompt", example.at("source")}, {"temperature", 0}, {"max_tokens", 24}};
        answers.emplace_back(letters(example.at("greedy"), name == "marian" ? 0 : 2),
                             std::async(std::launch::async, [&server, body] { return server.answer(body); }));
      }
  for (auto& [expected, answer] : answers) CHECK(answer.get().at("choices")[0].at("text") == expected);
}

}  // namespace

TEST_CASE("translators over HTTP: answers are CTranslate2's, many at once, some of them to equal sources") {
  const TranslatorServer server({"--memory", "256MiB"});
  check_answers(server, 3);
  const json example = reference_of("marian")[3];  // which ends by itself
  const json whole = server.answer({{"model", "marian"},
                                    {"prompt", letters(example.at("source"), -1)},
                                    {"temperature", 0},
                                    {"max_tokens", 24},
                                    {"logprobs", 1}});
  const json& choice = whole.at("choices")[0];
  CHECK(choice.at("text") == letters(example.at("greedy"), 0));
  CHECK(choice.at("finish_reason") == "stop");
  double sum = 0;
  for (const json& logprob : choice.at("logprobs").at("token_logprobs")) sum += logprob.get<double>();
  CHECK(whole.at("usage").at("prompt_tokens") == example.at("source").size());
  CHECK(sum < 0);
  CHECK(sum > example.at("logprob").get<double>() - 1e-3);  // that of the end is not among them
}

TEST_CASE(
    "translators over HTTP: the best answers of four beams are CTranslate2's, many at once and short of "
    "memory") {
  for (const char* memory : {"256MiB", "12MiB"}) {
    CAPTURE(memory);
    const TranslatorServer server({"--memory", memory});
    std::vector<std::pair<json, std::future<json>>> searches;
    for (const std::string name : kNetworks)
      for (const json& example : reference_of(name))
        for (const auto& [penalty, answers] : example.at("beams").items()) {
          const json body = {{"model", name},           {"prompt", example.at("source")},
                             {"max_tokens", 24},        {"n", 4},
                             {"use_beam_search", true}, {"early_stopping", true},
                             {"temperature", 0},        {"length_penalty", std::stod(penalty)}};
          searches.emplace_back(
              answers, std::async(std::launch::async, [&server, body] { return server.answer(body); }));
        }
    CHECK(searches.size() == 10);
    for (auto& [expected, answer] : searches) {
      const json choices = answer.get().at("choices");
      REQUIRE(choices.size() == 4);
      for (std::size_t i = 0; i < 4; ++i) CHECK(choices[i].at("text") == letters(expected[i], -1));
    }
  }
}

TEST_CASE("translators over HTTP: an answer begins a text, whatever its source is") {
  const TranslatorServer server({"--memory", "256MiB"}, true);
  for (const std::string name : kNetworks) {
    const json example = reference_of(name)[0];
    const json answer = server.answer(
        {{"model", name}, {"prompt", example.at("source")}, {"temperature", 0}, {"max_tokens", 24}});
    std::string expected;
    for (const char letter : letters(example.at("greedy"), name == "marian" ? 0 : 2))
      expected += (expected.empty() ? "" : " ") + std::string(1, letter);
    CHECK(answer.at("choices")[0].at("text") == expected);
  }
}

TEST_CASE("translators over HTTP: what they can't do is refused by field and reason") {
  const TranslatorServer server({"--memory", "256MiB"});
  const auto refusal = [&](const json& body) {
    const auto given = server.post(body);
    CHECK(given.status == 400);
    return json::parse(given.body).at("error");
  };
  const json long_one =
      refusal({{"model", "marian"}, {"prompt", std::vector<int>(128, 7)}, {"max_tokens", 4}});
  CHECK(long_one.at("message") == "This model reads prompts of at most 127 tokens; this one has 128.");
  CHECK(long_one.at("param") == "prompt");
  const json scored =
      refusal({{"model", "marian"}, {"prompt", "HIJ"}, {"echo", true}, {"logprobs", 1}, {"max_tokens", 4}});
  CHECK(scored.at("message") ==
        "This model reads its prompt as a whole, and gives no log-probabilities of it.");
}

TEST_CASE("translators over HTTP: CTranslate2's transliteration from Arabic answers as it does there") {
  const auto aren = find_test_data("weights/ct2_aren");
  if (!aren) return;
  const TemporaryDirectory directory;
  const std::string model = (directory.path() / "aren").string();
  const auto result = run_command(
      {"/usr/bin/env", "python3", TROUPE_SOURCE_DIR "/scripts/cells/convert", "aren", aren->string(), model});
  REQUIRE_MESSAGE(result.exit_status == 0, result.output);
  const ServerProcess server(
      {"--log-level", "warning", "--device", "cpu", "--memory", "256MiB", "--model", model});
  const std::pair<const char*, const char*> words[] = {
      {"آتزمون", "atzmon"}, {"محمد", "mahmad"}, {"باريس", "barris"}, {"قاهرة", "qahra"}};
  for (const auto& [word, expected] : words) {
    const json body = {{"model", "aren"}, {"prompt", word}, {"temperature", 0}, {"max_tokens", 40}};
    const auto given = http_post(server.port(), "/v1/completions", body.dump());
    REQUIRE_MESSAGE(given.status == 200, given.body);
    const json choice = json::parse(given.body).at("choices")[0];
    CHECK(choice.at("text") == expected);
    CHECK(choice.at("finish_reason") == "stop");
  }
  // With four beams, by length penalty.
  struct Search {
    const char* word;
    double length_penalty;
    std::vector<std::string> best;
  };
  const Search searches[] = {{"آتزمون", 1.0, {"atzmon", "atzumon", "atzmun", "atzemon"}},
                             {"محمد", 1.0, {"mahmad", "muhmad", "mohmad", "muhmed"}},
                             {"محمد", 0.5, {"mahmad", "muhmad", "mohmad", "muhm"}},
                             {"قاهرة", 1.0, {"qahra", "kahra", "gahra", "qahara"}},
                             {"سمرقند", 1.0, {"samrkand", "samrqand", "samarkand", "samarqand"}},
                             {"الخوارزمي", 0.5, {"khawarzimi", "khawarsimi", "khwarzimi", "khwarzmi"}}};
  for (const Search& search : searches) {
    CAPTURE(search.word);
    for (const std::size_t n : {std::size_t{1}, search.best.size()}) {
      const json body = {{"model", "aren"},
                         {"prompt", search.word},
                         {"max_tokens", 40},
                         {"use_beam_search", true},
                         {"best_of", 4},
                         {"n", n},
                         {"length_penalty", search.length_penalty},
                         {"early_stopping", true}};
      const auto given = http_post(server.port(), "/v1/completions", body.dump());
      REQUIRE_MESSAGE(given.status == 200, given.body);
      const json choices = json::parse(given.body).at("choices");
      REQUIRE(choices.size() == n);
      for (std::size_t i = 0; i < n; ++i) CHECK(choices[i].at("text") == search.best[i]);
    }
  }
}
