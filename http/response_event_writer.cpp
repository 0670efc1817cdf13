// SPDX-License-Identifier: Apache-2.0
#include "http/response_event_writer.hpp"

#include <utility>

#include "http/json_text.hpp"
#include "http/logprobs_json.hpp"

namespace troupe {

ResponseEventWriter::ResponseEventWriter(const ResponseIdentity& identity,
                                         std::shared_ptr<const ConversationTurn> turn, EventFraming framing)
    : identity_(identity), turn_(std::move(turn)), framer_(framing), message_id_(message_id(identity.id)) {}

void ResponseEventWriter::begin(std::string& out, const Usage&) {
  const std::size_t start = framer_.begin(out);
  response_event(out, "response.created", view(ResponseStatus::kInProgress));
  response_event(out, "response.in_progress", view(ResponseStatus::kInProgress));
  item_event(out, "response.output_item.added", ResponseStatus::kInProgress, false);
  part_event(out, "response.content_part.added", "", {});
  framer_.end(out, start);
}

void ResponseEventWriter::delta(std::string& out, const TextDelta& delta) {
  text_ += delta.text;
  tokens_.insert(tokens_.end(), delta.tokens.begin(), delta.tokens.end());
  const std::size_t start = framer_.begin(out);
  open_event(out, "response.output_text.delta");
  append_place(out);
  out += ",\"delta\":";
  append_json_string(out, delta.text);
  out += ",\"logprobs\":";
  append_logprobs(out, ResponseShape::kResponse, delta.tokens);
  out += "}\n\n";
  framer_.end(out, start);
}

void ResponseEventWriter::finish(std::string& out, const Finished& finished) {
  const auto status = status_of(finished.reason);
  const std::size_t start = framer_.begin(out);
  open_event(out, "response.output_text.done");
  append_place(out);
  out += ",\"text\":";
  append_json_string(out, text_);
  out += ",\"logprobs\":";
  append_logprobs(out, ResponseShape::kResponse, tokens_);
  out += "}\n\n";
  part_event(out, "response.content_part.done", text_, tokens_);
  item_event(out, "response.output_item.done", status, true);
  auto response = view(status);
  response.is_stored = finished.is_stored;
  response.text = text_;
  response.tokens = tokens_;
  response.usage = &finished.usage;
  response.timings = &finished.timings;
  response_event(out, "response." + std::string(name_of(status)), response);
  framer_.end(out, start);
  framer_.end_body(out);
}

void ResponseEventWriter::error(std::string& out, const HttpError& error) {
  const std::size_t start = framer_.begin(out);
  auto response = view(ResponseStatus::kFailed);
  response.error = &error;
  if (!text_.empty()) response.text = text_;
  response.tokens = tokens_;
  response_event(out, "response.failed", response);
  framer_.end(out, start);
  framer_.end_body(out);
}

ResponseView ResponseEventWriter::view(ResponseStatus status) const {
  return {.id = identity_.id,
          .created = identity_.created,
          .model = identity_.model,
          .previous = turn_->previous,
          .instructions = turn_->instructions,
          .settings = turn_->settings,
          .status = status,
          .is_stored = turn_->is_stored};
}

void ResponseEventWriter::open_event(std::string& out, std::string_view type) {
  out.append("event: ").append(type).append("\ndata: {\"type\":\"").append(type);
  out += "\",\"sequence_number\":";
  append_json_integer(out, next_number_++);
  out += ",";
}

void ResponseEventWriter::response_event(std::string& out, std::string_view type,
                                         const ResponseView& response) {
  open_event(out, type);
  out += "\"response\":";
  append_response_object(out, response);
  out += "}\n\n";
}

void ResponseEventWriter::item_event(std::string& out, std::string_view type, ResponseStatus status,
                                     bool has_text) {
  open_event(out, type);
  out += "\"output_index\":0,\"item\":";
  append_output_message(out, identity_.id, status,
                        has_text ? std::optional<std::string_view>(text_) : std::nullopt, tokens_);
  out += "}\n\n";
}

void ResponseEventWriter::part_event(std::string& out, std::string_view type, std::string_view text,
                                     std::span<const AnswerToken> tokens) {
  open_event(out, type);
  append_place(out);
  out += ",\"part\":";
  append_output_text(out, text, tokens);
  out += "}\n\n";
}

void ResponseEventWriter::append_place(std::string& out) const {
  out += "\"item_id\":";
  append_json_string(out, message_id_);
  out += ",\"output_index\":0,\"content_index\":0";
}

}  // namespace troupe
