// SPDX-License-Identifier: Apache-2.0
// A name told at the beginning of a conversation is remembered after the page
// that holds it has been through each tier: left on the device, pushed to the
// host and loaded, dropped and computed again, written to disk and read by the
// next process. /metrics tells that it was there.
#include "tests/support/chat.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <string>
#include <vector>

#include "tests/support/server_metrics.hpp"
#include "tests/support/server_process.hpp"

using namespace troupe::test;

namespace {

using Flags = std::vector<std::string>;

Flags serve_flags(const Flags& more) {
  Flags flags = {"--model",
                 TROUPE_SOURCE_DIR "/models/demo",
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

// The history but for its last page, which is not full.
double full_pages(const Conversation& conversation) { return (conversation.num_tokens() - 1) / 32 * 32; }

}  // namespace

TEST_CASE("meaning: a name is remembered from pages that never left the device") {
  const ServerProcess server(serve_flags({"--memory", "64MiB", "--cache-host-memory", "0"}));
  auto conversation = tell_name(server);
  const double history = full_pages(conversation);
  REQUIRE(history >= 64);
  const Found found = ask_name(server, conversation);
  CHECK(found.device == history);
  CHECK(found.host + found.disk + found.recomputed == 0);
}

TEST_CASE("meaning: a name is remembered from pages that were pushed to the host and loaded") {
  const ServerProcess server(serve_flags({"--memory", "16MiB", "--cache-host-memory", "64MiB"}));
  auto conversation = tell_name(server);
  const double history = full_pages(conversation);
  for (int number = 1; number <= 60; ++number) talk_of_something_else(server, number);
  const Found found = ask_name(server, conversation);
  CHECK(found.host == history);
  CHECK(found.device + found.disk + found.recomputed == 0);
}

// The oldest conversation goes first, from its beginning: where only some pages
// have been dropped, the name's is among them, a hole in front of what is left.
TEST_CASE("meaning: a name is remembered although its page was dropped, and computed again") {
  const ServerProcess server(serve_flags({"--memory", "16MiB", "--cache-host-memory", "0"}));
  const auto num_dropped = [&] {
    return ServerMetrics(server.port()).sum("troupe_kv_pages_evicted_total", "to=\"nowhere\"");
  };
  auto conversation = tell_name(server);
  const double history = full_pages(conversation);
  int number = 1;
  for (; num_dropped() == 0 && number <= 80; ++number) talk_of_something_else(server, number);
  REQUIRE(num_dropped() > 0);
  const Found found = ask_name(server, conversation);
  CHECK(found.recomputed >= 32);
  CHECK(found.device > 0);
  CHECK(found.device + found.recomputed == history);
  CHECK(found.host + found.disk == 0);
}

TEST_CASE("meaning: a name is remembered although all of its conversation was dropped") {
  const ServerProcess server(serve_flags({"--memory", "16MiB", "--cache-host-memory", "0"}));
  auto conversation = tell_name(server);
  for (int number = 1; number <= 60; ++number) talk_of_something_else(server, number);
  const Found found = ask_name(server, conversation);
  CHECK(found.device + found.host + found.disk == 0);
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
