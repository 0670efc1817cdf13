// SPDX-License-Identifier: Apache-2.0
// What the real binary says through HTTP of penalties and log-probabilities,
// against the demo model's logits, run here without any engine.
#include "tests/support/http/http_client.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gpu/cpu/cpu_device.hpp"
#include "gpu/cpu/cpu_model.hpp"
#include "gpu/program/program_cache.hpp"
#include "tests/gpu/generation.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/temporary_directory.hpp"
#include "text/tokenizer/tokenizer.hpp"

using namespace troupe;
using namespace troupe::test;
using nlohmann::json;

namespace {

const std::string kDemoModel = TROUPE_SOURCE_DIR "/models/demo";
const std::vector<std::string> kFlags = {"--model",  kDemoModel, "--log-level",    "warning",
                                         "--memory", "512MiB",   "--compute-type", "f32"};
constexpr std::uint32_t kNumNew = 60;

std::vector<std::int32_t> prompt_tokens(const Tokenizer& tokenizer) {
  return tokenizer.encode_with_specials("Count from 3 to 7. 3, 4, 5, 3, 4, 5, 3, 4, 5,");
}

// Tokens, and of each the log-probability by the logits it was drawn from.
struct Expected {
  std::vector<std::int32_t> tokens;
  std::vector<double> logprobs;
};

Expected run_here(const std::vector<std::int32_t>& prompt, const SamplingParameters& sampling) {
  const auto model = load_cpu_model(plan_cpu_model(
      kDemoModel, {.compute_type = DataType::kF32, .num_threads = 2, .num_slots = 1, .max_pages = 64}));
  CapturedLogits captured;
  Expected expected;
  {
    CpuDevice device(model, {.on_logits = capture_logits(captured)});
    ProgramCache programs(model->network, model->compute_type, model->largest);
    expected.tokens =
        generate(device, programs, {{.prompt = prompt, .num_new = kNumNew, .sampling = sampling}})[0];
  }
  for (std::size_t i = 0; i < expected.tokens.size(); ++i) {
    const auto& logits = captured[0].at(i);
    double sum = 0.0;
    for (const float logit : logits) sum += std::exp(double{logit});
    expected.logprobs.push_back(logits[static_cast<std::size_t>(expected.tokens[i])] - std::log(sum));
  }
  return expected;
}

// Of the prompt's tokens from the second on, each from a prefill of those before it.
std::vector<double> logprobs_here(const std::vector<std::int32_t>& prompt) {
  const auto model =
      load_cpu_model(plan_cpu_model(kDemoModel, {.compute_type = DataType::kF32,
                                                 .num_threads = 2,
                                                 .num_slots = static_cast<std::uint32_t>(prompt.size()),
                                                 .max_pages = 64}));
  CapturedLogits captured;
  {
    CpuDevice device(model, {.on_logits = capture_logits(captured)});
    ProgramCache programs(model->network, model->compute_type, model->largest);
    std::vector<DirectRequest> beginnings;
    for (std::size_t i = 1; i < prompt.size(); ++i)
      beginnings.push_back({.prompt = {prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(i)}});
    generate(device, programs, beginnings);
  }
  std::vector<double> logprobs;
  for (std::size_t i = 1; i < prompt.size(); ++i) {
    const auto& logits = captured[i - 1].at(0);
    double sum = 0.0;
    for (const float logit : logits) sum += std::exp(double{logit});
    logprobs.push_back(logits[static_cast<std::size_t>(prompt[i])] - std::log(sum));
  }
  return logprobs;
}

json choice_of(const ServerProcess& server, json body) {
  body["model"] = "demo";
  body["max_tokens"] = kNumNew;
  body["ignore_eos"] = true;
  const auto answer = http_post(server.port(), "/v1/completions", body.dump());
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  return json::parse(answer.body).at("choices").at(0);
}

// That of the line "perplexity     142.5392 ± 12.3"; lines of the log say perplexity=.
double perplexity_in(const std::string& output) {
  const std::string label = "perplexity ";
  const auto at = output.find(label);
  REQUIRE_MESSAGE(at != std::string::npos, output);
  return std::stod(output.substr(at + label.size()));
}

}  // namespace

TEST_CASE("likelihood: the log-probabilities of a greedy answer are those of the model's logits") {
  const auto tokenizer = load_tokenizer(kDemoModel);
  const auto prompt = prompt_tokens(*tokenizer);
  const Expected expected = run_here(prompt, {.temperature = 0.0F});
  const ServerProcess server(kFlags);
  const json choice = choice_of(server, {{"prompt", prompt}, {"temperature", 0}, {"logprobs", 2}});
  CHECK(choice.at("text") == tokenizer->decode(expected.tokens));
  const auto& logprobs = choice.at("logprobs").at("token_logprobs");
  REQUIRE(logprobs.size() == expected.logprobs.size());
  double sum = 0.0, expected_sum = 0.0;
  for (std::size_t i = 0; i < logprobs.size(); ++i) {
    CHECK(logprobs[i].get<double>() == doctest::Approx(expected.logprobs[i]).epsilon(1e-5));
    sum += logprobs[i].get<double>();
    expected_sum += expected.logprobs[i];
    CHECK(choice.at("logprobs").at("top_logprobs").at(i).size() == 2);
  }
  CHECK(sum == doctest::Approx(expected_sum).epsilon(1e-5));
}

