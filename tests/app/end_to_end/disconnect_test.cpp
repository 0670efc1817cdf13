// SPDX-License-Identifier: Apache-2.0
// The real binary and model, with little memory, and clients that vanish at any
// moment: while they still write their request, while it waits, while its pages
// are loaded or its prompt is computed, in mid-answer, streamed or not, with a
// reset, a close, or a half-close. Nothing of them may stay. TROUPE_DISCONNECTS=n
// sends so many.
#include "tests/http/test_client.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <cstdlib>
#include <list>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/http/chat.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/observability/server_metrics.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/sanitizers.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

#if defined(TROUPE_ASAN)
constexpr std::size_t kInEveryRun = 200;
#else
constexpr std::size_t kInEveryRun = 500;
#endif
constexpr std::size_t kMostAtOnce = 24;
constexpr std::size_t kNumConversations = 24;

std::vector<std::string> little_memory(const std::string& store) {
  // clang-format off
  return {"--model", TROUPE_SOURCE_DIR "/models/demo", "--memory", "16MiB", "--compute-type", "bf16",
          "--cache-host-memory", "6MiB", "--cache-disk-space", "8MiB", "--store-directory", store,
          "--max-batch-sequences", "8", "--max-batch-tokens", "128", "--prefill-chunk", "64",
          "--max-waiting", "12", "--log-format", "json", "--log-level", "info", "--log-requests"};
  // clang-format on
}

std::size_t num_disconnects() {
  const char* text = std::getenv("TROUPE_DISCONNECTS");
  return text ? std::strtoul(text, nullptr, 10) : kInEveryRun;
}

std::string counted(int first, int last) {
  std::string text = std::to_string(first);
  for (int i = first + 1; i <= last; ++i) text += ", " + std::to_string(i);
  return text;
}

// Some hundred tokens that no other conversation begins with, then a question.
std::string conversation_body(std::size_t which, std::mt19937_64& random) {
  const auto number = std::to_string(which);
  auto messages = json::array();
  const auto say = [&](const char* role, const std::string& text) {
    messages.push_back({{"role", role}, {"content", text}});
  };
  say("user", "My number is " + number + ".");
  say("assistant", "Your number is " + number + ".");
  for (int exchange = 0; exchange < 2; ++exchange) {
    const int first = static_cast<int>(which) + exchange;
    say("user", "Count from " + std::to_string(first) + " to " + std::to_string(first + 60) + ".");
    say("assistant", counted(first, first + 60));
  }
  say("user", "Count from 1 to 100.");
  const json body = {{"model", "demo"},    {"messages", messages},        {"temperature", 0},
                     {"ignore_eos", true}, {"stream", random() % 2 == 0}, {"max_tokens", random() % 100 + 1}};
  return body.dump();
}

struct Visitor {
  TestClient client;
  std::size_t leaves_at = 0;  // when so many have come
  bool has_asked = true;      // all of its request
};

// Comes, and may not even finish what it has to say.
Visitor arrive(std::uint16_t port, std::size_t number, std::mt19937_64& random) {
  const int buffer = random() % 4 == 0 ? 2048 : 0;  // a small one, so that answers back up
  Visitor visitor{.client = TestClient(port, buffer), .leaves_at = number + random() % kMostAtOnce};
  const auto body = conversation_body(random() % kNumConversations, random);
  const auto request = post_request("/v1/chat/completions", body);
  visitor.has_asked = random() % 8 != 0;
  visitor.client.send(
      std::string_view(request).substr(0, visitor.has_asked ? request.size() : random() % request.size()));
  return visitor;
}

void leave(Visitor& visitor, std::mt19937_64& random) {
  const auto manner = random() % 16;
  if (manner < 5)
    visitor.client.reset();
  else if (manner < 10)
    visitor.client.half_close();
  else if (manner == 10 && visitor.has_asked)
    visitor.client.read_until("\"content\"");
  visitor.client.close();
}

void come_and_go(std::uint16_t port) {
  std::mt19937_64 random(5);
  std::list<Visitor> visitors;
  for (std::size_t number = 0; number < num_disconnects(); ++number) {
    visitors.push_back(arrive(port, number, random));
    // Time passes while somebody reads.
    auto reader = visitors.begin();
    std::advance(reader, random() % visitors.size());
    if (random() % 2 == 0) reader->client.read_some(std::chrono::milliseconds(random() % 20));
    for (auto visitor = visitors.begin(); visitor != visitors.end();) {
      const bool is_due = visitor->leaves_at <= number;
      if (is_due) leave(*visitor, random);
      visitor = is_due ? visitors.erase(visitor) : std::next(visitor);
    }
  }
  for (auto& visitor : visitors) leave(visitor, random);
}

// How many of the cancelled requests were in which state, by the server's log.
struct States {
  int waiting = 0, prefilling = 0, decoding = 0;
};

States states_of(const std::string& log) {
  States states;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("{")) continue;
    const auto entry = json::parse(line);
    if (entry.value("end", "") != "cancelled") continue;
    if (entry.at("completion_tokens") > 0) {
      states.decoding += 1;
    } else {
      (entry.at("prefill_ms") > 0 ? states.prefilling : states.waiting) += 1;
    }
  }
  return states;
}

}  // namespace

TEST_CASE("disconnects: clients that vanish at any moment leave no page held and no request open") {
  const TemporaryDirectory store;
  ServerProcess server(little_memory(store.path().string()));
  come_and_go(server.port());
  const ServerMetrics metrics = metrics_when_idle(server.port());
  CHECK(metrics.num_open() == 0);
  for (const char* tier : {"device", "host", "disk"}) {
    CAPTURE(tier);
    const double capacity = metrics.sum("troupe_kv_pages_capacity", "tier=\"" + std::string(tier) + "\"");
    CHECK(capacity > 0);
    CHECK(metrics.pages(tier, "running") == 0);
    CHECK(metrics.pages(tier, "free") + metrics.pages(tier, "cached") == capacity);
  }
  const double cancelled = metrics.sum("troupe_requests_total", "finished_reason=\"cancelled\"");
  const double loaded = metrics.sum("troupe_kv_pages_loaded_total");
  const double read = metrics.sum("troupe_kv_pages_read_total");
  CHECK(metrics.sum("troupe_http_client_disconnects_total") > 0);
  CHECK(loaded > 0);
  CHECK(read > 0);
  CHECK(metrics.sum("troupe_kv_pages_stored_total") > 0);
  CHECK(metrics.sum("troupe_worker_restarts_total") + metrics.sum("troupe_actor_failures_total") == 0);

  const json question = {
      {"model", "demo"}, {"messages", user_asks("Count from 3 to 7.")}, {"temperature", 0}};
  const auto answer = http_post(server.port(), "/v1/chat/completions", question.dump());
  CHECK(answer.body.find("3, 4, 5, 6, 7") != std::string::npos);
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);

  const States states = states_of(server.output());
  MESSAGE(num_disconnects(), " came and went: ", cancelled, " requests cancelled, of which ", states.waiting,
          " waited, ", states.prefilling, " were prefilling, ", states.decoding, " decoding; ", loaded,
          " pages loaded from the host, ", read, " read from disk");
  CHECK(states.waiting > 0);
  CHECK(states.prefilling > 0);
  CHECK(states.decoding > 0);
}
