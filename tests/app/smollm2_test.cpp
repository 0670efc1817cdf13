// SPDX-License-Identifier: Apache-2.0
// SmolLM2-135M-Instruct, a real chat model, in the real binary: questions are answered as transformers
// answers them in f32, also from keys and values that were on the host or on disk; strings have the tokens of
// Hugging Face's tokenizer. scripts/smollm2/make_reference wrote the expectations. scripts/get-model fetches
// the model.
#include "tests/support/http/chat.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "app/loading/model_source.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/observability/server_metrics.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/temporary_directory.hpp"
#include "text/stable_hash.hpp"

using namespace troupe;
using namespace troupe::test;
using nlohmann::json;

namespace {

std::optional<std::filesystem::path> find_smollm2() {
  const char *named = std::getenv("TROUPE_MODELS"), *home = std::getenv("HOME");
  const auto models = named != nullptr
                          ? std::filesystem::path(named)
                          : std::filesystem::path(home != nullptr ? home : "/") / ".cache/troupe/models";
  const auto path = models / "SmolLM2-135M-Instruct.Q4_1.gguf";
  if (std::filesystem::exists(path)) return path;
  MESSAGE("SKIPPED: no SmolLM2 at " << path.string() << "; scripts/get-model smollm2 gets it");
  return std::nullopt;
}

json expectations() {
  return json::parse(file_text(std::filesystem::path(TROUPE_SOURCE_DIR) / "tests/fixtures/smollm2.json"));
}

// The model with a context of 1024 tokens, so that a server of little memory takes it.
class SmallContext {
 public:
  explicit SmallContext(const std::filesystem::path& model) {
    constexpr std::size_t kHeadBytes = 1 << 16;
    std::filesystem::copy_file(model, path());
    std::fstream file(path(), std::ios::binary | std::ios::in | std::ios::out);
    std::string head(kHeadBytes, '\0');
    file.read(head.data(), kHeadBytes);
    const std::string key = "llama.context_length";
    const std::size_t at = head.find(key);
    REQUIRE(at < kHeadBytes);
    file.seekp(static_cast<std::streamoff>(at + key.size() + 4));  // behind the type, U32
    file.write("\x00\x04\x00\x00", 4);
  }

  std::filesystem::path path() const { return directory_.path() / "smollm2.gguf"; }

