// SPDX-License-Identifier: Apache-2.0
#include "text/answer/answer_parser.hpp"

#include <algorithm>
#include <utility>

#include "text/answer/call_header.hpp"
#include "text/answer/json_scanner.hpp"

namespace troupe {
namespace {

std::vector<std::string> triggers_of(const AnswerReading& reading) {
  if (!reading.reads_calls || !reading.format.calls) return {};
  return reading.format.calls->triggers();
}

std::size_t num_trailing_space(std::string_view text) {
  std::size_t num = 0;
  while (num < text.size() && is_json_space(text[text.size() - 1 - num])) ++num;
  return num;
}

// Where marker may begin at or before the end of text; its size: nowhere.
std::size_t find_beginning(std::string_view text, std::string_view marker) {
  const auto whole = text.find(marker);
  if (whole != std::string_view::npos) return whole;
  std::size_t at = text.size() - std::min(text.size(), marker.size() - 1);
  while (at < text.size() && !marker.starts_with(text.substr(at))) ++at;
  return at;
}

}  // namespace

std::string call_id(const AnswerReading& reading, std::uint32_t number) {
  const auto digits = std::to_string(number);
  return reading.call_ids + std::string(4 - std::min<std::size_t>(4, digits.size()), '0') + digits;
}

AnswerParser::AnswerParser(AnswerReading reading)
    : reading_(std::move(reading)), schemas_(reading_.tools), triggers_(triggers_of(reading_)) {
  if (reading_.format.is_harmony()) harmony_.emplace(reading_);
  const bool has_reasoning = reading_.format.reasoning.exists();
  if (!has_reasoning) state_ = State::kText;
  if (has_reasoning && reading_.begins_in_reasoning) {
    state_ = State::kReasoning;
    drops_space_ = true;
  }
}

AnswerParts AnswerParser::push(std::string_view text) {
  AnswerParts out;
  if (harmony_) {
    harmony_->push(text, out);
    return out;
  }
  held_ += text;
  while (step(out)) {
  }
  return out;
}

AnswerParts AnswerParser::finish(AnswerEnd end) {
  is_ended_ = true;
  AnswerParts out;
  if (harmony_) {
    harmony_->finish(end, out);
    return out;
  }
  while (step(out)) {
  }
  return out;
}

// False: more text is needed.
bool AnswerParser::step(AnswerParts& out) {
  switch (state_) {
    case State::kStart: return start();
    case State::kReasoning: return take_reasoning(out);
    case State::kBehindReasoning: return skip_content_begin();
    case State::kText: return take_text(out);
    case State::kCall: return take_call(out);
    case State::kArguments: return take_arguments(out);
    case State::kBehindCall: return take_end_of_call();
    case State::kDone: held_.clear(); break;
  }
  return false;
}

bool AnswerParser::go_on(State state) {
  state_ = state;
  return true;
}

bool AnswerParser::start() {
  std::size_t at = 0;
  const auto match = match_literal(held_, at, reading_.format.reasoning.begin);
  if (match == TextMatch::kPartial && !is_ended_) return false;
  if (match != TextMatch::kFull) return go_on(State::kBehindReasoning);
  held_.erase(0, at);
  drops_space_ = true;
  return go_on(State::kReasoning);
}

bool AnswerParser::take_reasoning(AnswerParts& out) {
  if (drops_space_) {
    held_.erase(0, skip_json_space(held_, 0));
    if (held_.empty()) return false;
    drops_space_ = false;
  }
  const auto& end = reading_.format.reasoning.end;
  const auto at = find_beginning(held_, end);
  const bool is_whole = held_.compare(at, end.size(), end) == 0;
  const bool is_last = is_ended_ && !is_whole;
  const auto shown = std::string_view(held_).substr(0, is_last ? held_.size() : at);
  const auto num = shown.size() - (is_last ? 0 : num_trailing_space(shown));
  out.reasoning += shown.substr(0, num);
  held_.erase(0, is_whole ? at + end.size() : num);
  if (!is_whole) return false;
  drops_space_ = true;
  return go_on(State::kBehindReasoning);
}

bool AnswerParser::skip_content_begin() {
  std::size_t at = 0;
  const auto match = match_literal(held_, at, reading_.format.reasoning.content_begin);
  if (match == TextMatch::kPartial && !is_ended_) return false;
  if (match == TextMatch::kFull) held_.erase(0, at);
  return go_on(State::kText);
}

// Text up to where a call may begin. White space in front of it is held, since it is
// no part of the text if a call follows.
bool AnswerParser::take_text(AnswerParts& out) {
  const auto trigger = find_trigger();
  const bool reads_calls = reading_.reads_calls && reading_.format.calls;
  const auto shown = std::string_view(held_).substr(
      0, is_ended_ && trigger_at(trigger) != TextMatch::kFull ? held_.size() : trigger);
  const bool keeps_space = !reads_calls || (is_ended_ && shown.size() == held_.size());
  const auto num = shown.size() - (keeps_space ? 0 : num_trailing_space(shown));
  show(shown.substr(0, num), out);
  held_.erase(0, num);
  if (trigger_at(trigger - num) != TextMatch::kFull) return false;
  return go_on(State::kCall);
}

void AnswerParser::show(std::string_view text, AnswerParts& out) {
  if (drops_space_) {
    text.remove_prefix(skip_json_space(text, 0));
    if (text.empty()) return;
    drops_space_ = false;
  }
  if (num_trailing_space(text) < text.size()) is_text_blank_ = false;
  out.text += text;
}

// held_.size(): nowhere.
std::size_t AnswerParser::find_trigger() const {
  std::size_t at = held_.size();
  for (const auto& trigger : triggers_) at = std::min(at, find_beginning(held_, trigger));
  const bool has_no_marker = reading_.reads_calls && reading_.format.calls && triggers_.empty();
  if (!has_no_marker || !is_text_blank_) return at;
  const auto first = skip_json_space(held_, 0);
  return trigger_at(first) == TextMatch::kFull ? first : at;
}

TextMatch AnswerParser::trigger_at(std::size_t at) const {
  if (at >= held_.size()) return TextMatch::kNo;
  const auto text = std::string_view(held_).substr(at);
  const bool is_whole = std::any_of(triggers_.begin(), triggers_.end(),
                                    [&](const auto& trigger) { return text.starts_with(trigger); });
  if (is_whole) return TextMatch::kFull;
  if (!triggers_.empty()) return TextMatch::kPartial;
  if (!reading_.reads_calls || !reading_.format.calls || !is_text_blank_) return TextMatch::kNo;
  const bool is_open = text.front() == '{' || (text.front() == '[' && reading_.format.calls->is_list);
  return is_open ? TextMatch::kFull : TextMatch::kNo;
}

bool AnswerParser::take_call(AnswerParts& out) {
  CallHeader header;
  const auto space = skip_json_space(held_, 0);
  const auto text = std::string_view(held_).substr(space);
  const auto& format = *reading_.format.calls;
  const auto match = match_call_header(format, text, is_in_list_, header);
  if (match == TextMatch::kPartial && !is_ended_) return false;
  const bool is_call = match == TextMatch::kFull && (format.has_marker() || schemas_.has(header.name));
  if (!is_call) {
    give_up_call(out);
    return true;
  }
  held_.erase(0, space + header.size);
  is_in_list_ = is_in_list_ || header.opens_list;
  announce(header, out);
  return go_on(State::kArguments);
}

void AnswerParser::announce(const CallHeader& header, AnswerParts& out) {
  out.calls.push_back(
      {.index = num_calls_, .id = call_id(reading_, num_calls_), .name = header.name, .arguments = {}});
  ++num_calls_;
  arguments_.emplace(*reading_.format.calls, header, schemas_);
}

// Beyond its first character it may still be one.
void AnswerParser::give_up_call(AnswerParts& out) {
  const auto space = skip_json_space(held_, 0);
  std::size_t num = std::min(space + 1, held_.size());
  for (const auto& trigger : triggers_)
    if (std::string_view(held_).substr(space).starts_with(trigger))
      num = std::max(num, space + trigger.size());
  is_in_list_ = false;
  show(std::string_view(held_).substr(0, num), out);
  held_.erase(0, num);
  state_ = State::kText;
}

bool AnswerParser::take_arguments(AnswerParts& out) {
  std::string arguments;
  held_.erase(0, arguments_->take(held_, arguments));
  const std::uint32_t index = num_calls_ - 1;
  const bool is_new = !out.calls.empty() && out.calls.back().index == index;
  if (!arguments.empty() && !is_new) out.calls.push_back({.index = index});
  if (!arguments.empty()) out.calls.back().arguments += arguments;
  if (!arguments_->is_done()) return false;
  arguments_.reset();
  is_text_blank_ = true;
  drops_space_ = true;
  return go_on(reading_.takes_one_call ? State::kDone : State::kBehindCall);
}

// Markers behind a call, each of which may be missing.
bool AnswerParser::take_end_of_call() {
  if (is_in_list_) return continue_list();
  const auto& format = *reading_.format.calls;
  std::size_t at = 0;
  for (const auto* marker : {&format.call_end, &format.section_end}) {
    const auto match = match_literal(held_, at, *marker);
    if (match != TextMatch::kPartial) continue;
    if (!is_ended_) return false;
    at = held_.size();  // a marker that the end has cut is nobody's text
  }
  held_.erase(0, at);
  return go_on(State::kText);
}

bool AnswerParser::continue_list() {
  const auto at = skip_json_space(held_, 0);
  if (at == held_.size() && !is_ended_) return false;
  const char next = at < held_.size() ? held_[at] : ']';
  if (next == ',') {
    held_.erase(0, at + 1);
    return go_on(State::kCall);
  }
  is_in_list_ = false;
  if (next == ']') held_.erase(0, std::min(at + 1, held_.size()));
  return true;
}

}  // namespace troupe