// As evaluation harnesses ask.
TEST_CASE("likelihood: with echo, the prompt's tokens are as likely as its logits say") {
  const auto tokenizer = load_tokenizer(kDemoModel);
  const auto prompt = prompt_tokens(*tokenizer);
  const ServerProcess server(kFlags);
  const json body = {{"model", "demo"}, {"prompt", json::array({prompt})},
                     {"echo", true},    {"logprobs", 1},
                     {"max_tokens", 1}, {"temperature", 0}};
  for (int i = 0; i < 2; ++i) {  // the second time its KV could be had from the cache
    const auto answer = http_post(server.port(), "/v1/completions", body.dump());
    REQUIRE_MESSAGE(answer.status == 200, answer.body);
    const json choice = json::parse(answer.body).at("choices").at(0);
    const json& logprobs = choice.at("logprobs");
    REQUIRE(logprobs.at("token_logprobs").size() == prompt.size() + 1);
    CHECK(logprobs.at("token_logprobs").at(0).is_null());
    CHECK(logprobs.at("top_logprobs").at(0).is_null());
    CHECK(choice.at("text").get<std::string>().starts_with(tokenizer->decode(prompt)));
    std::vector<double> expected = logprobs_here(prompt);
    for (std::size_t token = 1; token < prompt.size(); ++token)
      CHECK(logprobs.at("token_logprobs").at(token).get<double>() ==
            doctest::Approx(expected.at(token - 1)).epsilon(1e-5));
  }
}

TEST_CASE("likelihood: a frequency penalty changes an answer that repeats itself, as it does here") {
  const auto tokenizer = load_tokenizer(kDemoModel);
  const auto prompt = prompt_tokens(*tokenizer);
  const ServerProcess server(kFlags);
  const json plain = choice_of(server, {{"prompt", prompt}, {"temperature", 0}});
  const json body = {{"prompt", prompt},
                     {"temperature", 0},
                     {"frequency_penalty", 1.5},
                     {"repetition_penalty", 1.1},
                     {"logprobs", 0}};
  const json penalized = choice_of(server, body);
  CHECK(penalized.at("text") != plain.at("text"));
  const Expected expected =
      run_here(prompt, {.temperature = 0.0F, .repetition_penalty = 1.1F, .frequency_penalty = 1.5F});
  CHECK(penalized.at("text") == tokenizer->decode(expected.tokens));
  const auto& logprobs = penalized.at("logprobs").at("token_logprobs");
  REQUIRE(logprobs.size() == expected.logprobs.size());
  for (std::size_t i = 0; i < logprobs.size(); ++i)  // of the model, not of what is left
    CHECK(logprobs[i].get<double>() == doctest::Approx(expected.logprobs[i]).epsilon(1e-5));
}

TEST_CASE("likelihood: a streamed chat's tokens are the text's bytes, once each and in order") {
  const ServerProcess server(kFlags);
  const json body = {
      {"model", "demo"},  {"messages", {{{"role", "user"}, {"content", "Count from 3 to 30."}}}},
      {"temperature", 0}, {"max_tokens", 200},
      {"stream", true},   {"stop", {", 27"}},
      {"logprobs", true}, {"top_logprobs", 3}};
  const auto answer = http_post(server.port(), "/v1/chat/completions", body.dump());
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  std::string text, bytes;
  for (const auto& payload : sse_payloads(answer.body)) {
    if (payload == "[DONE]") continue;
    const json choice = json::parse(payload).at("choices").at(0);
    text += choice.at("delta").value("content", "");
    if (choice.at("logprobs").is_null()) continue;
    for (const auto& token : choice.at("logprobs").at("content")) {
      for (const int byte : token.at("bytes")) bytes += static_cast<char>(byte);
      REQUIRE(token.at("top_logprobs").size() == 3);
      CHECK(token.at("top_logprobs").at(0).at("token") == token.at("token"));  // greedy
      CHECK(token.at("top_logprobs").at(0).at("logprob") == token.at("logprob"));
    }
  }
  CHECK(text.ends_with("26"));
  CHECK(bytes.starts_with(text));  // the last one may go on into the stop string
  CHECK(bytes.size() < text.size() + 4);
}

// By transformers 5.23 in f32, with the same windows.
TEST_CASE("likelihood: perplexity of a text is the reference implementation's") {
  const TemporaryFile text;
  std::ofstream(text.path()) << "Count from 3 to 7. 3, 4, 5, 6, 7. Spell the word cat. c-a-t. "
                                "Count from 12 to 20. 12, 13, 14, 15, 16, 17, 18, 19, 20.";
  const auto said = [&](std::vector<std::string> flags) {
    std::vector<std::string> command = {TROUPE_BINARY, "perplexity",     kDemoModel, "--text",
                                        text.path(),   "--memory",       "512MiB",   "--threads",
                                        "2",           "--compute-type", "f32"};
    command.insert(command.end(), flags.begin(), flags.end());
    return run_command(command);
  };
  const auto overlapping = said({"--window", "32", "--stride", "12"});
  REQUIRE_MESSAGE(overlapping.exit_status == 0, overlapping.output);
  CHECK_MESSAGE(perplexity_in(overlapping.output) == doctest::Approx(142.539).epsilon(1e-5),
                overlapping.output);
  CHECK(overlapping.output.find("59 of 60, windows of 32, one every 12") != std::string::npos);
  const auto whole = said({});
  CHECK_MESSAGE(perplexity_in(whole.output) == doctest::Approx(156.501).epsilon(1e-5), whole.output);
  const auto in_8_bits = said({"--kv-type", "q8"});
  CHECK_MESSAGE(perplexity_in(in_8_bits.output) != perplexity_in(whole.output), in_8_bits.output);
  CHECK_MESSAGE(perplexity_in(in_8_bits.output) == doctest::Approx(156.501).epsilon(0.02), in_8_bits.output);
  const auto wrong = said({"--window", "5000"});
  CHECK(wrong.exit_status == 64);
  CHECK_MESSAGE(wrong.output.find("--window: expected 2 to 2048 tokens") != std::string::npos, wrong.output);
}
