// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/message_event_writer.hpp"

#include <memory>
#include <utility>

#include "http/api/answers/message_json.hpp"
#include "http/json/json_text.hpp"
#include "text/stable_hash.hpp"

namespace troupe {
namespace {

// An event up to where its own members begin.
void open_event(std::string& out, std::string_view type) {
  out.append("event: ").append(type).append("\ndata: {\"type\":\"").append(type).append("\"");
}

constexpr std::string_view kEnd = "}\n\n";

using Kind = AnswerItem::Kind;

std::string_view delta_of(Kind kind) {
  switch (kind) {
    case Kind::kReasoning: return "{\"type\":\"thinking_delta\",\"thinking\":";
    case Kind::kText: return "{\"type\":\"text_delta\",\"text\":";
    case Kind::kCall: break;
  }
  return "{\"type\":\"input_json_delta\",\"partial_json\":";
}

}  // namespace

void MessageEventWriter::begin(std::string&, const Usage&) {}

void MessageEventWriter::start_message(std::string& out, const Usage& usage) {
  if (has_started_) return;
  has_started_ = true;
  open_event(out, "message_start");
  out += ",\"message\":{\"id\":";
  append_json_string(out, identity_.id);
  out += ",\"type\":\"message\",\"role\":\"assistant\",\"model\":";
  append_json_string(out, identity_.model);
  out += ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":";
  append_message_usage(out, usage);
  out.append("}").append(kEnd);
  open_event(out, "ping");
  out += kEnd;
}

void MessageEventWriter::delta(std::string& out, const TextDelta& given) {
  const auto kept = AnswerJson::is_long(given) ? std::make_shared<const TextDelta>(given) : nullptr;
  const TextDelta& delta = kept ? *kept : given;
  const std::size_t start = framer_.begin(out);
  AnswerJson json(out);
  start_message(out, delta.usage);
  for (const AnswerPiece& piece : pieces_of(delta)) add_piece(json, piece);
  long_event_ = framer_.end(out, start, json, kept, false);
}

void MessageEventWriter::add_piece(AnswerJson& json, const AnswerPiece& piece) {
  std::string& out = json.out();
  if (piece.begun != nullptr || open_ != piece.kind) {
    stop_block(out);
    start_block(out, piece);
  }
  if (piece.text.empty()) return;
  if (piece.kind == Kind::kReasoning) thinking_hash_ = stable_hash(piece.text, thinking_hash_);
  open_block_event(out, "content_block_delta");
  out.append(",\"delta\":").append(delta_of(piece.kind));
  json.text(piece.text);
  out.append("}").append(kEnd);
}

void MessageEventWriter::start_block(std::string& out, const AnswerPiece& piece) {
  open_ = piece.kind;
  ++num_blocks_;
  open_block_event(out, "content_block_start");
  out += ",\"content_block\":{\"type\":";
  switch (piece.kind) {
    case Kind::kReasoning:
      thinking_hash_ = stable_hash("");
      out += "\"thinking\",\"thinking\":\"\",\"signature\":\"\"";
      break;
    case Kind::kText: out += "\"text\",\"text\":\"\""; break;
    case Kind::kCall:
      out += "\"tool_use\",\"id\":";
      append_json_string(out, piece.begun != nullptr ? piece.begun->id : std::string());
      out += ",\"name\":";
      append_json_string(out, piece.begun != nullptr ? piece.begun->name : std::string());
      out += ",\"input\":{}";
  }
  out.append("}").append(kEnd);
}

void MessageEventWriter::stop_block(std::string& out) {
  const auto kind = std::exchange(open_, std::nullopt);
  if (!kind) return;
  if (kind == Kind::kReasoning) {
    open_block_event(out, "content_block_delta");
    out += ",\"delta\":{\"type\":\"signature_delta\",\"signature\":";
    append_json_string(out, thinking_signature(thinking_hash_));
    out.append("}").append(kEnd);
  }
  open_block_event(out, "content_block_stop");
  out += kEnd;
}

void MessageEventWriter::open_block_event(std::string& out, std::string_view type) const {
  open_event(out, type);
  out += ",\"index\":";
  append_json_integer(out, std::int64_t{num_blocks_} - 1);
}

void MessageEventWriter::finish(std::string& out, const Finished& finished) {
  const std::size_t start = framer_.begin(out);
  start_message(out, finished.usage);
  stop_block(out);
  open_event(out, "message_delta");
  out += ",\"delta\":{";
  append_message_stop(out, finished);
  out += "},\"usage\":";
  append_message_usage(out, finished.usage);
  append_timings_member(out, finished.timings, finished.usage);
  out += kEnd;
  open_event(out, "message_stop");
  out += kEnd;
  framer_.end(out, start);
  framer_.end_body(out);
}

void MessageEventWriter::error(std::string& out, const HttpError& error) {
  const std::size_t start = framer_.begin(out);
  out += "event: error\ndata: " + message_error_json(error, request_id_) + "\n\n";
  framer_.end(out, start);
  framer_.end_body(out);
}

}  // namespace troupe
