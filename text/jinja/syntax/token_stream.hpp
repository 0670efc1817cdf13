// SPDX-License-Identifier: Apache-2.0
// The tokens of a template on their way through the parser.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/syntax/template_lexer.hpp"

namespace troupe::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek() const { return tokens_[position_]; }
  Token next();
  int line() const { return peek().line; }

  bool is(Token::Kind kind) const { return peek().kind == kind; }
  bool is_operator(std::string_view text) const { return is_at(position_, Token::Kind::kOperator, text); }
  bool is_name(std::string_view text) const { return is_at(position_, Token::Kind::kName, text); }
  // The one behind the next.
  bool is_operator_after(std::string_view text) const {
    return is_at(position_ + 1, Token::Kind::kOperator, text);
  }
  // {% name
  bool is_statement(std::string_view name) const;

  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operator(std::string_view text);
  std::string expect_name();
  void expect(Token::Kind kind, std::string_view what);

  // "line 3: expected …, got …"
  [[noreturn]] void fail_expecting(std::string_view what) const;
  [[noreturn]] void fail(const std::string& reason) const { fail_at_line(line(), reason); }

 private:
  bool is_at(std::size_t position, Token::Kind kind, std::string_view text) const;

  std::vector<Token> tokens_;  // the last one is kEnd
  std::size_t position_ = 0;
};

// Counts how deep the parser is while it lives.
class ParseDepth {
 public:
  ParseDepth(std::size_t& depth, const TokenStream& tokens);
  ~ParseDepth() { --depth_; }
  ParseDepth(const ParseDepth&) = delete;
  ParseDepth& operator=(const ParseDepth&) = delete;

 private:
  std::size_t& depth_;
};

}  // namespace troupe::jinja
