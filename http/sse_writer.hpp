// SPDX-License-Identifier: Apache-2.0
// The events of one streamed answer as bytes. Pure: appends to a string, knows
// nothing of sockets. What never changes within a stream is formatted once; a
// token costs copying and escaping, no DOM and no allocation of its own.
//
//   role -> delta* -> finish -> [usage] -> done          a chat
//           delta* -> finish -> [usage] -> done          a text completion
#pragma once

#include <string>
#include <string_view>

#include "http/event_framer.hpp"
#include "http/response_json.hpp"
#include "http/stream_writer.hpp"

namespace troupe {

class SseWriter final : public StreamWriter {
 public:
  SseWriter(const ResponseIdentity& identity, EventFraming framing, bool include_usage,
            bool continuous_usage_stats);

  // The chunk that says who speaks; nothing for text completions.
  void begin(std::string& out, const Usage& usage) override;
  void delta(std::string& out, const TextDelta& delta) override;
  // Finish chunk, usage chunk if it was asked for, [DONE], end of body.
  void finish(std::string& out, const Finished& finished) override;
  // No [DONE]: the answer is not complete.
  void error(std::string& out, const HttpError& error) override;
  void heartbeat(std::string& out) override { framer_.heartbeat(out); }

 private:
  void append_usage_member(std::string& out, const Usage& usage) const;

  EventFramer framer_;
  ResponseShape shape_;
  bool is_chat_;
  bool include_usage_;
  bool continuous_usage_stats_;
  std::string head_;             // data: {"id":…,"model":…,"choices":[
  std::string before_text_;      // {"index":0,"delta":{"content":  or  {"index":0,"text":
  std::string_view after_text_;  // up to the log-probabilities
};

}  // namespace troupe