 private:
  TemporaryDirectory directory_;
};

std::vector<std::string> serve_flags(const std::filesystem::path& model,
                                     const std::vector<std::string>& more) {
  // Of what is asked at once, the last waits for all others: for minutes, on a busy machine and with
  // sanitizers.
  std::vector<std::string> flags = {
      "--model",       model.string(), "--log-level",          "warning", "--compute-type",      "f32",
      "--activations", "exact",        "--weights-disk-space", "0",       "--max-queue-seconds", "1200"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

// An answer that came to its end needs room for the token that says so.
int room_for(const json& expected) {
  return expected.at("answer_tokens").get<int>() + (expected.at("is_whole").get<bool>() ? 1 : 0);
}

void check_answer(const json& answer, const json& expected) {
  CAPTURE(expected.at("question").get<std::string>());
  CHECK(content_of(answer) == expected.at("answer").get<std::string>());
  CHECK(answer.at("usage").at("prompt_tokens").get<int>() == expected.at("prompt_tokens").get<int>());
  const char* reason = expected.at("is_whole").get<bool>() ? "stop" : "length";
  CHECK(answer.at("choices").at(0).at("finish_reason").get<std::string>() == reason);
}

void check_questions(const ServerProcess& server, const json& chats) {
  std::vector<json> answers(chats.size());
  {
    std::vector<std::jthread> clients;
    for (std::size_t i = 0; i < chats.size(); ++i) {
      clients.emplace_back([&, i] {
        try {
          answers[i] = chat(server.port(), user_asks(chats[i].at("question")), room_for(chats[i]));
        } catch (const std::exception& error) {
          answers[i] = error.what();
        }
      });
    }
  }
  for (std::size_t i = 0; i < chats.size(); ++i) {
    REQUIRE_MESSAGE(answers[i].is_object(), answers[i].dump());
    check_answer(answers[i], chats[i]);
  }
}

// Turns [first, last), each with all before it.
void check_turns(const ServerProcess& server, const json& turns, std::size_t first, std::size_t last) {
  json messages = json::array();
  for (std::size_t i = 0; i < last; ++i) {
    messages.push_back(user_message(turns[i].at("question")));
    if (i >= first) check_answer(chat(server.port(), messages, room_for(turns[i])), turns[i]);
    messages.push_back(assistant_message(turns[i].at("answer")));
  }
}

// Tokens that the last turn found in a tier.
double found_by_last_turn(const ServerProcess& server, const json& turns, const char* tier) {
  const double before = ServerMetrics(server.port()).hits(tier);
  check_turns(server, turns, turns.size() - 1, turns.size());
  return ServerMetrics(server.port()).hits(tier) - before;
}

// Full pages of what was computed before the last turn, whose answers are part of it.
double full_pages(const json& turns) {
  const json& before = turns.at(turns.size() - 2);
  return (before.at("prompt_tokens").get<int>() + before.at("answer_tokens").get<int>()) / 32 * 32;
}

}  // namespace

TEST_CASE("smollm2: 12000 strings have the tokens of Hugging Face's tokenizer") {
  const auto model = find_smollm2();
  if (!model) return;
  const auto tokenizer = load_model_tokenizer(*model);
  const json expected = expectations().at("strings");
  const auto pieces = expected.at("pieces").get<std::vector<std::string>>();
  std::uint64_t state = 1;
  const auto draw = [&](std::size_t below) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (state >> 33) % below;
  };
  REQUIRE(expected.at("count").get<std::size_t>() >= 10000);
  for (const json& hash : expected.at("hashes")) {
    std::uint64_t value = stable_hash("");
    std::string texts;
    for (std::size_t i = 0; i < expected.at("strings_a_hash").get<std::size_t>(); ++i) {
      std::string text;
      const std::size_t num_pieces = 1 + draw(expected.at("most_pieces").get<std::size_t>());
      for (std::size_t j = 0; j < num_pieces; ++j) text += pieces[draw(pieces.size())];
      std::vector<TokenId> tokens = tokenizer->encode(text);
      tokens.push_back(-1);
      for (const TokenId token : tokens) {
        for (int shift = 0; shift < 32; shift += 8) {
          const char byte = static_cast<char>(static_cast<std::uint32_t>(token) >> shift);
          value = stable_hash({&byte, 1}, value);
        }
      }
      texts += text + "\n";
    }
    CHECK_MESSAGE(value == std::stoull(hash.get<std::string>(), nullptr, 16), "one of " << texts);
  }
}

TEST_CASE("smollm2: questions asked at once are answered as transformers does, and a chat goes on") {
  const auto model = find_smollm2();
  if (!model) return;
  const json expected = expectations();
  REQUIRE(expected.at("chats").size() >= 40);
  const ServerProcess server(serve_flags(*model, {"--memory", "1GiB", "--cache-host-memory", "0"}));
  check_questions(server, expected.at("chats"));
  const json& turns = expected.at("conversation");
  check_turns(server, turns, 0, turns.size() - 1);
  CHECK(found_by_last_turn(server, turns, "device") >= full_pages(turns));
}

TEST_CASE("smollm2: a chat goes on from keys and values that left the device, and in the next process") {
  const auto model = find_smollm2();
  if (!model) return;
  const SmallContext small(*model);
  const TemporaryDirectory store;
  const json expected = expectations(), &turns = expected.at("conversation");
  const auto flags = serve_flags(
      small.path(), {"--memory", "148MiB", "--cache-host-memory", "256MiB", "--max-batch-tokens", "128",
                     "--max-batch-sequences", "8", "--store-directory", store.path().string()});
  {
    ServerProcess server(flags);
    check_turns(server, turns, 0, turns.size() - 1);
    check_questions(server, expected.at("chats"));
    CHECK(found_by_last_turn(server, turns, "host") >= full_pages(turns));
    server.signal(SIGTERM);
    REQUIRE(server.wait() == 0);
  }
  const ServerProcess server(flags);
  CHECK(found_by_last_turn(server, turns, "disk") >= full_pages(turns));
}
