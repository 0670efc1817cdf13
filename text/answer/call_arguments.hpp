// SPDX-License-Identifier: Apache-2.0
// The arguments of a call as JSON text, while they are written: JSON is handed on as
// it comes, tagged arguments and Python's are turned into JSON, strings piece by piece.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "text/answer/answer_format.hpp"
#include "text/answer/call_header.hpp"
#include "text/answer/json_scanner.hpp"
#include "text/answer/python_arguments.hpp"
#include "text/answer/tool_schemas.hpp"

namespace troupe {

// All that lies between the header of one call and the marker that ends it.
class CallArguments {
 public:
  // format and schemas must outlive this.
  CallArguments(const CallFormat& format, const CallHeader& header, const ToolSchemas& schemas);

  // Takes bytes from the beginning of text and appends to arguments; those left are to
  // come again, with more behind them.
  std::size_t take(std::string_view text, std::string& arguments);
  bool is_done() const { return state_ == State::kDone; }

 private:
  enum class State : std::uint8_t { kBegin, kJson, kQuoted, kClosing, kKey, kValue, kPython, kDone };

  std::size_t take_once(std::string_view text, std::string& arguments);
  std::size_t begin(std::string_view text, std::string& arguments);
  std::size_t take_json(std::string_view text, std::string& arguments);
  std::size_t take_quoted(std::string_view text, std::string& arguments);
  std::size_t take_closing(std::string_view text);
  std::size_t take_python(std::string_view text, std::string& arguments);
  std::size_t take_key(std::string_view text, std::string& arguments);
  std::size_t take_value(std::string_view text, std::string& arguments);
  void begin_value(const std::string& key, bool has_other_end, std::string& arguments);
  void end_value(std::string& arguments);

  const CallFormat& format_;
  const ToolSchemas& schemas_;
  const std::string function_;
  const std::size_t depth_;
  State state_ = State::kBegin;
  JsonScanner scanner_;
  PythonArguments python_;
  std::string held_;  // a quoted object, or a value whose kind its end tells
  bool has_arguments_ = false;
  bool is_string_ = false;    // the value is shown as it comes
  bool is_at_begin_ = false;  // of a value
};

}  // namespace troupe
