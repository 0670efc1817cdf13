// SPDX-License-Identifier: Apache-2.0
// The events of one streamed answer as bytes. Pure: appends to a string, knows
// nothing of sockets. What never changes within a stream is formatted once; a
// token costs copying and escaping, no DOM and no allocation of its own.
//
//   role -> delta* -> finish -> [usage] -> done          a chat
//           delta* -> finish -> [usage] -> done          a text completion
//   … -> error                                           instead of the rest
#pragma once

#include <string>
#include <string_view>

#include "http/error_response.hpp"
#include "http/response_json.hpp"

namespace troupe {

// How events are wrapped on the wire: one chunk each, or as they are for
// clients of HTTP/1.0.
enum class EventFraming : std::uint8_t { kChunked, kPlain };

class SseWriter {
 public:
  SseWriter(const ResponseIdentity& identity, EventFraming framing, bool include_usage,
            bool continuous_usage_stats);

  // The chunk that says who speaks; nothing for text completions.
  void role(std::string& out, const Usage& usage) const;
  void delta(std::string& out, std::string_view text, const Usage& usage) const;
  // Finish chunk, usage chunk if it was asked for, [DONE], end of body.
  void finish(std::string& out, const Finished& finished) const;
  // Ends the stream in place of finish(). No [DONE]: the answer is not complete.
  void error(std::string& out, const HttpError& error) const;
  // A comment, which clients skip and which keeps proxies and TCP awake.
  void heartbeat(std::string& out) const;

 private:
  void append_usage_member(std::string& out, const Usage& usage) const;
  std::size_t begin_event(std::string& out) const;
  void end_event(std::string& out, std::size_t start) const;
  void end_body(std::string& out) const;

  EventFraming framing_;
  bool is_chat_;
  bool include_usage_;
  bool continuous_usage_stats_;
  std::string head_;           // data: {"id":…,"model":…,"choices":[
  std::string before_text_;    // {"index":0,"delta":{"content":  or  {"index":0,"text":
  std::string_view after_text_;
};

}  // namespace troupe
