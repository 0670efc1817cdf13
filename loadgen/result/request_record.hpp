// SPDX-License-Identifier: Apache-2.0
// The outcome of one request of a load experiment, live or simulated. Times run
// from the begin of the run; latencies count from the *intended* send time, so
// that a server that holds up the generator does not look faster for it
// (coordinated omission).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::loadgen {

enum class Outcome : std::uint8_t {
  kCompleted,    // with its finish reason, and in full
  kRefused,      // 429 or 503: overload, said so
  kRejected,     // any other status that is not 2xx
  kUnreachable,  // no connection, or it was lost before the answer's head
  kTimedOut,     // by our own clock
  kBroken,       // the stream ended early, held an error event, or made no sense
  kUnfinished,   // still going when the run ended
  kCancelled,    // given up by its client, as planned: neither completed nor failed
};
inline constexpr std::size_t kNumOutcomes = 8;

// RequestRecord::error of a kCancelled one whose client read no more, but kept the connection.
inline constexpr std::string_view kStoppedReading = "its client stopped reading, as planned";

// "completed", "timed_out": as files and tables name it.
std::string_view outcome_name(Outcome outcome);
std::optional<Outcome> outcome_from_name(std::string_view name);

struct RequestRecord {
  using Time = std::chrono::nanoseconds;

  std::uint64_t conversation = 0;
  std::uint32_t turn = 0;
  std::uint32_t request_class = 0;

  Time intended{0};
  Time sent{0};         // its first byte was handed to the kernel
  Time first_token{0};  // first chunk with text; 0: none came
  Time last_token{0};
  Time finished{0};  // the end of the answer, or of our patience
  // Gaps between successive chunks of text, microseconds.
  std::vector<std::uint32_t> gaps_us;

  std::uint32_t prompt_tokens = 0;  // as the server counts them; planned if it does not say
  std::uint32_t cached_tokens = 0;
  std::uint32_t output_tokens = 0;   // from usage; chunks if the server does not say
  std::optional<Time> server_queue;  // where the server says how long it waited

  Outcome outcome = Outcome::kUnfinished;
  std::uint16_t status = 0;        // of HTTP; 0: none
  std::string error;               // one line; empty if completed
  std::optional<bool> is_correct;  // where the answer was known

  Time client_delay() const { return sent - intended; }
  Time time_to_first_token() const { return first_token - intended; }
  Time end_to_end() const { return finished - intended; }
  // (end to end - TTFT) / (output tokens - 1); of no meaning for one token.
  Time time_per_output_token() const {
    return output_tokens > 1 ? (last_token - first_token) / (output_tokens - 1) : Time{0};
  }
  Time normalized_latency() const { return output_tokens > 0 ? end_to_end() / output_tokens : Time{0}; }
};

}  // namespace troupe::loadgen
