// SPDX-License-Identifier: Apache-2.0
// The real server with each way to make batches of texts: the same vectors, to the last bit.
#include <doctest/doctest.h>
#include <signal.h>

#include <cstdint>
#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "store/measurement_files.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/observability/server_metrics.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/small_embedder.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;
using namespace troupe::test;
using nlohmann::json;

namespace {

using Texts = std::vector<std::string>;

constexpr std::size_t kClients = 6;
constexpr int kRounds = 3;

// Eight a client, of 1 to 48 letters, which are a token each.
Texts texts_of(std::size_t client) {
  Texts texts;
  for (std::size_t i = 0; i < 8; ++i) {
    std::string text;
    for (std::size_t k = 0; k <= (client * 13 + i * 29) % 48; ++k)
      text += std::string(k > 0 ? 1 : 0, ' ') + static_cast<char>('a' + (client + i * 5 + k * 7) % 26);
    texts.push_back(text);
  }
  return texts;
}

struct Vectors {
  std::vector<std::string> bits;  // in base 64
  std::uint64_t prompt_tokens = 0;
};

Vectors embed(std::uint16_t port, const Texts& texts) {
  const json body = {{"model", "embedder"}, {"input", texts}, {"encoding_format", "base64"}};
  const auto answer = http_post(port, "/v1/embeddings", body.dump());
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  const json whole = json::parse(answer.body);
  Vectors vectors{.bits = {}, .prompt_tokens = whole.at("usage").at("prompt_tokens")};
  for (const json& item : whole.at("data")) {
    CHECK(item.at("index") == vectors.bits.size());
    vectors.bits.push_back(item.at("embedding"));
  }
  return vectors;
}

std::vector<std::string> flags_of(const std::filesystem::path& model, const std::vector<std::string>& more) {
  std::vector<std::string> flags = {"--model",  model.string(), "--device",    "cpu",
                                    "--memory", "256MiB",       "--log-level", "info"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

// Of each client, its texts one at a time, when the server has nothing else to do.
std::vector<Vectors> vectors_alone(const std::filesystem::path& model) {
  const ServerProcess server(flags_of(model, {}));
  std::vector<Vectors> all(kClients);
  for (std::size_t client = 0; client < kClients; ++client)
    for (const std::string& text : texts_of(client)) {
      const auto one = embed(server.port(), {text});
      REQUIRE(one.bits.size() == 1);
      all[client].bits.push_back(one.bits.front());
      all[client].prompt_tokens += one.prompt_tokens;
    }
  return all;
}

// All clients at once, round after round.
void check_together(const ServerProcess& server, const std::vector<Vectors>& expected) {
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::future<Vectors>> answers;
    for (std::size_t client = 0; client < kClients; ++client)
      answers.push_back(std::async(std::launch::async, embed, server.port(), texts_of(client)));
    for (std::size_t client = 0; client < kClients; ++client) {
      const auto vectors = answers[client].get();
      CHECK(vectors.bits == expected[client].bits);
      CHECK(vectors.prompt_tokens == expected[client].prompt_tokens);
    }
  }
}

bool has_measured_costs(const ServerProcess& server) {
  return server.output().find("times of an encoder's batches measured") != std::string::npos;
}

struct Arm {
  std::vector<std::string> flags;
  bool joins = false, pads = false;  // of dp neither is known: costs decide
  bool measures = false;
};

const std::vector<Arm> kArms = {{.flags = {"--encoder-batching", "ragged"}, .joins = true},
                                {.flags = {"--encoder-batching", "padded"}, .joins = true, .pads = true},
                                {.flags = {"--encoder-batching", "none"}},
                                {.flags = {"--encoder-batching", "dp"}, .measures = true},
                                {.flags = {"--encoder-batching", "dp", "--encoder-trigger", "lazy",
                                           "--encoder-timeout-milliseconds", "3"},
                                 .measures = true}};

}  // namespace

TEST_CASE("encoder batching: each arm gives many clients the bits that a text has alone") {
  const TemporaryDirectory directory;
  const auto model = directory.path() / "embedder";
  write_small_embedder(model);
  const auto alone = vectors_alone(model);
  double num_tokens = 0;
  for (const Vectors& vectors : alone) num_tokens += kRounds * static_cast<double>(vectors.prompt_tokens);
  for (const Arm& arm : kArms) {
    CAPTURE(json(arm.flags).dump());
    const ServerProcess server(flags_of(model, arm.flags));
    check_together(server, alone);
    CHECK(has_measured_costs(server) == arm.measures);
    const ServerMetrics metrics(server.port());
    const double num_batches = metrics.sum("troupe_encoder_batches_total");
    const double num_computed = metrics.sum("troupe_encoder_tokens_total");
    MESSAGE(num_batches << " batches, " << num_computed << " tokens computed of " << num_tokens);
    CHECK(metrics.sum("troupe_encoder_inputs_total") == kRounds * kClients * 8);
    CHECK(num_batches <= kRounds * kClients * 8);
    CHECK(num_computed >= num_tokens);
    if (arm.measures) continue;
    CHECK((num_batches < kRounds * kClients * 8) == arm.joins);
    CHECK((num_computed > num_tokens) == arm.pads);
  }
}

TEST_CASE("encoder batching: dp measures once, and not when the server starts again") {
  const TemporaryDirectory directory;
  const auto model = directory.path() / "embedder", state = directory.path() / "state";
  write_small_embedder(model);
  const auto alone = vectors_alone(model);
  const std::vector<std::string> flags = {"--encoder-batching", "dp", "--store-directory", state.string()};
  for (const bool is_first : {true, false}) {
    ServerProcess server(flags_of(model, flags));
    check_together(server, alone);
    CHECK(has_measured_costs(server) == is_first);
    server.signal(SIGTERM);
    CHECK(server.wait() == 0);
    CHECK(std::filesystem::exists(state / kEncoderCostFile));
  }
}
