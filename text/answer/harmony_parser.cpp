// SPDX-License-Identifier: Apache-2.0
#include "text/answer/harmony_parser.hpp"

#include <algorithm>

#include "text/answer/answer_parser.hpp"
#include "text/answer/json_scanner.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMaxHeaderBytes = 1024;

// The word behind a mark: up to white space or the next mark.
std::string_view word_behind(std::string_view header, std::string_view mark) {
  const auto at = header.find(mark);
  if (at == std::string_view::npos) return {};
  const auto word = header.substr(at + mark.size());
  return word.substr(0, word.find_first_of(" \n\t<"));
}

// A header begins with a mark or a recipient, perhaps behind white space.
bool may_be_header(std::string_view text) {
  text.remove_prefix(skip_json_space(text, 0));
  const auto agrees = [&](std::string_view mark) {
    const auto num = std::min(mark.size(), text.size());
    return mark.substr(0, num) == text.substr(0, num);
  };
  return agrees(harmony::kStart) || agrees(harmony::kChannel) || agrees("to=");
}

// Where a body ends, or may: a mark that is not whole yet.
struct BodyEnd {
  std::size_t at = 0;
  std::size_t size = 0;  // of the mark; 0: not whole
};

BodyEnd body_end(std::string_view text) {
  BodyEnd first{.at = text.size()};
  for (const std::string_view mark : harmony::kEnds) {
    std::size_t at = text.find(mark);
    const bool is_whole = at != std::string_view::npos;
    if (!is_whole) {
      at = text.size() - std::min(text.size(), mark.size() - 1);
      while (at < text.size() && !mark.starts_with(text.substr(at))) ++at;
    }
    if (at < first.at) first = {.at = at, .size = is_whole ? mark.size() : 0};
  }
  return first;
}

}  // namespace

void HarmonyParser::push(std::string_view text, bool is_last, AnswerParts& out) {
  held_ += text;
  while (!is_done_ && step(is_last, out)) {
  }
}

// False: more text is needed.
bool HarmonyParser::step(bool is_last, AnswerParts& out) {
  return place_ == Place::kHeader ? take_header(is_last, out) : take_body(is_last, out);
}

bool HarmonyParser::take_header(bool is_last, AnswerParts& out) {
  const auto end = held_.find(harmony::kMessage);
  const bool is_header = may_be_header(held_) && std::min(end, held_.size()) <= kMaxHeaderBytes;
  if (is_header && end != std::string::npos) {
    begin_body(std::string_view(held_).substr(0, end), out);
    held_.erase(0, end + std::string_view(harmony::kMessage).size());
    return true;
  }
  if (held_.empty() || (is_header && !is_last)) return false;
  place_ = Place::kText;  // of a model that has left the notation
  return true;
}

void HarmonyParser::begin_body(std::string_view header, AnswerParts& out) {
  const auto name = word_behind(header, std::string_view(harmony::kRecipient).substr(1));
  is_begun_ = false;
  if (!name.empty() && reading_.reads_calls) {
    place_ = Place::kCall;
    out.calls.push_back(
        {.index = num_calls_, .id = call_id(reading_, num_calls_), .name = std::string(name)});
    ++num_calls_;
  } else {
    const bool is_reasoning = word_behind(header, harmony::kChannel) == "analysis";
    place_ = is_reasoning ? Place::kReasoning : Place::kText;
  }
}

bool HarmonyParser::take_body(bool is_last, AnswerParts& out) {
  const auto end = body_end(held_);
  show(std::string_view(held_).substr(0, is_last && end.size == 0 ? held_.size() : end.at), out);
  if (end.size == 0) {
    held_.erase(0, is_last ? held_.size() : end.at);
    return false;
  }
  held_.erase(0, end.at + end.size);
  end_body(out);
  return true;
}

void HarmonyParser::show(std::string_view text, AnswerParts& out) {
  if (text.empty()) return;
  switch (place_) {
    case Place::kHeader: break;
    case Place::kReasoning: out.reasoning += text; break;
    case Place::kText:
      // A preamble and the answer are paragraphs.
      if (!is_begun_ && has_text_) out.text += "\n\n";
      out.text += text;
      has_text_ = true;
      break;
    case Place::kCall:
      if (out.calls.empty()) out.calls.push_back({.index = num_calls_ - 1});
      out.calls.back().arguments += text;
      break;
  }
  is_begun_ = true;
}

void HarmonyParser::end_body(AnswerParts& out) {
  if (place_ == Place::kCall && !is_begun_) show("{}", out);
  is_done_ = place_ == Place::kCall && reading_.takes_one_call;
  place_ = Place::kHeader;
}

}  // namespace troupe
