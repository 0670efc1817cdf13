// SPDX-License-Identifier: Apache-2.0
#include "http/sse_writer.hpp"

#include "http/json_text.hpp"

namespace troupe {
namespace {

// The length of a chunk is written after its content is known; six digits are
// set aside and leading zeros are legal: chunk-size = 1*HEXDIG.
constexpr std::string_view kChunkSizePlaceholder = "000000\r\n";
constexpr std::size_t kChunkSizeDigits = 6;

}  // namespace

SseWriter::SseWriter(const ResponseIdentity& identity, EventFraming framing, bool include_usage,
                     bool continuous_usage_stats)
    : framing_(framing),
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
  after_text_ = is_chat_ ? "},\"logprobs\":null,\"finish_reason\":null}]"
                         : ",\"logprobs\":null,\"finish_reason\":null}]";
}

void SseWriter::role(std::string& out, const Usage& usage) const {
  if (!is_chat_) return;
  const std::size_t start = begin_event(out);
  out += head_;
  out += "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
         "\"logprobs\":null,\"finish_reason\":null}]";
  append_usage_member(out, usage);
  out += "}\n\n";
  end_event(out, start);
}

void SseWriter::delta(std::string& out, std::string_view text, const Usage& usage) const {
  const std::size_t start = begin_event(out);
  out += before_text_;
  append_json_string(out, text);
  out += after_text_;
  append_usage_member(out, usage);
  out += "}\n\n";
  end_event(out, start);
}

void SseWriter::finish(std::string& out, const Finished& finished) const {
  const std::size_t start = begin_event(out);
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
  end_event(out, start);
  end_body(out);
}

void SseWriter::error(std::string& out, const HttpError& error) const {
  const std::size_t start = begin_event(out);
  out += "data: ";
  out += error_json(error);
  out += "\n\n";
  end_event(out, start);
  end_body(out);
}

void SseWriter::heartbeat(std::string& out) const {
  const std::size_t start = begin_event(out);
  out += ": ping\n\n";
  end_event(out, start);
}

void SseWriter::append_usage_member(std::string& out, const Usage& usage) const {
  if (continuous_usage_stats_) {
    out += ",\"usage\":";
    append_usage(out, usage);
  } else if (include_usage_) {
    out += ",\"usage\":null";
  }
}

std::size_t SseWriter::begin_event(std::string& out) const {
  const std::size_t start = out.size();
  if (framing_ == EventFraming::kChunked) out += kChunkSizePlaceholder;
  return start;
}

void SseWriter::end_event(std::string& out, std::size_t start) const {
  if (framing_ != EventFraming::kChunked) return;
  constexpr std::string_view kHex = "0123456789abcdef";
  std::size_t size = out.size() - start - kChunkSizePlaceholder.size();
  for (std::size_t digit = kChunkSizeDigits; digit > 0; --digit, size >>= 4) {
    out[start + digit - 1] = kHex[size & 15];
  }
  out += "\r\n";
}

void SseWriter::end_body(std::string& out) const {
  if (framing_ == EventFraming::kChunked) out += "0\r\n\r\n";
}

}  // namespace troupe
