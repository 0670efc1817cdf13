// SPDX-License-Identifier: Apache-2.0
// Source of a chat template to tokens: text, and what stands in {{ }} and {% %}.
// White space goes as with Jinja's trim_blocks and lstrip_blocks, which is how
// chat templates are written.
#pragma once

#include <string>
#include <vector>

namespace troupe::jinja {

struct Token {
  enum class Kind {
    kText,
    kOutputBegin,     // {{
    kOutputEnd,       // }}
    kStatementBegin,  // {%
    kStatementEnd,    // %}
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string text;  // of strings, what they say
  int line = 1;
};

// Throws std::runtime_error with the line.
std::vector<Token> tokenize_template(const std::string& source);

// "line 3: reason"
[[noreturn]] void fail_at_line(int line, const std::string& reason);

}  // namespace troupe::jinja
