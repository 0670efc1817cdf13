// SPDX-License-Identifier: Apache-2.0
// A server that does what a test wrote down, to the millisecond, right or
// wrong, and stamps what it does with the clock that its clients use.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::test {

struct ScriptedStep {
  std::chrono::microseconds delay{0};  // after the step before; the first: after the request
  std::string bytes;                   // as they go over the wire
};

struct ScriptedAnswer {
  enum class End : std::uint8_t { kKeep, kClose, kReset, kHang };

  std::vector<ScriptedStep> steps;
  End end = End::kKeep;
};

struct ScriptedExchange {
  using Time = std::chrono::steady_clock::time_point;

  std::string head;
  std::string body;
  Time received;
  std::vector<Time> sent;  // just before each step's bytes were handed to the kernel
};

class ScriptedServer {
 public:
  // Called on the server's thread for each request, numbered from 0.
  using Script = std::function<ScriptedAnswer(const ScriptedExchange& request, std::size_t number)>;

  explicit ScriptedServer(Script script);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  std::uint16_t port() const;
  std::size_t num_connections() const;  // accepted up to now
  // Closes everything; from then on nobody listens.
  void stop();
  // After stop().
  const std::vector<std::unique_ptr<ScriptedExchange>>& exchanges() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// Pieces of answers.
std::string event_stream_head();                // chunked
std::string chunk_of(std::string_view bytes);   // one HTTP chunk
std::string text_event(std::string_view text);  // an event in a chunk
std::string finish_events(std::size_t num_tokens,
                          std::string_view reason = "stop");  // finish, usage, [DONE], end
ScriptedAnswer whole_response(std::string_view status, std::string_view body, std::string_view fields = {});

// Head at once, each text after its delay, the end with the last text.
ScriptedAnswer streamed_answer(const std::vector<std::chrono::microseconds>& delays);

}  // namespace troupe::test
