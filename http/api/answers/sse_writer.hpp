// SPDX-License-Identifier: Apache-2.0
// The events of one streamed answer as bytes. Pure: appends to a string, knows
// nothing of sockets. The constant parts of a stream are formatted once; a
// token costs copying and escaping, no DOM and no allocation of its own.
//
//   role -> delta* -> finish -> [usage] -> done          a chat
//           a delta's reasoning, text and calls are chunks of their own
//           delta* -> finish -> [usage] -> done          a text completion
//
// Of an answer that can be taken up again each event has an id, "ID:NUMBER" from 0 on.
#pragma once

#include <string>
#include <string_view>

#include "http/api/answers/response_json.hpp"
#include "http/api/answers/stream_writer.hpp"
#include "http/wire/event_framer.hpp"

namespace troupe {

struct SseOptions {
  bool include_usage = false;
  bool continuous_usage_stats = false;
  bool has_ids = false;
  std::int64_t after = -1;  // with has_ids: events up to this number are left out
};

class SseWriter final : public StreamWriter {
 public:
  SseWriter(const ResponseIdentity& identity, EventFraming framing, const SseOptions& options);

  void choose(std::uint32_t choice) override;
  // Its finish chunk.
  void finish_choice(std::string& out, const Finished& finished) override;
  // The chunk with the role; nothing for text completions.
  void begin(std::string& out, const Usage& usage) override;
  void delta(std::string& out, const TextDelta& delta) override;
  // Finish chunk, usage chunk if it was asked for, [DONE], end of body.
  void finish(std::string& out, const Finished& finished) override;
  // No [DONE]: the answer is not complete.
  void error(std::string& out, const HttpError& error) override;
  void heartbeat(std::string& out) override { framer_.heartbeat(out); }

 private:
  // False: the event is left out, and counted.
  [[nodiscard]] bool open_event(std::string& out);
  void append_text(AnswerJson& json, const TextDelta& delta);
  void append_reasoning(AnswerJson& json, const TextDelta& delta);
  void append_call(AnswerJson& json, const CallDelta& call, const Usage& usage);
  void append_usage_member(std::string& out, const Usage& usage) const;
  void append_finish_chunk(std::string& out, const Finished& finished, const RequestTimings* timings);

  EventFramer framer_;
  ResponseShape shape_;
  bool is_chat_;
  const SseOptions options_;
  std::string id_;  // id: ID:
  std::int64_t next_number_ = 0;
  std::string head_;             // data: {"id":…,"model":…,"choices":[
  std::string before_choice_;    // and {"index":0,
  std::string before_text_;      // {"index":0,"delta":{"content":  or  {"index":0,"text":
  std::string_view after_text_;  // up to the log-probabilities
};

}  // namespace troupe
