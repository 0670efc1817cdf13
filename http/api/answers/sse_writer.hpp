// SPDX-License-Identifier: Apache-2.0
// The events of one streamed answer as bytes. Pure: appends to a string, knows
// nothing of sockets. The constant parts of a stream are formatted once; a
// token costs copying and escaping, no DOM and no allocation of its own.
//
//   role -> delta* -> finish -> [usage] -> done          a chat
//           a delta's reasoning, text and calls are chunks of their own
//           delta* -> finish -> [usage] -> done          a text completion
#pragma once

#include <string>
#include <string_view>

#include "http/api/answers/response_json.hpp"
#include "http/api/answers/stream_writer.hpp"
#include "http/wire/event_framer.hpp"

namespace troupe {

class SseWriter final : public StreamWriter {
 public:
  SseWriter(const ResponseIdentity& identity, EventFraming framing, bool include_usage,
            bool continuous_usage_stats);

  void choose(std::uint32_t choice) override;
  // Its finish chunk.
  void finish_choice(std::string& out, const Finished& finished) override;
  // The chunk that says who speaks; nothing for text completions.
  void begin(std::string& out, const Usage& usage) override;
  void delta(std::string& out, const TextDelta& delta) override;
  // Finish chunk, usage chunk if it was asked for, [DONE], end of body.
  void finish(std::string& out, const Finished& finished) override;
  // No [DONE]: the answer is not complete.
  void error(std::string& out, const HttpError& error) override;
  void heartbeat(std::string& out) override { framer_.heartbeat(out); }

 private:
  void append_text(AnswerJson& json, const TextDelta& delta) const;
  void append_reasoning(AnswerJson& json, const TextDelta& delta) const;
  void append_call(AnswerJson& json, const CallDelta& call, const Usage& usage) const;
  void append_usage_member(std::string& out, const Usage& usage) const;
  void append_finish_chunk(std::string& out, const Finished& finished, const RequestTimings* timings);

  EventFramer framer_;
  ResponseShape shape_;
  bool is_chat_;
  bool include_usage_;
  bool continuous_usage_stats_;
  std::string head_;             // data: {"id":…,"model":…,"choices":[
  std::string before_choice_;    // and {"index":0,
  std::string before_text_;      // {"index":0,"delta":{"content":  or  {"index":0,"text":
  std::string_view after_text_;  // up to the log-probabilities
};

}  // namespace troupe
