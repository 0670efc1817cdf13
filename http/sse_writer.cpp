// SPDX-License-Identifier: Apache-2.0
#include "http/sse_writer.hpp"

#include "http/json_text.hpp"
#include "http/logprobs_json.hpp"

namespace troupe {

SseWriter::SseWriter(const ResponseIdentity& identity, EventFraming framing, bool include_usage,
                     bool continuous_usage_stats)
    : framer_(framing),
      shape_(identity.shape),
      is_chat_(identity.shape == ResponseShape::kChat),
      include_usage_(include_usage),
      continuous_usage_stats_(continuous_usage_stats) {
  head_ = "data: {\"id\":";
  append_json_string(head_, identity.id);
  head_ += is_chat_ ? ",\"object\":\"chat.completion.chunk\"" : ",\"object\":\"text_completion\"";
  head_ += ",\"created\":";
  append_json_integer(head_, identity.created);
  head_ += ",\"model\":";
  append_json_string(head_, identity.model);
  head_ += ",\"choices\":[";
  before_text_ = head_ + (is_chat_ ? "{\"index\":0,\"delta\":{\"content\":" : "{\"index\":0,\"text\":");
  after_text_ = is_chat_ ? "},\"logprobs\":" : ",\"logprobs\":";
}

void SseWriter::begin(std::string& out, const Usage& usage) {
  if (!is_chat_) return;
  const std::size_t start = framer_.begin(out);
  out += head_;
  out +=
      "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
      "\"logprobs\":null,\"finish_reason\":null}]";
  append_usage_member(out, usage);
  out += "}\n\n";
  framer_.end(out, start);
}

void SseWriter::delta(std::string& out, const TextDelta& delta) {
  const std::size_t start = framer_.begin(out);
  out += before_text_;
  append_json_string(out, delta.text);
  out += after_text_;
  if (delta.tokens.empty()) {
    out += "null";
  } else {
    append_logprobs(out, shape_, delta.tokens);
  }
  out += ",\"finish_reason\":null}]";
  append_usage_member(out, delta.usage);
  out += "}\n\n";
  framer_.end(out, start);
}

void SseWriter::finish(std::string& out, const Finished& finished) {
  const std::size_t start = framer_.begin(out);
  out += head_;
  out += is_chat_ ? "{\"index\":0,\"delta\":{},\"logprobs\":null,"
                  : "{\"index\":0,\"text\":\"\",\"logprobs\":null,";
  append_finish(out, finished);
  out += "}]";
  append_usage_member(out, finished.usage);
  // In whichever chunk is the last.
  if (!include_usage_) append_timings_member(out, finished.timings, finished.usage);
  out += "}\n\n";
  if (include_usage_) {
    out += head_;
    out += "],\"usage\":";
    append_usage(out, finished.usage);
    append_timings_member(out, finished.timings, finished.usage);
    out += "}\n\n";
  }
  out += "data: [DONE]\n\n";
  framer_.end(out, start);
  framer_.end_body(out);
}

void SseWriter::error(std::string& out, const HttpError& error) {
  const std::size_t start = framer_.begin(out);
  out += "data: ";
  out += error_json(error);
  out += "\n\n";
  framer_.end(out, start);
  framer_.end_body(out);
}

void SseWriter::append_usage_member(std::string& out, const Usage& usage) const {
  if (continuous_usage_stats_) {
    out += ",\"usage\":";
    append_usage(out, usage);
  } else if (include_usage_) {
    out += ",\"usage\":null";
  }
}

}  // namespace troupe
