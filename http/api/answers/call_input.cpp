// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/call_input.hpp"

#include <algorithm>
#include <iterator>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

namespace troupe {

void append_call_input(AnswerJson& json, const std::string& arguments) {
  boost::system::error_code error;
  const auto value = boost::json::parse(arguments, error);
  std::string& out = json.out();
  if (!error && value.is_object()) {
    // Line breaks are between tokens: none is in a string.
    const auto is_line_break = [](char c) { return c == '\n' || c == '\r'; };
    std::replace_copy_if(arguments.begin(), arguments.end(), std::back_inserter(out), is_line_break, ' ');
  } else if (arguments.empty()) {
    out += "{}";
  } else {
    out += "{\"INVALID_JSON\":";
    json.text(arguments);
    out += "}";
  }
}

}  // namespace troupe
