// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/ollama/ollama_writer.hpp"

#include <memory>
#include <utility>

namespace troupe {

void OllamaWriter::begin(std::string&, const Usage&) {}

void OllamaWriter::delta(std::string& out, const TextDelta& given) {
  const auto kept = AnswerJson::is_long(given) ? std::make_shared<const TextDelta>(given) : nullptr;
  const TextDelta& delta = kept ? *kept : given;
  const std::size_t start = framer_.begin(out);
  const std::size_t content = out.size();
  AnswerJson json(out);
  std::span<const AnswerToken> tokens = delta.tokens;  // with the text, or on a line of their own
  for (const AnswerPiece& piece : pieces_of(delta)) {
    const bool is_text = piece.kind == AnswerItem::Kind::kText;
    add_piece(json, piece, is_text ? std::exchange(tokens, {}) : std::span<const AnswerToken>());
  }
  if (!tokens.empty()) add_line(json, {.tokens = tokens});
  // An empty chunk would end the body.
  if (out.size() == content) return out.resize(start);
  long_event_ = framer_.end(out, start, json, kept, false);
}

void OllamaWriter::add_piece(AnswerJson& json, const AnswerPiece& piece,
                             std::span<const AnswerToken> tokens) {
  if (piece.kind != AnswerItem::Kind::kCall) {
    add_call(json.out());
    const bool is_text = piece.kind == AnswerItem::Kind::kText;
    return add_line(json, is_text ? OllamaPortion{.text = piece.text, .tokens = tokens}
                                  : OllamaPortion{.reasoning = piece.text});
  }
  if (piece.begun != nullptr) {
    add_call(json.out());
    call_ = CallDelta{.index = num_calls_++, .id = piece.begun->id, .name = piece.begun->name};
  }
  if (call_) call_->arguments += piece.text;
}

// The open call, if there is one, is whole.
void OllamaWriter::add_call(std::string& out) {
  const auto call = std::exchange(call_, std::nullopt);
  if (!call) return;
  AnswerJson json(out, AnswerJson::Long::kAtOnce);
  add_line(json, {.calls = {&*call, 1}});
}

void OllamaWriter::add_line(AnswerJson& json, const OllamaPortion& portion) const {
  json.out() += head_;
  append_ollama_portion(json, shape_, portion);
  json.out() += ",\"done\":false}\n";
}

void OllamaWriter::finish(std::string& out, const Finished& finished) {
  const std::size_t start = framer_.begin(out);
  add_call(out);
  AnswerJson json(out);
  out += head_;
  append_ollama_portion(json, shape_, {});
  append_ollama_end(out, finished);
  out += '\n';
  framer_.end(out, start);
  framer_.end_body(out);
}

void OllamaWriter::error(std::string& out, const HttpError& error) {
  const std::size_t start = framer_.begin(out);
  out += ollama_error_json(error) + "\n";
  framer_.end(out, start);
  framer_.end_body(out);
}

void OllamaWriter::heartbeat(std::string& out) {
  const std::size_t start = framer_.begin(out);
  AnswerJson json(out);
  add_line(json, {});
  framer_.end(out, start);
}

}  // namespace troupe
