// SPDX-License-Identifier: Apache-2.0
// The events of a streamed response (OpenAI's Responses API), each with its
// number and type:
//
//   created -> in_progress -> output_item.added -> content_part.added
//     -> output_text.delta* -> output_text.done -> content_part.done
//     -> output_item.done -> completed | incomplete
//   … -> failed                          instead of the rest
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "http/event_framer.hpp"
#include "http/response_json.hpp"
#include "http/response_object.hpp"
#include "http/stream_writer.hpp"

namespace troupe {

class ResponseEventWriter final : public StreamWriter {
 public:
  // identity's views must outlive the writer.
  ResponseEventWriter(const ResponseIdentity& identity, std::shared_ptr<const ConversationTurn> turn,
                      EventFraming framing);

  void begin(std::string& out, const Usage& usage) override;
  void delta(std::string& out, const TextDelta& delta) override;
  void finish(std::string& out, const Finished& finished) override;
  void error(std::string& out, const HttpError& error) override;
  void heartbeat(std::string& out) override { framer_.heartbeat(out); }

 private:
  ResponseView view(ResponseStatus status) const;
  // event: …, and its payload up to where its own members begin.
  void open_event(std::string& out, std::string_view type);
  void response_event(std::string& out, std::string_view type, const ResponseView& response);
  void item_event(std::string& out, std::string_view type, ResponseStatus status, bool has_text);
  void part_event(std::string& out, std::string_view type, std::string_view text,
                  std::span<const AnswerToken> tokens);
  // "item_id":…,"output_index":0,"content_index":0
  void append_place(std::string& out) const;

  const ResponseIdentity identity_;
  const std::shared_ptr<const ConversationTurn> turn_;
  EventFramer framer_;
  std::string message_id_;
  std::string text_;                 // all so far: the last events repeat it
  std::vector<AnswerToken> tokens_;  // of it, if they were asked for
  std::int64_t next_number_ = 0;
};

}  // namespace troupe
