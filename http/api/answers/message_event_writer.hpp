// SPDX-License-Identifier: Apache-2.0
// The events of a streamed message (Anthropic's Messages API), each with its name:
//
//   message_start -> ping
//     -> (content_block_start -> content_block_delta* -> content_block_stop)*
//     -> message_delta -> message_stop
//   … -> error                            instead of the rest
//
// A block is an item of the answer: thinking, text or tool_use. message_start waits for
// the first of them: only then is known how much of the prompt the cache had, and it
// says so.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "actors/request/answer/answer_items.hpp"
#include "http/api/answers/response_json.hpp"
#include "http/api/answers/stream_writer.hpp"
#include "http/wire/event_framer.hpp"

namespace troupe {

class MessageEventWriter final : public StreamWriter {
 public:
  // identity's views must outlive the writer.
  MessageEventWriter(const ResponseIdentity& identity, std::string_view request_id, EventFraming framing)
      : identity_(identity), request_id_(request_id), framer_(framing) {}

  void begin(std::string& out, const Usage& usage) override;
  void delta(std::string& out, const TextDelta& delta) override;
  void finish(std::string& out, const Finished& finished) override;
  void error(std::string& out, const HttpError& error) override;
  void heartbeat(std::string& out) override { framer_.heartbeat(out); }

 private:
  void start_message(std::string& out, const Usage& usage);
  void add_piece(AnswerJson& json, const AnswerPiece& piece);
  void start_block(std::string& out, const AnswerPiece& piece);
  void stop_block(std::string& out);
  // An event of the block that is open, up to its own members.
  void open_block_event(std::string& out, std::string_view type) const;

  const ResponseIdentity identity_;
  const std::string request_id_;
  EventFramer framer_;
  bool has_started_ = false;
  std::optional<AnswerItem::Kind> open_;  // the block that is
  std::uint32_t num_blocks_ = 0;          // begun
  std::uint64_t thinking_hash_ = 0;       // of the block, if it is one of thinking
};

}  // namespace troupe
