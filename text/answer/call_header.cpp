// SPDX-License-Identifier: Apache-2.0
#include "text/answer/call_header.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "text/answer/json_scanner.hpp"

namespace troupe {
namespace {

bool is_name_character(char c) {
  return !is_json_space(c) && std::string_view("<>[](){}\":,=").find(c) == std::string_view::npos;
}

// The part read of a JSON value or name ends where more may follow.
struct Span {
  TextMatch match = TextMatch::kPartial;
  std::size_t end = 0;
};

Span json_value_at(std::string_view text, std::size_t at) {
  if (at >= text.size()) return {};
  const char first = text[at];
  if (first == '"' || first == '{' || first == '[') {
    JsonScanner scanner;
    const std::size_t end = at + scanner.take(text.substr(at));
    if (scanner.state() == JsonScanner::State::kBroken) return {TextMatch::kNo, end};
    return {scanner.state() == JsonScanner::State::kDone ? TextMatch::kFull : TextMatch::kPartial, end};
  }
  std::size_t end = at;
  while (end < text.size() && is_name_character(text[end])) ++end;
  if (end == text.size()) return {};
  return {end == at ? TextMatch::kNo : TextMatch::kFull, end};
}

// nullopt: it is no string.
std::optional<std::string> json_string(std::string_view text) {
  const auto value = nlohmann::json::parse(text, nullptr, false);
  if (!value.is_string()) return std::nullopt;
  return value.get<std::string>();
}

bool is_good_name(std::string_view name) { return !name.empty() && name.size() <= kMaxCalledNameBytes; }

// Reads the members of a call's object until its name is known and its arguments begin.
class ObjectHeader {
 public:
  ObjectHeader(const CallFormat& format, std::string_view text, std::size_t at, CallHeader& header)
      : format_(format), text_(text), at_(at), header_(header) {}

  TextMatch read() {
    if (const auto match = expect('{'); match != TextMatch::kFull) return match;
    header_.depth = 1;
    while (true) {
      const auto match = read_member();
      if (match != TextMatch::kPartial || !is_between_members_) return match;
    }
  }

 private:
  TextMatch expect(char c) {
    at_ = skip_json_space(text_, at_);
    if (at_ >= text_.size()) return TextMatch::kPartial;
    return text_[at_++] == c ? TextMatch::kFull : TextMatch::kNo;
  }

  // kPartial with is_between_members_: another member may follow.
  TextMatch read_member() {
    is_between_members_ = false;
    at_ = skip_json_space(text_, at_);
    if (at_ >= text_.size()) return TextMatch::kPartial;
    if (text_[at_] == '}') return close();
    if (text_[at_] == ',' && !is_first_) ++at_;
    at_ = skip_json_space(text_, at_);
    if (at_ >= text_.size()) return TextMatch::kPartial;
    if (text_[at_] != '"') return TextMatch::kNo;
    const auto key_span = json_value_at(text_, at_);
    if (key_span.match != TextMatch::kFull) return key_span.match;
    const auto key = json_string(text_.substr(at_, key_span.end - at_));
    if (!key) return TextMatch::kNo;
    at_ = key_span.end;
    if (const auto match = expect(':'); match != TextMatch::kFull) return match;
    at_ = skip_json_space(text_, at_);
    if (at_ >= text_.size()) return TextMatch::kPartial;
    is_first_ = false;
    return read_value(*key);
  }

  TextMatch read_value(const std::string& key) {
    if (format_.name_key.empty()) {
      header_.name = key;
      return is_good_name(key) ? begin_arguments() : TextMatch::kNo;
    }
    if (key == format_.arguments_key || key == "arguments" || key == "parameters") {
      if (!header_.name.empty()) return begin_arguments();
      return read_early_arguments();
    }
    if (key == "function" && text_[at_] == '{') {
      ++at_;
      ++header_.depth;
      is_first_ = true;
      return go_on();
    }
    // Without a marker any object might be a call: it has no members but a call's.
    const bool is_name = key == format_.name_key || key == "name";
    if (!is_name && !format_.has_marker() && key != "type" && key != "id") return TextMatch::kNo;
    const auto span = json_value_at(text_, at_);
    if (span.match != TextMatch::kFull) return span.match;
    if (is_name) {
      auto name = json_string(text_.substr(at_, span.end - at_));
      if (!name || !is_good_name(*name)) return TextMatch::kNo;
      header_.name = std::move(*name);
    }
    at_ = span.end;
    if (is_name && header_.arguments) return finish();
    return go_on();
  }

  TextMatch begin_arguments() {
    if (text_[at_] != '{' && text_[at_] != '"') return read_early_arguments();
    return finish();
  }

  // Null stands for none.
  TextMatch read_early_arguments() {
    const auto span = json_value_at(text_, at_);
    if (span.match != TextMatch::kFull) return span.match;
    const auto value = text_.substr(at_, span.end - at_);
    const bool is_null = value == "null";
    if (!is_null && value.front() != '{') return TextMatch::kNo;
    header_.arguments = is_null ? std::string("{}") : std::string(value);
    at_ = span.end;
    return header_.name.empty() ? go_on() : finish();
  }

