// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/syntax/token_stream.hpp"

namespace troupe::jinja {
namespace {

constexpr std::size_t kMaxDepth = 64;

std::string shown(const Token& token) {
  switch (token.kind) {
    case Token::Kind::kText: return "text";
    case Token::Kind::kOutputBegin: return "{{";
    case Token::Kind::kOutputEnd: return "}}";
    case Token::Kind::kStatementBegin: return "{%";
    case Token::Kind::kStatementEnd: return "%}";
    case Token::Kind::kString: return "a string";
    case Token::Kind::kEnd: return "the end";
    default: return "'" + token.text + "'";
  }
}

}  // namespace

Token TokenStream::next() {
  Token token = tokens_[position_];
  if (position_ + 1 < tokens_.size()) ++position_;
  return token;
}

bool TokenStream::is_statement(std::string_view name) const {
  return is(Token::Kind::kStatementBegin) && is_at(position_ + 1, Token::Kind::kName, name);
}

bool TokenStream::skip_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  next();
  return true;
}

bool TokenStream::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  next();
  return true;
}

void TokenStream::expect_operator(std::string_view text) {
  if (!skip_operator(text)) fail_expecting("'" + std::string(text) + "'");
}

std::string TokenStream::expect_name() {
  if (!is(Token::Kind::kName)) fail_expecting("a name");
  return next().text;
}

void TokenStream::expect(Token::Kind kind, std::string_view what) {
  if (!is(kind)) fail_expecting(what);
  next();
}

void TokenStream::fail_expecting(std::string_view what) const {
  fail("expected " + std::string(what) + ", got " + shown(peek()));
}

bool TokenStream::is_at(std::size_t position, Token::Kind kind, std::string_view text) const {
  return position < tokens_.size() && tokens_[position].kind == kind && tokens_[position].text == text;
}

ParseDepth::ParseDepth(std::size_t& depth, const TokenStream& tokens) : depth_(depth) {
  if (depth_ == kMaxDepth) tokens.fail("nested deeper than " + std::to_string(kMaxDepth));
  ++depth_;
}

}  // namespace troupe::jinja
