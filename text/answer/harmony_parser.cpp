// SPDX-License-Identifier: Apache-2.0
#include "text/answer/harmony_parser.hpp"

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "text/answer/answer_parser.hpp"
#include "text/answer/json_scanner.hpp"
#include "text/detokenizer.hpp"
#include "text/tokenizer/tokenizer.hpp"

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

std::string shown_mark(const AnswerReading& reading, std::string_view mark) {
  return (reading.has_special_marks ? std::string(1, kSpecialTokenMark) : "") + std::string(mark);
}

std::vector<std::string> shown_ends(const AnswerReading& reading) {
  std::vector<std::string> ends;
  for (const char* end : harmony::kEnds) ends.push_back(shown_mark(reading, end));
  return ends;
}

void append_unmarked(std::string& out, std::string_view text) {
  std::copy_if(text.begin(), text.end(), std::back_inserter(out),
               [](char byte) { return byte != kSpecialTokenMark; });
}

// Where a body ends, or may: a mark that is not whole yet.
struct BodyEnd {
  std::size_t at = 0;
  std::size_t size = 0;  // of the mark; 0: not whole
};

BodyEnd body_end(std::string_view text, const std::vector<std::string>& ends) {
  BodyEnd first{.at = text.size()};
  for (const std::string_view mark : ends) {
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

bool harmony::has_special_marks(const Tokenizer& tokenizer) {
  const auto is_special = [&](const char* mark) {
    const auto token = tokenizer.token_id(mark);
    return token && tokenizer.is_special(*token);
  };
  const std::initializer_list<const char*> marks = {"<|start|>", kChannel, kMessage, kEnd};
  return std::all_of(marks.begin(), marks.end(), is_special);
}

HarmonyParser::HarmonyParser(const AnswerReading& reading)
    : reading_(reading),
      message_(shown_mark(reading, harmony::kMessage)),
      header_begins_{shown_mark(reading, "<|start|>"), shown_mark(reading, harmony::kChannel), "to="},
      ends_(shown_ends(reading)) {}

void HarmonyParser::push(std::string_view text, AnswerParts& out) {
  held_ += text;
  read(out);
}

void HarmonyParser::finish(AnswerEnd end, AnswerParts& out) {
  end_ = end;
  read(out);
}

void HarmonyParser::read(AnswerParts& out) {
  while (!is_done_ && step(out)) {
  }
}

// False: more text is needed.
bool HarmonyParser::step(AnswerParts& out) {
  return place_ == Place::kHeader ? take_header(out) : take_body(out);
}

bool HarmonyParser::take_header(AnswerParts& out) {
  const auto end = held_.find(message_);
  const auto first_end =
      end != std::string::npos ? end : held_.size() - std::min(held_.size(), message_.size() - 1);
  const bool is_header = may_be_header() && first_end <= kMaxHeaderBytes;
  if (is_header && end != std::string::npos) {
    std::string header;
    append_unmarked(header, std::string_view(held_).substr(0, end));
    begin_body(header, out);
    held_.erase(0, end + message_.size());
    return true;
  }
  if (is_header && end_ == AnswerEnd::kCut && has_begun_header()) held_.clear();
  if (held_.empty() || (is_header && !end_)) return false;
  place_ = Place::kText;  // of a model that has left the notation
  return true;
}

// A header begins with a mark or a recipient, perhaps behind white space.
bool HarmonyParser::may_be_header() const {
  const auto text = std::string_view(held_).substr(skip_json_space(held_, 0));
  return std::any_of(header_begins_.begin(), header_begins_.end(), [&](std::string_view begin) {
    const auto num = std::min(begin.size(), text.size());
    return begin.substr(0, num) == text.substr(0, num);
  });
}

bool HarmonyParser::has_begun_header() const {
  const auto text = std::string_view(held_).substr(skip_json_space(held_, 0));
  return std::any_of(header_begins_.begin(), header_begins_.end(),
                     [&](const std::string& begin) { return text.starts_with(begin); });
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

bool HarmonyParser::take_body(AnswerParts& out) {
  const auto end = body_end(held_, ends_);
  show(std::string_view(held_).substr(0, end_ && end.size == 0 ? held_.size() : end.at), out);
  if (end.size == 0) {
    held_.erase(0, end_ ? held_.size() : end.at);
    // <|call|> ends the answer and is not shown.
    if (end_ == AnswerEnd::kWhole && place_ == Place::kCall) end_body(out);
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
    case Place::kReasoning: append_unmarked(out.reasoning, text); break;
    case Place::kText:
      // A preamble and the answer are paragraphs.
      if (!is_begun_ && has_text_) out.text += "\n\n";
      append_unmarked(out.text, text);
      has_text_ = true;
      break;
    case Place::kCall:
      if (out.calls.empty()) out.calls.push_back({.index = num_calls_ - 1});
      append_unmarked(out.calls.back().arguments, text);
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