  TextMatch close() {
    if (header_.name.empty()) return TextMatch::kNo;
    if (!header_.arguments) header_.arguments = "{}";
    ++at_;
    --header_.depth;
    return finish();
  }

  TextMatch go_on() {
    is_between_members_ = true;
    return TextMatch::kPartial;
  }
  TextMatch finish() {
    header_.size = at_;
    return TextMatch::kFull;
  }

  const CallFormat& format_;
  std::string_view text_;
  std::size_t at_;
  CallHeader& header_;
  bool is_first_ = true;
  bool is_between_members_ = false;
};

TextMatch match_name(std::string_view text, std::size_t& at, std::string& name) {
  at = skip_json_space(text, at);
  std::size_t end = at;
  while (end < text.size() && is_name_character(text[end])) ++end;
  if (end - at > kMaxCalledNameBytes) return TextMatch::kNo;
  if (end == text.size()) return TextMatch::kPartial;
  name = text.substr(at, end - at);
  at = end;
  return name.empty() ? TextMatch::kNo : TextMatch::kFull;
}

TextMatch match_id(const CallFormat& format, std::string_view text, std::size_t& at, std::string& id) {
  if (format.id_begin.empty()) return TextMatch::kFull;
  std::size_t behind = at;
  const auto match = match_literal(text, behind, format.id_begin);
  if (match != TextMatch::kFull) return match == TextMatch::kNo ? TextMatch::kFull : match;
  at = behind;
  return match_name(text, at, id);
}

TextMatch match_named_header(const CallFormat& format, std::string_view text, std::size_t at,
                             CallHeader& header) {
  if (const auto match = match_name(text, at, header.name); match != TextMatch::kFull) return match;
  if (const auto match = match_id(format, text, at, header.id); match != TextMatch::kFull) return match;
  if (const auto match = match_literal(text, at, format.name_end); match != TextMatch::kFull) return match;
  if (format.style == CallStyle::kNamedJson) {
    at = skip_json_space(text, at);
    if (at >= text.size()) return TextMatch::kPartial;
    if (text[at] != '{') return TextMatch::kNo;
  }
  header.size = at;
  return TextMatch::kFull;
}

TextMatch match_python_header(std::string_view text, std::size_t at, CallHeader& header) {
  if (const auto match = match_name(text, at, header.name); match != TextMatch::kFull) return match;
  if (text[at] != '(') return TextMatch::kNo;
  header.size = at + 1;
  return TextMatch::kFull;
}

TextMatch match_markers(const CallFormat& format, std::string_view text, std::size_t& at) {
  if (!format.section_begin.empty()) {
    std::size_t behind = at;
    const auto match = match_literal(text, behind, format.section_begin);
    if (match == TextMatch::kFull) at = behind;
    // The beginning of one marker may be that of the other.
    std::size_t other = at;
    if (match == TextMatch::kPartial && match_literal(text, other, format.call_begin) != TextMatch::kFull)
      return match;
  }
  return match_literal(text, at, format.call_begin);
}

TextMatch match_whole_header(const CallFormat& format, std::string_view text, bool is_in_list,
                             CallHeader& header) {
  std::size_t at = 0;
  if (!is_in_list) {
    if (const auto match = match_markers(format, text, at); match != TextMatch::kFull) return match;
  }
  if (format.style == CallStyle::kNamedJson || format.style == CallStyle::kTagged)
    return match_named_header(format, text, at, header);
  at = skip_json_space(text, at);
  if (!is_in_list && at < text.size() && text[at] == '[' && (format.is_list || format.has_marker())) {
    header.opens_list = true;
    ++at;
  }
  if (format.style == CallStyle::kPython) return match_python_header(text, at, header);
  return ObjectHeader(format, text, at, header).read();
}

}  // namespace

TextMatch match_literal(std::string_view text, std::size_t& at, std::string_view literal) {
  if (literal.empty()) return TextMatch::kFull;
  std::size_t i = skip_json_space(text, at);
  for (std::size_t k = 0; k < literal.size();) {
    if (is_json_space(literal[k])) {
      k = skip_json_space(literal, k);
      i = skip_json_space(text, i);
      continue;
    }
    if (i >= text.size()) return TextMatch::kPartial;
    if (text[i++] != literal[k++]) return TextMatch::kNo;
  }
  at = i;
  return TextMatch::kFull;
}

TextMatch match_call_header(const CallFormat& format, std::string_view text, bool is_in_list,
                            CallHeader& header) {
  header = {};
  const auto known = text.substr(0, kMaxCallHeaderBytes);
  const auto match = match_whole_header(format, known, is_in_list, header);
  return match == TextMatch::kPartial && text.size() >= kMaxCallHeaderBytes ? TextMatch::kNo : match;
}

}  // namespace troupe
