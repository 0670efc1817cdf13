// SPDX-License-Identifier: Apache-2.0
// Answers of the real server as event streams, and how far they are.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <future>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/support/eventually.hpp"
#include "tests/support/http/chat.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/observability/server_metrics.hpp"
#include "tests/support/process/server_process.hpp"

namespace troupe::test {

// What came over an event stream: the text, and the number of tokens at its end.
struct Streamed {
  std::string text;
  int num_tokens = 0;
  bool operator==(const Streamed&) const = default;
};

inline Streamed streamed_answer(std::uint16_t port, const std::string& question, bool ignore_eos) {
  using nlohmann::json;
  const json body = {
      {"messages", user_asks(question)}, {"temperature", 0}, {"max_tokens", 800},
      {"ignore_eos", ignore_eos},        {"stream", true},   {"stream_options", {{"include_usage", true}}}};
  Streamed streamed;
  for (const auto& payload : sse_payloads(http_post(port, "/v1/chat/completions", body.dump()).body)) {
    if (payload == "[DONE]") continue;
    const json event = json::parse(payload);
    if (event.contains("error")) streamed.text += event.dump();
    if (event.contains("usage") && !event["usage"].is_null())
      streamed.num_tokens = event["usage"]["completion_tokens"];
    for (const auto& choice : event.value("choices", json::array()))
      streamed.text += choice["delta"].value("content", "");
  }
  return streamed;
}

inline Streamed stream_of(std::uint16_t port, const std::string& question) {
  return streamed_answer(port, question, false);
}

// The same, but it goes on behind its end to 800 tokens: what a test does in its midst has time.
inline Streamed long_stream_of(std::uint16_t port, const std::string& question) {
  return streamed_answer(port, question, true);
}

// A stream of its own thread.
inline std::future<Streamed> begin_long_stream(std::uint16_t port, const std::string& question) {
  return std::async(std::launch::async, long_stream_of, port, question);
}

// Until so many tokens were generated.
inline void wait_for_tokens(const ServerProcess& server, double count) {
  REQUIRE(eventually(
      [&] { return ServerMetrics(server.port()).sum("troupe_generation_tokens_total") >= count; }));
}

}  // namespace troupe::test
