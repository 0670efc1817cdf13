// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/http/answer_content.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "telemetry/json_depth.hpp"

namespace troupe::loadgen {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxErrorBytes = 200;

// Appends a JSON string whose content begins `text`. Returns where it ends,
// which is at its closing quote; npos if it has none, or escapes that are rare.
std::size_t append_string(std::string& out, std::string_view text) {
  std::size_t from = 0;
  for (;;) {
    const auto at = text.find_first_of("\"\\", from);
    if (at == std::string_view::npos) return at;
    out += text.substr(from, at - from);
    if (text[at] == '"') return at;
    switch (at + 1 < text.size() ? text[at + 1] : '\0') {
      case 'n': out += '\n'; break;
      case 't': out += '\t'; break;
      case '"': out += '"'; break;
      case '\\': out += '\\'; break;
      case '/': out += '/'; break;
      default: return std::string_view::npos;
    }
    from = at + 2;
  }
}

// Discarded if it is no JSON, or nested as no server answers.
json parsed(std::string_view text) {
  return is_nested_deeper(text) ? json(json::value_t::discarded) : json::parse(text, nullptr, false);
}

// Valid UTF-8 stays so.
std::string one_line(std::string_view text) {
  auto size = std::min(text.size(), kMaxErrorBytes);
  while (size < text.size() && size > 0 && (text[size] & 0xC0) == 0x80) --size;
  std::string line;
  for (const char c : text.substr(0, size)) {
    const bool is_space = static_cast<unsigned char>(c) <= ' ';
    if (!is_space)
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  if (size < text.size()) line += "...";
  return line;
}

std::string error_message(const json& error) {
  if (error.is_string()) return error.get<std::string>();
  if (error.is_object())
    for (const char* name : {"message", "detail", "error"})
      if (const auto found = error.find(name); found != error.end()) return error_message(*found);
  return error.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::uint32_t count_of(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_unsigned()) return 0;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(found->get<std::uint64_t>(), UINT32_MAX));
}

void add_usage(AnswerContent& content, const json& usage) {
  const bool is_of_response = usage.contains("input_tokens");
  AnswerUsage counts{.prompt_tokens = count_of(usage, is_of_response ? "input_tokens" : "prompt_tokens"),
                     .output_tokens = count_of(usage, is_of_response ? "output_tokens" : "completion_tokens"),
                     .cached_tokens = 0};
  const auto details = usage.find(is_of_response ? "input_tokens_details" : "prompt_tokens_details");
  if (details != usage.end() && details->is_object())
    counts.cached_tokens = count_of(*details, "cached_tokens");
  content.usage = counts;
}

// Members outside the choices; false if there is an error among them.
bool add_envelope(AnswerContent& content, const json& answer) {
  if (const auto error = answer.find("error"); error != answer.end() && !error->is_null()) {
    content.error = one_line(error_message(*error));
    return false;
  }
  if (const auto usage = answer.find("usage"); usage != answer.end() && usage->is_object())
    add_usage(content, *usage);
  if (const auto timings = answer.find("timings"); timings != answer.end() && timings->is_object())
    if (const auto queue = timings->find("queue_ms"); queue != timings->end() && queue->is_number())
      content.queue_ms = queue->get<double>();
  return true;
}

// True if the message or delta holds output.
bool add_message(AnswerContent& content, const json& message) {
  bool has_output = false;
  for (const char* name : {"content", "text", "reasoning_content", "reasoning"}) {
    const auto found = message.find(name);
    if (found == message.end() || !found->is_string()) continue;
    const auto& text = found->get_ref<const std::string&>();
    has_output = has_output || !text.empty();
    if (name[0] != 'r') content.text += text;  // thoughts are output, not the answer
  }
  const auto calls = message.find("tool_calls");
  return has_output || (calls != message.end() && calls->is_array() && !calls->empty());
}

std::string text_member(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// A response as an object: its head, and once it has ended all of it.
ChunkKind add_response(AnswerContent& content, const json& response) {
  if (!response.is_object()) return ChunkKind::kMalformed;
  content.response_id = text_member(response, "id");
  if (!add_envelope(content, response)) return ChunkKind::kError;
  const auto status = text_member(response, "status");
  if (status == "completed") content.finish_reason = "stop";
  if (status == "incomplete") content.finish_reason = "length";
  return ChunkKind::kOther;
}

// An event of /v1/responses, by its type.
ChunkKind add_response_event(AnswerContent& content, const json& event, const std::string& type) {
  if (type.ends_with(".delta")) {
    const auto delta = text_member(event, "delta");
    if (type == "response.output_text.delta") content.text += delta;
    return delta.empty() ? ChunkKind::kOther : ChunkKind::kText;
  }
  const auto response = event.find("response");
  return response == event.end() ? ChunkKind::kOther : add_response(content, *response);
}

// The text of a whole response's messages.
ChunkKind add_whole_response(AnswerContent& content, const json& response) {
  const auto kind = add_response(content, response);
  const auto output = response.find("output");
  if (kind != ChunkKind::kOther || output == response.end() || !output->is_array()) return kind;
  for (const auto& item : *output) {
    const auto parts = item.is_object() ? item.find("content") : item.end();
    if (!item.is_object() || parts == item.end() || !parts->is_array()) continue;
    for (const auto& part : *parts)
      if (part.is_object() && text_member(part, "type") == "output_text")
        content.text += text_member(part, "text");
  }
  return kind;
}

// Of /v1/embeddings: vectors, which nobody reads here.
bool is_embedding(const json& answer) {
  const auto vectors = answer.find("data");
  return text_member(answer, "object") == "list" && vectors != answer.end() && vectors->is_array() &&
         !vectors->empty();
}

ChunkKind add_parsed(AnswerContent& content, std::string_view text, const char* message_name) {
  const auto answer = parsed(text);
  if (!answer.is_object()) return ChunkKind::kMalformed;
  if (const auto type = text_member(answer, "type"); type.starts_with("response."))
    return add_response_event(content, answer, type);
  if (text_member(answer, "object") == "response") return add_whole_response(content, answer);
  if (!add_envelope(content, answer)) return ChunkKind::kError;
  if (is_embedding(answer)) {
    content.finish_reason = "stop";
    return ChunkKind::kOther;
  }
  const auto choices = answer.find("choices");
  if (choices == answer.end() || !choices->is_array()) return ChunkKind::kMalformed;
  bool has_output = false;
  for (const auto& choice : *choices) {
    if (!choice.is_object()) return ChunkKind::kMalformed;
    const auto message = choice.find(message_name);
    if (add_message(content, message != choice.end() && message->is_object() ? *message : choice))
      has_output = true;
    if (const auto reason = choice.find("finish_reason"); reason != choice.end() && reason->is_string())
      content.finish_reason = reason->get<std::string>();
  }
  return has_output ? ChunkKind::kText : ChunkKind::kOther;
}

}  // namespace

ChunkKind ChunkReader::add(AnswerContent& content, std::string_view json) {
  if (add_known(content, json)) return ChunkKind::kText;
  AnswerContent chunk;
  const auto kind = add_parsed(chunk, json, "delta");
  content.text += chunk.text;
  if (!chunk.response_id.empty()) content.response_id = chunk.response_id;
  if (!chunk.finish_reason.empty()) content.finish_reason = chunk.finish_reason;
  if (chunk.usage) content.usage = chunk.usage;
  if (chunk.queue_ms) content.queue_ms = chunk.queue_ms;
  content.error = chunk.error;
  const bool has_only_text = chunk.finish_reason.empty() && !chunk.usage && !chunk.queue_ms;
  if (kind == ChunkKind::kText && has_only_text) remember(json, chunk.text);
  return kind;
}

bool ChunkReader::add_known(AnswerContent& content, std::string_view json) const {
  if (before_text_.empty() || !json.starts_with(before_text_)) return false;
  const auto size_before = content.text.size();
  const auto rest = json.substr(before_text_.size());
  const auto end = append_string(content.text, rest);
  const bool is_known = end != std::string_view::npos && end > 0 && rest.substr(end) == after_text_;
  if (!is_known) content.text.resize(size_before);
  return is_known;
}

// Inside a JSON string a quote has a backslash before it, so that a key with its
// quotes and colon is found nowhere but where it is a key.
void ChunkReader::remember(std::string_view json, std::string_view text) {
  for (const std::string_view key : {"\"content\":\"", "\"content\": \"", "\"text\":\"", "\"text\": \""}) {
    const auto at = json.find(key);
    if (at == std::string_view::npos || json.rfind(key) != at) continue;
    const auto begin = at + key.size();
    std::string found;
    const auto end = append_string(found, json.substr(begin));
    if (end == std::string_view::npos || found != text) continue;
    before_text_ = json.substr(0, begin);
    after_text_ = json.substr(begin + end);
    return;
  }
}

ChunkKind add_whole_answer(AnswerContent& content, std::string_view json) {
  const auto kind = add_parsed(content, json, "message");
  return kind == ChunkKind::kOther ? ChunkKind::kText : kind;
}

std::string error_text(std::string_view body) {
  const auto error = parsed(body);
  if (error.is_object()) return one_line(error_message(error));
  std::string text(body.substr(0, kMaxErrorBytes + 1));  // in who knows what encoding
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c >= 0x7F; }, '?');
  return one_line(text);
}

}  // namespace troupe::loadgen
