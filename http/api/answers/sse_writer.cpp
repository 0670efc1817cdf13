// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/sse_writer.hpp"

#include <memory>

#include "http/json/json_text.hpp"

namespace troupe {

SseWriter::SseWriter(const ResponseIdentity& identity, EventFraming framing, const SseOptions& options)
    : framer_(framing),
      shape_(identity.shape),
      is_chat_(identity.shape == ResponseShape::kChat),
      options_(options),
      id_("id: " + std::string(identity.id) + ":") {
  head_ = "data: {\"id\":";
  append_json_string(head_, identity.id);
  head_ += is_chat_ ? ",\"object\":\"chat.completion.chunk\"" : ",\"object\":\"text_completion\"";
  head_ += ",\"created\":";
  append_json_integer(head_, identity.created);
  head_ += ",\"model\":";
  append_json_string(head_, identity.model);
  head_ += ",\"choices\":[";
  choose(0);
  after_text_ = is_chat_ ? "},\"logprobs\":" : ",\"logprobs\":";
}

void SseWriter::choose(std::uint32_t choice) {
  before_choice_ = head_ + "{\"index\":" + std::to_string(choice) + ",";
  before_text_ = before_choice_ + (is_chat_ ? "\"delta\":{\"content\":" : "\"text\":");
}

bool SseWriter::open_event(std::string& out) {
  if (!options_.has_ids) return true;
  const std::int64_t number = next_number_++;
  if (number <= options_.after) return false;
  out += id_;
  append_json_integer(out, number);
  out += '\n';
  return true;
}

void SseWriter::begin(std::string& out, const Usage& usage) {
  if (!is_chat_) return;
  const std::size_t start = framer_.begin(out);
  if (!open_event(out)) return framer_.end(out, start);
  out += before_choice_;
  out +=
      "\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
      "\"logprobs\":null,\"finish_reason\":null}]";
  append_usage_member(out, usage);
  out += "}\n\n";
  framer_.end(out, start);
}

void SseWriter::delta(std::string& out, const TextDelta& given) {
  // An echoed prompt may be long, and so may an argument.
  const auto kept = AnswerJson::is_long(given) ? std::make_shared<const TextDelta>(given) : nullptr;
  const TextDelta& delta = kept ? *kept : given;
  const std::size_t start = framer_.begin(out);
  AnswerJson json(out);
  if (!delta.reasoning.empty()) append_reasoning(json, delta);
  const bool is_split = !delta.reasoning.empty() || !delta.calls.empty();
  if (!is_split || !delta.text.empty() || !delta.tokens.empty()) append_text(json, delta);
  for (const CallDelta& call : delta.calls) append_call(json, call, delta.usage);
  long_event_ = framer_.end(out, start, json, kept, false);
}

void SseWriter::append_reasoning(AnswerJson& json, const TextDelta& delta) {
  std::string& out = json.out();
  if (!open_event(out)) return;
  out += before_choice_;
  out += "\"delta\":{\"reasoning_content\":";
  json.text(delta.reasoning);
  out += "},\"logprobs\":null,\"finish_reason\":null}]";
  append_usage_member(out, delta.usage);
  out += "}\n\n";
}

// A call's first chunk has all but its arguments; clients join what follows.
void SseWriter::append_call(AnswerJson& json, const CallDelta& call, const Usage& usage) {
  std::string& out = json.out();
  if (!open_event(out)) return;
  out += before_choice_;
  out += "\"delta\":{\"tool_calls\":[{\"index\":";
  append_json_integer(out, call.index);
  if (!call.name.empty()) {
    out += ",\"id\":";
    append_json_string(out, call.id);
    out += ",\"type\":\"function\"";
  }
  out += ",\"function\":{";
  if (!call.name.empty()) {
    out += "\"name\":";
    append_json_string(out, call.name);
    out += ',';
  }
  out += "\"arguments\":";
  json.text(call.arguments);
  out += "}}]},\"logprobs\":null,\"finish_reason\":null}]";
  append_usage_member(out, usage);
  out += "}\n\n";
}

void SseWriter::append_text(AnswerJson& json, const TextDelta& delta) {
  std::string& out = json.out();
  if (!open_event(out)) return;
  out += before_text_;
  json.text(delta.text);
  out += after_text_;
  if (delta.tokens.empty()) {
    out += "null";
  } else {
    json.logprobs(shape_, delta.tokens);
  }
  out += ",\"finish_reason\":null}]";
  append_usage_member(out, delta.usage);
  out += "}\n\n";
}

void SseWriter::append_finish_chunk(std::string& out, const Finished& finished,
                                    const RequestTimings* timings) {
  if (!open_event(out)) return;
  out += before_choice_;
  out += is_chat_ ? "\"delta\":{},\"logprobs\":null," : "\"text\":\"\",\"logprobs\":null,";
  append_finish(out, finished);
  out += "}]";
  append_usage_member(out, finished.usage);
  if (timings != nullptr) append_timings_member(out, *timings, finished.usage);
  out += "}\n\n";
}

void SseWriter::finish_choice(std::string& out, const Finished& finished) {
  const std::size_t start = framer_.begin(out);
  append_finish_chunk(out, finished, nullptr);
  framer_.end(out, start);
}

void SseWriter::finish(std::string& out, const Finished& finished) {
  const std::size_t start = framer_.begin(out);
  // Timings are in whichever chunk is the last.
  append_finish_chunk(out, finished, options_.include_usage ? nullptr : &finished.timings);
  if (options_.include_usage && open_event(out)) {
    out += head_;
    out += "],\"usage\":";
    append_usage(out, finished.usage);
    append_timings_member(out, finished.timings, finished.usage);
    out += "}\n\n";
  }
  if (open_event(out)) out += "data: [DONE]\n\n";
  framer_.end(out, start);
  framer_.end_body(out);
}

void SseWriter::error(std::string& out, const HttpError& error) {
  const std::size_t start = framer_.begin(out);
  if (open_event(out)) {
    out += "data: ";
    out += error_json(error);
    out += "\n\n";
  }
  framer_.end(out, start);
  framer_.end_body(out);
}

void SseWriter::append_usage_member(std::string& out, const Usage& usage) const {
  if (options_.continuous_usage_stats) {
    out += ",\"usage\":";
    append_usage(out, usage);
  } else if (options_.include_usage) {
    out += ",\"usage\":null";
  }
}

}  // namespace troupe
