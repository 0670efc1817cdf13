// SPDX-License-Identifier: Apache-2.0
// Reads one HTTP answer of an OpenAI-compatible server, streamed or whole, out
// of the bytes of a connection, and judges it. Pure: no sockets, no clock; the
// reader says when the bytes came. Everything kept is bounded.
//
//   head ──► events … [DONE] ──► rest of the body      streamed
//        ──► body                                      whole, or an error
//   The verdict is there with [DONE], an error, or the end of the body.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/client/http/answer_content.hpp"
#include "loadgen/result/request_record.hpp"

namespace troupe::loadgen {

using SteadyTime = std::chrono::steady_clock::time_point;

struct Answer {
  Outcome outcome = Outcome::kUnfinished;
  std::uint16_t status = 0;  // 0: no head came
  std::string error;         // one line
  AnswerContent content;
  std::uint32_t num_chunks = 0;  // with output
  SteadyTime first_token{};      // its epoch: none came
  SteadyTime last_token{};
  SteadyTime finished{};
  std::vector<std::uint32_t> gaps_us;
};

class AnswerReader {
 public:
  explicit AnswerReader(bool is_streamed);
  ~AnswerReader();
  AnswerReader(const AnswerReader&) = delete;
  AnswerReader& operator=(const AnswerReader&) = delete;

  // Takes bytes from the begin; returns how many. The rest has to be given
  // again, in front of what comes next.
  std::size_t feed(std::string_view bytes, SteadyTime now);
  // No more bytes will come: an error in words, or empty if the server closed.
  void end(std::string_view error, SteadyTime now);
  // Ends it from our side. Does nothing after the verdict.
  void give_up(Outcome outcome, std::string_view error, SteadyTime now);

  bool has_verdict() const;
  bool is_complete() const;  // and the verdict is a good one
  // The whole answer was read: the connection may take another request if
  // both sides keep it open.
  bool is_at_end() const;
  bool is_connection_kept() const;
  // After the verdict.
  Answer take_answer();

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace troupe::loadgen
