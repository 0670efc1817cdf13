// SPDX-License-Identifier: Apache-2.0
// The events of a streamed response (OpenAI's Responses API), each with its
// number and type:
//
//   created -> in_progress -> (output_item.added -> ITEM -> output_item.done)*
//     -> completed | incomplete | cancelled
//   … -> failed                          instead of the rest
//
// The events of an item of the answer:
//
//   text          content_part.added -> output_text.delta* -> output_text.done
//                   -> content_part.done
//   reasoning     reasoning_text.delta* -> reasoning_text.done
//   call          function_call_arguments.delta* -> function_call_arguments.done
//   custom call   custom_tool_call_input.delta -> custom_tool_call_input.done: its input
//                   is known when its arguments are whole
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "http/api/answers/response_json.hpp"
#include "http/api/answers/response_object.hpp"
#include "http/api/answers/stream_writer.hpp"
#include "http/wire/event_framer.hpp"

namespace troupe {

class ResponseEventWriter final : public StreamWriter {
 public:
  // identity's views must outlive the writer. after: events up to this number are left
  // out, which the client has; -1: none.
  ResponseEventWriter(const ResponseIdentity& identity, std::shared_ptr<const ConversationTurn> turn,
                      EventFraming framing, std::int64_t after = -1);

  void begin(std::string& out, const Usage& usage) override;
  void delta(std::string& out, const TextDelta& delta) override;
  void finish(std::string& out, const Finished& finished) override;
  void error(std::string& out, const HttpError& error) override;
  void heartbeat(std::string& out) override { framer_.heartbeat(out); }

 private:
  ResponseView view(ResponseStatus status) const;
  // event: …, and its payload up to where its own members begin. False: the event is
  // left out, and counted.
  [[nodiscard]] bool open_event(std::string& out, std::string_view type);
  void response_event(AnswerJson& json, std::string_view type, const ResponseView& response);
  void add_piece(AnswerJson& json, const AnswerPiece& piece, std::span<const AnswerToken> tokens);
  // About the last item:
  void open_item(AnswerJson& json);
  void close_item(AnswerJson& json, ResponseStatus status);
  void close_text(AnswerJson& json, const AnswerItem& item);
  void text_delta(AnswerJson& json, std::string_view text, std::span<const AnswerToken> tokens);
  void plain_delta(AnswerJson& json, std::string_view type, std::string_view text);
  void done_event(AnswerJson& json, std::string_view type, std::string_view member);
  void item_event(AnswerJson& json, std::string_view type, ResponseStatus status, bool has_content);
  void part_event(AnswerJson& json, std::string_view type, std::string_view text);
  OutputItemView last_item() const;
  // "item_id":…,"output_index":…, and of texts and reasoning "content_index":0
  void append_place(std::string& out) const;
  std::shared_ptr<const TextDelta> keep_if_long(const TextDelta& given);

  // Long events refer to it until they are written, after the writer is gone.
  struct Answer {
    std::shared_ptr<const ConversationTurn> turn;
    AnswerItems items = {};                       // all so far: the last events repeat it
    std::vector<AnswerToken> unsent_tokens = {};  // that came without text
  };

  const ResponseIdentity identity_;
  const std::shared_ptr<Answer> answer_;
  EventFramer framer_;
  const std::int64_t after_;
  std::int64_t next_number_ = 0;
};

}  // namespace troupe
