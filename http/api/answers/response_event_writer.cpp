// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/response_event_writer.hpp"

#include <utility>

#include "http/json/json_text.hpp"

namespace troupe {

namespace {

using Kind = AnswerItem::Kind;

}  // namespace

ResponseEventWriter::ResponseEventWriter(const ResponseIdentity& identity,
                                         std::shared_ptr<const ConversationTurn> turn, EventFraming framing,
                                         std::int64_t after)
    : identity_(identity),
      answer_(std::make_shared<Answer>(Answer{.turn = std::move(turn)})),
      framer_(framing),
      after_(after) {}

void ResponseEventWriter::begin(std::string& out, const Usage&) {
  const std::size_t start = framer_.begin(out);
  AnswerJson json(out);
  response_event(json, "response.created", view(ResponseStatus::kInProgress));
  response_event(json, "response.in_progress", view(ResponseStatus::kInProgress));
  long_event_ = framer_.end(out, start, json, answer_, false);
}

// Closed items are kept by the answer, the pieces of this delta by a copy of it.
void ResponseEventWriter::delta(std::string& out, const TextDelta& given) {
  struct Kept {
    std::shared_ptr<const void> answer, delta;
  };
  const auto kept = keep_if_long(given);
  const TextDelta& delta = kept ? *kept : given;
  const std::size_t start = framer_.begin(out);
  AnswerJson json(out);
  for (const AnswerPiece& piece : pieces_of(delta)) add_piece(json, piece, delta.tokens);
  answer_->items.add_tokens(given.tokens);
  const auto owner =
      json.has_gaps() ? std::make_shared<const Kept>(Kept{.answer = answer_, .delta = kept}) : nullptr;
  long_event_ = framer_.end(out, start, json, owner, false);
}

// Tokens without text are sent with the next one.
std::shared_ptr<const TextDelta> ResponseEventWriter::keep_if_long(const TextDelta& given) {
  auto& unsent = answer_->unsent_tokens;
  if (given.text.empty()) {
    unsent.insert(unsent.end(), given.tokens.begin(), given.tokens.end());
  } else if (!unsent.empty()) {
    auto kept = std::make_shared<TextDelta>(given);
    kept->tokens.insert(kept->tokens.begin(), unsent.begin(), unsent.end());
    unsent.clear();
    return kept;
  }
  return AnswerJson::is_long(given) ? std::make_shared<const TextDelta>(given) : nullptr;
}

void ResponseEventWriter::add_piece(AnswerJson& json, const AnswerPiece& piece,
                                    std::span<const AnswerToken> tokens) {
  AnswerItems& items = answer_->items;
  if (items.begins_item(piece)) {
    close_item(json, ResponseStatus::kCompleted);
    items.add(AnswerPiece{.kind = piece.kind, .begun = piece.begun});
    name_call(items.last(), answer_->turn->tool_names);
    open_item(json);
  }
  items.add(AnswerPiece{.kind = piece.kind, .text = piece.text});
  // Those of markers are of no text.
  if (piece.kind != Kind::kText) answer_->unsent_tokens.clear();
  if (piece.text.empty() || items.last().is_custom) return;
  switch (piece.kind) {
    case Kind::kText: return text_delta(json, piece.text, tokens);
    case Kind::kReasoning: return plain_delta(json, "response.reasoning_text.delta", piece.text);
    case Kind::kCall: return plain_delta(json, "response.function_call_arguments.delta", piece.text);
  }
}

void ResponseEventWriter::open_item(AnswerJson& json) {
  item_event(json, "response.output_item.added", ResponseStatus::kInProgress, false);
  if (answer_->items.last().kind == Kind::kText) part_event(json, "response.content_part.added", "");
}

// The API wants the text in each of these events. Log-probabilities went with
// the deltas; of these events the last response alone repeats them.
void ResponseEventWriter::close_item(AnswerJson& json, ResponseStatus status) {
  if (answer_->items.all().empty()) return;
  AnswerItem& item = answer_->items.last();
  switch (item.kind) {
    case Kind::kText: close_text(json, item); break;
    case Kind::kReasoning: done_event(json, "response.reasoning_text.done", "text"); break;
    case Kind::kCall:
      finish_call(item);
      if (item.is_custom) plain_delta(json, "response.custom_tool_call_input.delta", item.text);
      done_event(
          json,
          item.is_custom ? "response.custom_tool_call_input.done" : "response.function_call_arguments.done",
          item.is_custom ? "input" : "arguments");
  }
  item_event(json, "response.output_item.done", status, true);
}

void ResponseEventWriter::close_text(AnswerJson& json, const AnswerItem& item) {
  std::string& out = json.out();
  if (open_event(out, "response.output_text.done")) {
    append_place(out);
    out += ",\"text\":";
    json.text(item.text);
    out += ",\"logprobs\":[]}\n\n";
  }
  part_event(json, "response.content_part.done", item.text);
}

void ResponseEventWriter::finish(std::string& out, const Finished& finished) {
  const auto status = status_of(finished.reason);
  const std::size_t start = framer_.begin(out);
  AnswerJson json(out);
  if (answer_->items.all().empty()) {
    answer_->items.close();
    open_item(json);
  }
  if (answer_->items.last().kind == Kind::kText && !answer_->unsent_tokens.empty())
    text_delta(json, "", answer_->unsent_tokens);
  close_item(json, status);
  auto response = view(status);
  response.is_stored = finished.is_stored;
  response.answer = &answer_->items;
  response.usage = &finished.usage;
  response.timings = &finished.timings;
  response_event(json, "response." + std::string(name_of(status)), response);
  long_event_ = framer_.end(out, start, json, answer_, true);
}

void ResponseEventWriter::error(std::string& out, const HttpError& error) {
  const std::size_t start = framer_.begin(out);
  AnswerJson json(out);
  auto response = view(ResponseStatus::kFailed);
  response.error = &error;
  response.answer = &answer_->items;
  response_event(json, "response.failed", response);
  long_event_ = framer_.end(out, start, json, answer_, true);
}

ResponseView ResponseEventWriter::view(ResponseStatus status) const {
  return {.id = identity_.id,
          .created = identity_.created,
          .model = identity_.model,
          .previous = answer_->turn->previous,
          .instructions = answer_->turn->instructions,
          .settings = answer_->turn->settings,
          .status = status,
          .is_stored = answer_->turn->is_stored};
}

bool ResponseEventWriter::open_event(std::string& out, std::string_view type) {
  const std::int64_t number = next_number_++;
  if (number <= after_) return false;
  out.append("event: ").append(type).append("\ndata: {\"type\":\"").append(type);
  out += "\",\"sequence_number\":";
  append_json_integer(out, number);
  out += ",";
  return true;
}

void ResponseEventWriter::response_event(AnswerJson& json, std::string_view type,
                                         const ResponseView& response) {
  std::string& out = json.out();
  if (!open_event(out, type)) return;
  out += "\"response\":";
  append_response_object(json, response);
  out += "}\n\n";
}

void ResponseEventWriter::text_delta(AnswerJson& json, std::string_view text,
                                     std::span<const AnswerToken> tokens) {
  std::string& out = json.out();
  if (!open_event(out, "response.output_text.delta")) return;
  append_place(out);
  out += ",\"delta\":";
  json.text(text);
  out += ",\"logprobs\":";
  json.logprobs(ResponseShape::kResponse, tokens);
  out += "}\n\n";
}

void ResponseEventWriter::plain_delta(AnswerJson& json, std::string_view type, std::string_view text) {
  std::string& out = json.out();
  if (!open_event(out, type)) return;
  append_place(out);
  out += ",\"delta\":";
  json.text(text);
  out += "}\n\n";
}

void ResponseEventWriter::done_event(AnswerJson& json, std::string_view type, std::string_view member) {
  std::string& out = json.out();
  const AnswerItem& item = *last_item().item;
  if (!open_event(out, type)) return;
  append_place(out);
  if (item.kind == Kind::kCall) {
    out += ",\"name\":";
    append_json_string(out, item.name);
  }
  out.append(",\"").append(member).append("\":");
  json.text(item.text);
  out += "}\n\n";
}

void ResponseEventWriter::item_event(AnswerJson& json, std::string_view type, ResponseStatus status,
                                     bool has_content) {
  std::string& out = json.out();
  auto item = last_item();
  item.status = status;
  item.has_content = has_content;
  if (!open_event(out, type)) return;
  out += "\"output_index\":";
  append_json_integer(out, static_cast<std::int64_t>(item.index));
  out += ",\"item\":";
  append_output_item(json, item);
  out += "}\n\n";
}

void ResponseEventWriter::part_event(AnswerJson& json, std::string_view type, std::string_view text) {
  std::string& out = json.out();
  if (!open_event(out, type)) return;
  append_place(out);
  out += ",\"part\":";
  append_output_text(json, text);
  out += "}\n\n";
}

OutputItemView ResponseEventWriter::last_item() const {
  const auto& items = answer_->items.all();
  return {.response_id = identity_.id, .index = items.size() - 1, .item = &items.back()};
}

void ResponseEventWriter::append_place(std::string& out) const {
  const auto item = last_item();
  out += "\"item_id\":";
  append_json_string(out, item_id(item));
  out += ",\"output_index\":";
  append_json_integer(out, static_cast<std::int64_t>(item.index));
  if (item.item->kind != Kind::kCall) out += ",\"content_index\":0";
}

}  // namespace troupe
