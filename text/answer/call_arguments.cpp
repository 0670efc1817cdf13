// SPDX-License-Identifier: Apache-2.0
#include "text/answer/call_arguments.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace troupe {
namespace {

// Where an end marker begins in text, or where one may.
struct Found {
  std::size_t at = 0;
  bool is_whole = false;
};

Found find_end(std::string_view text, std::string_view marker) {
  const auto whole = text.find(marker);
  if (whole != std::string_view::npos) return {whole, true};
  std::size_t at = text.size() - std::min(text.size(), marker.size() - 1);
  while (at < text.size() && !marker.starts_with(text.substr(at))) ++at;
  return {at, false};
}

void append_json_text(std::string& out, std::string_view text) {
  out += '"';
  append_json_inside(out, text);
  out += '"';
}

}  // namespace

CallArguments::CallArguments(const CallFormat& format, const CallHeader& header, const ToolSchemas& schemas)
    : format_(format), schemas_(schemas), function_(header.name), depth_(header.depth) {
  if (!header.arguments) return;
  held_ = *header.arguments;
  has_arguments_ = true;
}

std::size_t CallArguments::take(std::string_view text, std::string& arguments) {
  std::size_t num_taken = 0;
  while (!is_done()) {
    const auto before = state_;
    const auto num = take_once(text.substr(num_taken), arguments);
    num_taken += num;
    if (num == 0 && state_ == before) break;
  }
  return num_taken;
}

std::size_t CallArguments::take_once(std::string_view text, std::string& arguments) {
  switch (state_) {
    case State::kBegin: return begin(text, arguments);
    case State::kJson: return take_json(text, arguments);
    case State::kQuoted: return take_quoted(text, arguments);
    case State::kClosing: return take_closing(text);
    case State::kPython: return take_python(text, arguments);
    case State::kKey: return take_key(text, arguments);
    case State::kValue: return take_value(text, arguments);
    case State::kDone: break;
  }
  return 0;
}

std::size_t CallArguments::begin(std::string_view text, std::string& arguments) {
  if (has_arguments_) {
    arguments += held_;
    scanner_ = JsonScanner(depth_);
    state_ = depth_ > 0 ? State::kClosing : State::kDone;
  } else if (format_.style == CallStyle::kTagged) {
    arguments += '{';
    state_ = State::kKey;
  } else if (format_.style == CallStyle::kPython) {
    state_ = State::kPython;
  } else if (!text.empty()) {
    state_ = text.front() == '"' ? State::kQuoted : State::kJson;
  }
  return 0;
}

std::size_t CallArguments::take_json(std::string_view text, std::string& arguments) {
  const auto num = scanner_.take(text);
  arguments += text.substr(0, num);
  if (scanner_.state() == JsonScanner::State::kOpen) return num;
  const bool is_over = scanner_.state() == JsonScanner::State::kBroken || depth_ == 0;
  scanner_ = JsonScanner(depth_);
  state_ = is_over ? State::kDone : State::kClosing;
  return num;
}

// An object in quotes, as the API has it.
std::size_t CallArguments::take_quoted(std::string_view text, std::string& arguments) {
  const auto num = scanner_.take(text);
  held_ += text.substr(0, num);
  if (scanner_.state() == JsonScanner::State::kOpen) return num;
  const auto value = nlohmann::json::parse(held_, nullptr, false);
  arguments += value.is_string() ? value.get<std::string>() : held_;
  scanner_ = JsonScanner(depth_);
  state_ = depth_ > 0 ? State::kClosing : State::kDone;
  return num;
}

// Members behind the arguments, and the end of the call's object.
std::size_t CallArguments::take_closing(std::string_view text) {
  const auto num = scanner_.take(text);
  if (scanner_.state() != JsonScanner::State::kOpen) state_ = State::kDone;
  return num;
}

std::size_t CallArguments::take_python(std::string_view text, std::string& arguments) {
  const auto num = python_.take(text, arguments);
  if (python_.state() != PythonArguments::State::kOpen) state_ = State::kDone;
  return num;
}

std::size_t CallArguments::take_key(std::string_view text, std::string& arguments) {
  std::size_t at = skip_json_space(text, 0);
  const auto match = match_literal(text, at, format_.key_begin);
  if (match == TextMatch::kPartial) return 0;
  if (match == TextMatch::kNo) {
    arguments += '}';
    state_ = State::kDone;
    return 0;
  }
  const auto find = [&](const std::string& end) {
    return end.empty() ? std::string_view::npos : text.find(end, at);
  };
  const auto end = find(format_.key_end), other = find(format_.other_key_end);
  const auto first = std::min(end, other);
  if (first == std::string_view::npos) {
    // No key is as long as this.
    if (text.size() - at < kMaxCallHeaderBytes) return 0;
    state_ = State::kDone;
    return 0;
  }
  const bool is_other = other < end;
  begin_value(std::string(text.substr(at, first - at)), is_other, arguments);
  return first + (is_other ? format_.other_key_end : format_.key_end).size();
}

void CallArguments::begin_value(const std::string& key, bool has_other_end, std::string& arguments) {
  if (has_arguments_) arguments += ", ";
  has_arguments_ = true;
  append_json_text(arguments, key);
  arguments += ": ";
  auto kind = schemas_.kind_of(function_, key);
  if (!format_.other_key_end.empty())
    kind = has_other_end ? ToolSchemas::Kind::kOther : ToolSchemas::Kind::kString;
  is_string_ = kind == ToolSchemas::Kind::kString;
  if (is_string_) arguments += '"';
  is_at_begin_ = true;
  held_.clear();
  state_ = State::kValue;
}

std::size_t CallArguments::take_value(std::string_view text, std::string& arguments) {
  if (is_at_begin_ && format_.has_value_lines) {
    if (text.empty()) return 0;
    is_at_begin_ = false;
    if (text.front() == '\n') return 1;
  }
  const auto end = find_end(text, format_.value_end);
  std::size_t num_shown = end.at;
  // The line break in front of the marker is no part of the value.
  if (format_.has_value_lines && num_shown > 0 && text[num_shown - 1] == '\n') --num_shown;
  if (is_string_) {
    append_json_inside(arguments, text.substr(0, num_shown));
  } else {
    held_ += text.substr(0, num_shown);
  }
  if (!end.is_whole) return num_shown;
  end_value(arguments);
  return end.at + format_.value_end.size();
}

void CallArguments::end_value(std::string& arguments) {
  state_ = State::kKey;
  if (is_string_) {
    arguments += '"';
  } else if (nlohmann::json::accept(held_)) {
    arguments += held_;
  } else {
    append_json_text(arguments, held_);
  }
  held_.clear();
}

}  // namespace troupe
