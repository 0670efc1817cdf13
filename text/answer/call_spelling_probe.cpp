// SPDX-License-Identifier: Apache-2.0
#include "text/answer/call_spelling_probe.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "text/answer/json_scanner.hpp"

namespace troupe {
namespace {

// Reads a rendered answer from its beginning to its end. A part that is not there spoils all.
class SpellingReader {
 public:
  SpellingReader(const CallFormat& format, std::string_view text, std::size_t at)
      : format_(format), text_(text), at_(at) {}

  bool is_good() const { return is_good_; }
  std::size_t at() const { return at_; }

  void go_to_first_marker() {
    const auto& marker = format_.section_begin.empty() ? format_.call_begin : format_.section_begin;
    const auto found = marker.empty() ? text_.find_first_of("{[", at_) : text_.find(marker, at_);
    is_good_ = found != std::string_view::npos;
    if (is_good_) at_ = found;
  }

  void expect(std::string_view part) {
    is_good_ = is_good_ && text_.substr(std::min(at_, text_.size())).starts_with(part);
    if (is_good_) at_ += part.size();
  }

  std::string space() {
    if (!is_good_) return {};
    const auto begin = std::exchange(at_, skip_json_space(text_, at_));
    return std::string(text_.substr(begin, at_ - begin));
  }

  // White space belongs to a marker that is there.
  std::string space_behind(std::string_view marker) {
    expect(marker);
    return marker.empty() ? "" : space();
  }
  std::string space_before(std::string_view marker) {
    if (marker.empty()) return {};
    std::string found = space();
    expect(marker);
    return found;
  }

  // One that some templates leave out.
  std::string space_before_last(std::string_view marker) {
    if (!is_good_) return {};
    std::string found = space_before(marker);
    return std::exchange(is_good_, true) ? found : std::string();
  }

  // A value in brackets.
  std::string_view json() {
    JsonScanner scanner;
    const auto begin = at_;
    if (is_good_) at_ += scanner.take(text_.substr(begin));
    is_good_ = is_good_ && scanner.state() == JsonScanner::State::kDone;
    return text_.substr(begin, at_ - begin);
  }

  // Up to the next of a part.
  void skip_to(std::string_view part) {
    const auto found = is_good_ ? text_.find(part, at_) : std::string_view::npos;
    is_good_ = found != std::string_view::npos;
    if (is_good_) at_ = found;
  }

 private:
  const CallFormat& format_;
  std::string_view text_;
  std::size_t at_;
  bool is_good_ = true;
};

// {"name": "f", "arguments": {…}} and nothing more; the value of an argument may be anything.
std::optional<JsonSeparators> separators_of_object(const CallFormat& format, std::string_view object,
                                                   std::string_view name) {
  SpellingReader reader(format, object, 0);
  const auto quoted = [](std::string_view text) { return "\"" + std::string(text) + "\""; };
  JsonSeparators out;
  reader.expect("{");
  reader.expect(quoted(format.name_key.empty() ? name : format.name_key));
  reader.expect(":");
  out.colon = ":" + reader.space();
  if (!format.name_key.empty()) {
    reader.expect(quoted(name));
    reader.expect(",");
    out.comma = "," + reader.space();
    reader.expect(quoted(format.arguments_key));
    reader.expect(out.colon);
  }
  reader.json();
  reader.expect("}");
  if (!reader.is_good() || reader.at() != object.size()) return std::nullopt;
  return out;
}

// An argument in tags.
struct TaggedValue {
  std::string_view key, value;
  bool is_text = false;
};

// One call after the other, each to its end marker.
class CallReader {
 public:
  CallReader(const CallFormat& format, SpellingReader& reader, CallSpelling& out)
      : format_(format), reader_(reader), out_(out) {}

  void read(std::string_view name, const std::vector<TaggedValue>& values) {
    if (format_.style == CallStyle::kTagged) return read_tagged(name, values);
    if (format_.style == CallStyle::kNamedJson) {
      read_name(name);
      out_.behind_name_end = reader_.space();
      reader_.json();
    } else {
      out_.object = separators_of_object(format_, reader_.json(), name);
    }
  }

 private:
  void read_name(std::string_view name) {
    reader_.expect(name);
    if (!format_.id_begin.empty()) {
      reader_.expect(format_.id_begin);
      reader_.skip_to(format_.name_end);
    }
    out_.behind_name = reader_.space();
    reader_.expect(format_.name_end);
  }

  void read_tagged(std::string_view name, const std::vector<TaggedValue>& values) {
    read_name(name);
    if (values.empty()) {
      out_.without_arguments = reader_.space();
      return;
    }
    const std::string line = format_.has_value_lines ? "\n" : "";
    for (const TaggedValue& value : values) {
      (&value == &values.front() ? out_.behind_name_end : out_.between_arguments) = reader_.space();
      reader_.expect(format_.key_begin);
      reader_.expect(value.key);
      const bool has_other_end = !value.is_text && !format_.other_key_end.empty();
      reader_.expect(has_other_end ? format_.other_key_end : format_.key_end);
      reader_.expect(line + std::string(value.value) + line + format_.value_end);
    }
  }

