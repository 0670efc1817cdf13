// SPDX-License-Identifier: Apache-2.0
#include "http/json/json_document.hpp"

#include "http/api/requests/field_reader.hpp"
#include "http/json/json_text.hpp"
#include "text/utf8.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>

namespace troupe {
namespace {

namespace json = boost::json;
using json::error_code;
using json::string_view;

// Builds the value while it checks. A refusal is remembered as a sentence and
// the parser is stopped with any error code.
class Builder {
 public:
  static constexpr std::size_t max_object_size = json::object::max_size();
  static constexpr std::size_t max_array_size = json::array::max_size();
  static constexpr std::size_t max_key_size = json::string::max_size();
  static constexpr std::size_t max_string_size = json::string::max_size();

  explicit Builder(std::uint64_t max_values) : max_values_(max_values) { stack_.reset(); }

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }

  bool on_object_begin(error_code& error) {
    key_counts_.push_back(keys_.size());
    return count_value(error);
  }
  bool on_object_end(std::size_t num_members, error_code& error) {
    const auto first = keys_.begin() + static_cast<std::ptrdiff_t>(key_counts_.back());
    std::sort(first, keys_.end());
    const auto repeated = std::adjacent_find(first, keys_.end());
    if (repeated != keys_.end()) {
      return refuse("the key \"" + std::string(shorten(*repeated, 64)) + "\" is given twice", error);
    }
    keys_.erase(first, keys_.end());
    key_counts_.pop_back();
    stack_.push_object(num_members);
    return true;
  }
  bool on_array_begin(error_code& error) { return count_value(error); }
  bool on_array_end(std::size_t num_elements, error_code&) {
    stack_.push_array(num_elements);
    return true;
  }

  bool on_key_part(string_view part, std::size_t, error_code&) {
    key_.append(part.data(), part.size());
    stack_.push_chars(part);
    return true;
  }
  bool on_key(string_view part, std::size_t, error_code& error) {
    key_.append(part.data(), part.size());
    stack_.push_key(part);
    if (key_.find('\0') != std::string::npos) return refuse("a key contains \\u0000", error);
    keys_.push_back(std::move(key_));
    key_.clear();
    return true;
  }
  bool on_string_part(string_view part, std::size_t, error_code& error) {
    if (part.find('\0') != string_view::npos) return refuse("a string contains \\u0000", error);
    stack_.push_chars(part);
    return true;
  }
  bool on_string(string_view part, std::size_t, error_code& error) {
    if (part.find('\0') != string_view::npos) return refuse("a string contains \\u0000", error);
    stack_.push_string(part);
    return count_value(error);
  }

  bool on_number_part(string_view part, error_code&) {
    number_.append(part.data(), part.size());
    return true;
  }
  bool on_int64(std::int64_t number, string_view, error_code& error) {
    number_.clear();
    stack_.push_int64(number);
    return count_value(error);
  }
  bool on_uint64(std::uint64_t number, string_view, error_code& error) {
    number_.clear();
    stack_.push_uint64(number);
    return count_value(error);
  }
  bool on_double(double number, string_view part, error_code& error) {
    number_.append(part.data(), part.size());
    const bool is_written_as_integer = number_.find_first_of(".eE") == std::string::npos;
    number_.clear();
    if (is_written_as_integer) return refuse("an integer does not fit into 64 bits", error);
    if (!std::isfinite(number)) return refuse("a number is too large", error);
    stack_.push_double(number);
    return count_value(error);
  }
  bool on_bool(bool value, error_code& error) {
    stack_.push_bool(value);
    return count_value(error);
  }
  bool on_null(error_code& error) {
    stack_.push_null();
    return count_value(error);
  }

  const std::string& refusal() const { return refusal_; }
  json::value release() { return stack_.release(); }

 private:
  bool refuse(std::string sentence, error_code& error) {
    refusal_ = std::move(sentence);
    error = json::error::syntax;
    return false;
  }
  bool count_value(error_code& error) {
    if (++num_values_ <= max_values_) return true;
    return refuse("it has more than " + std::to_string(max_values_) + " values", error);
  }

  json::value_stack stack_;
  std::uint64_t max_values_;
  std::uint64_t num_values_ = 0;
  std::string key_, number_;
  std::vector<std::string> keys_;        // of all open objects
  std::vector<std::size_t> key_counts_;  // keys_.size() when each was opened
  std::string refusal_;
};

ApiError invalid(std::string message) {
  return {.kind = ApiErrorKind::kInvalidRequest, .message = std::move(message), .field = {}};
}

}  // namespace

std::variant<json::value, ApiError> parse_json(std::string_view text, const Limits& limits) {
  json::parse_options options;
  options.max_depth = limits.max_json_depth;
  json::basic_parser<Builder> parser(options, limits.max_json_values);
  error_code error;
  const std::size_t consumed = parser.write_some(false, text.data(), text.size(), error);
  if (!parser.handler().refusal().empty()) {
    return invalid("the body is refused: " + parser.handler().refusal());
  }
  if (error) {
    const std::size_t num_valid = valid_utf8_prefix(text);
    if (num_valid < text.size()) {
      return invalid("the body is not valid UTF-8 at byte " + std::to_string(num_valid));
    }
    return invalid("the body is not valid JSON: " + error.message() + " at byte " + std::to_string(consumed));
  }
  if (consumed != text.size()) {
    return invalid("the body is not valid JSON: something follows the document at byte " +
                   std::to_string(consumed));
  }
  return parser.handler().release();
}

std::variant<boost::json::object, ApiError> parse_json_object(std::string_view text, const Limits& limits) {
  auto document = parse_json(text, limits);
  if (auto* error = std::get_if<ApiError>(&document)) return std::move(*error);
  auto& value = std::get<boost::json::value>(document);
  if (value.is_object()) return std::move(value.get_object());
  return ApiError{.kind = ApiErrorKind::kInvalidRequest,
                  .message = "the body must be a JSON object, got " + describe(value),
                  .field = {}};
}

}  // namespace troupe
