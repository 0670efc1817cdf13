// SPDX-License-Identifier: Apache-2.0
// A name told at the beginning of a conversation is remembered after the page
// that holds it has been through each tier: left on the device, pushed to the
// host and loaded, dropped and computed again, written to disk and read by the
// next process. /metrics tells that it was there.
#include "tests/support/http/chat.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <string>
#include <vector>

#include "tests/support/observability/server_metrics.hpp"
#include "tests/support/process/server_process.hpp"

using namespace troupe::test;

namespace {

using Flags = std::vector<std::string>;

Flags serve_flags(const Flags& more) {
  Flags flags = {"--model",
                 TROUPE_SOURCE_DIR "/models/demo",
                 "--compute-type",
                 "bf16",
                 "--log-level",
                 "warning",
                 "--max-batch-sequences",
                 "8",
                 "--max-batch-tokens",
                 "128",
                 "--prefill-chunk",
                 "64"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

Conversation tell_name(const ServerProcess& server) {
  Conversation conversation;
  conversation.say(server.port(), "My name is Anna.");
  for (const char* between :
       {"Count from 3 to 40.", "Spell the word cat.", "What is 12 + 7?", "Count from 50 to 80."})
    conversation.say(server.port(), between);
  return conversation;
}

// Another conversation, of some two pages of its own for each number.
void talk_of_something_else(const ServerProcess& server, int number) {
  Conversation other;
  other.say(server.port(), "My number is " + std::to_string(number) + ".");
  other.say(server.port(),
            "Count from " + std::to_string(number) + " to " + std::to_string(number + 20) + ".");
}

// Tokens by where they came from while the name was asked for.
struct Found {
  double device = 0, host = 0, disk = 0, recomputed = 0;
};

Found ask_name(const ServerProcess& server, Conversation& conversation) {
  const ServerMetrics before(server.port());
  CHECK(content_of(conversation.say(server.port(), "What is my name?")).find("Anna") != std::string::npos);
  const ServerMetrics after(server.port());
  const auto since = [&](const char* tier) { return after.hits(tier) - before.hits(tier); };
  return {.device = since("device"),
          .host = since("host"),
          .disk = since("disk"),
          .recomputed =
              after.sum("troupe_recomputed_tokens_total") - before.sum("troupe_recomputed_tokens_total")};
}

// The history's tokens whose keys and values are known: all but the last one drawn.
double rows(const Conversation& conversation) { return conversation.num_tokens() - 1; }

// The same but for its last page, which is not full.
double full_pages(const Conversation& conversation) { return (conversation.num_tokens() - 1) / 32 * 32; }

}  // namespace

TEST_CASE("meaning: a name is remembered from pages that never left the device") {
  const ServerProcess server(serve_flags({"--memory", "64MiB", "--cache-host-memory", "0"}));
  auto conversation = tell_name(server);
  const double history = rows(conversation);
  REQUIRE(history >= 64);
  const Found found = ask_name(server, conversation);
  CHECK(found.device == history);
  CHECK(found.host + found.disk + found.recomputed == 0);
}

TEST_CASE("meaning: a name is remembered from pages that were pushed to the host and loaded") {
  const ServerProcess server(serve_flags({"--memory", "16MiB", "--cache-host-memory", "64MiB"}));
  auto conversation = tell_name(server);
  const double history = rows(conversation);
  for (int number = 1; number <= 60; ++number) talk_of_something_else(server, number);
  const Found found = ask_name(server, conversation);
  CHECK(found.host == history);
  CHECK(found.device + found.disk + found.recomputed == 0);
}

// The name's conversation is the oldest, and the oldest goes first, from its beginning:
// a hole in front of what is left. How soon all of it is gone depends on how long each
// of the others took, so that on a busy machine a fixed number of drops finds it whole
// or gone. Each round says its count of drops first; the answer must be right in all.
TEST_CASE("meaning: a name is remembered although its page was dropped, and computed again") {
  for (const double few : {24, 20, 28, 16, 32, 12, 22, 26, 18, 30, 14, 10, 8, 6, 4, 2}) {
    CAPTURE(few);
    const ServerProcess server(
        serve_flags({"--memory", "16MiB", "--cache-host-memory", "0", "--cache-measure", "false"}));
    const auto num_dropped = [&] {
      return ServerMetrics(server.port()).sum("troupe_kv_pages_evicted_total", "to=\"nowhere\"");
    };
    auto conversation = tell_name(server);
    const double history = full_pages(conversation);
    for (int number = 1; num_dropped() < few && number <= 80; ++number)
      talk_of_something_else(server, number);
    REQUIRE(num_dropped() >= few);
    const Found found = ask_name(server, conversation);
    CHECK(found.host + found.disk == 0);
    if (found.recomputed == 0) continue;  // whole, or gone but for the beginning that all have
    CHECK(found.recomputed >= 32);
    CHECK(found.device > 0);
    CHECK(found.device + found.recomputed == history);
    return;
  }
  FAIL("no number of drops left a hole");
}

TEST_CASE("meaning: a name is remembered although all of its conversation was dropped") {
  const ServerProcess server(serve_flags({"--memory", "16MiB", "--cache-host-memory", "0"}));
  auto conversation = tell_name(server);
  for (int number = 1; number <= 60; ++number) talk_of_something_else(server, number);
  const Found found = ask_name(server, conversation);
  CHECK(found.device < 8);  // "My n", which every other conversation begins with, too
  CHECK(found.host + found.disk == 0);
}

TEST_CASE("meaning: a name is remembered by the next process, from disk") {
  const TemporaryDirectory store;
  const auto flags = serve_flags({"--memory", "16MiB", "--cache-host-memory", "16MiB", "--cache-disk-space",
                                  "64MiB", "--store-directory", store.path().string()});
  Conversation conversation;
  {
    ServerProcess server(flags);
    conversation = tell_name(server);
    server.signal(SIGTERM);
    REQUIRE(server.wait() == 0);
  }
  const double history = full_pages(conversation);
  const ServerProcess server(flags);
  const Found found = ask_name(server, conversation);
  CHECK(found.disk == history);
  CHECK(found.device + found.host + found.recomputed == 0);
}