  const CallFormat& format_;
  SpellingReader& reader_;
  CallSpelling& out_;
};

const std::vector<TaggedValue>& values_of_first() {
  static const std::vector<TaggedValue> kValues = {{"probe_key", "probe_value", true},
                                                   {"number_key", "47", false}};
  return kValues;
}

const std::vector<TaggedValue>& values_of_second() {
  static const std::vector<TaggedValue> kValues = {{"other_key", "other_value", true}};
  return kValues;
}

// All around calls, in front of and behind each; as many as there are names.
bool read_calls(const CallFormat& format, std::string_view text, std::size_t begin,
                const std::vector<std::pair<std::string_view, std::vector<TaggedValue>>>& calls,
                CallSpelling& out) {
  SpellingReader reader(format, text, begin);
  reader.go_to_first_marker();
  out.behind_section_begin = reader.space_behind(format.section_begin);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (i > 0 && format.is_list) {
      reader.expect(",");
      out.between_calls = "," + reader.space();
    } else if (i > 0) {
      out.between_calls = reader.space();
    }
    if (i == 0 || !format.is_list) out.behind_call_begin = reader.space_behind(format.call_begin);
    if (i == 0 && format.is_list) reader.expect("[");
    CallReader(format, reader, out).read(calls[i].first, calls[i].second);
    if (!format.is_list) {
      const bool has_none = format.style == CallStyle::kTagged && calls[i].second.empty();
      const auto space = reader.space_before(format.call_end);
      if (!has_none) out.before_call_end = space;
    }
  }
  if (format.is_list) {
    reader.expect("]");
    out.before_call_end = reader.space_before(format.call_end);
  }
  out.before_section_end = reader.space_before_last(format.section_end);
  return reader.is_good();
}

std::optional<std::string> space_in_front(const CallFormat& format, const SpelledCalls& calls) {
  if (calls.prompt.empty() || !calls.one.starts_with(calls.prompt)) return std::nullopt;
  SpellingReader reader(format, calls.one, calls.prompt.size());
  reader.go_to_first_marker();
  const auto between =
      std::string_view(calls.one).substr(calls.prompt.size(), reader.at() - calls.prompt.size());
  if (!reader.is_good() || skip_json_space(between, 0) != between.size()) return std::nullopt;
  return std::string(between);
}

// Values in tags are JSON one by one.
std::optional<JsonSeparators> separators_of_arguments(const CallFormat& format, const SpelledCalls& calls) {
  if (calls.has_text_arguments) return std::nullopt;
  for (const JsonSeparators& tried : {JsonSeparators(), compact_separators()}) {
    std::string spelled = spelled_probe_arguments(tried);
    if (format.style == CallStyle::kTagged)
      spelled = spelled.substr(spelled.find('['), spelled.rfind(']') + 1 - spelled.find('['));
    if (calls.nested.find(spelled) != std::string::npos) return tried;
  }
  return std::nullopt;
}

}  // namespace

std::string spelled_probe_arguments(const JsonSeparators& separators) {
  const auto& [comma, colon] = separators;
  return "{\"probe_key\"" + colon + "\"probe_value\"" + comma + "\"list_key\"" + colon + "[1" + comma +
         "{\"a\"" + colon + "2" + comma + "\"b\"" + colon + "\"c\"}]}";
}

std::optional<CallSpelling> spelling_of(const CallFormat& format, const SpelledCalls& calls) {
  // Python's are written by ourselves, gpt-oss' by rules of their own.
  if (format.style == CallStyle::kPython || format.style == CallStyle::kHarmony) return std::nullopt;
  CallSpelling out;
  const auto begin = calls.answer_begin;
  if (!read_calls(format, calls.one, begin, {{calls.first_name, values_of_first()}}, out))
    return std::nullopt;
  if (format.style == CallStyle::kTagged &&
      !read_calls(format, calls.without_arguments, begin, {{calls.first_name, {}}}, out))
    return std::nullopt;
  const CallSpelling of_one = out;
  if (!calls.two.empty() &&
      !read_calls(format, calls.two, begin,
                  {{calls.first_name, values_of_first()}, {calls.second_name, values_of_second()}}, out))
    return std::nullopt;
  if (calls.two.empty() && format.is_list) out.between_calls = JsonSeparators().comma;
  out.in_front = space_in_front(format, calls);
  out.arguments = separators_of_arguments(format, calls);
  CallSpelling same = of_one;
  same.before_section_end = out.before_section_end;
  same.between_calls = out.between_calls;
  same.in_front = out.in_front;
  same.arguments = out.arguments;
  if (same != out) return std::nullopt;
  return out;
}

}  // namespace troupe
