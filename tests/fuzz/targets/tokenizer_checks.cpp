// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/targets/tokenizer_checks.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/property.hpp"
#include "text/detokenizer.hpp"
#include "text/utf8.hpp"

namespace troupe::fuzz {
namespace {

void check_decoding(const Tokenizer& tokenizer, const std::vector<TokenId>& tokens) {
  const std::string text = tokenizer.decode(tokens);
  require(valid_utf8_prefix(text) == text.size(), "a decoded text is not UTF-8");
  StreamingDetokenizer streaming(tokenizer);
  std::string pieces;
  for (const TokenId token : tokens) pieces += streaming.push(token);
  pieces += streaming.finish();
  require(pieces == text, "a stream of tokens is another text than the whole");
}

void check_encoding(const Tokenizer& tokenizer, std::string_view text, bool is_trusted) {
  constexpr std::size_t kMaxTokens = 4096;
  EncodingBudget budget(kMaxTokens);
  const TextRange all{0, text.size()};
  std::vector<TokenId> tokens;
  try {
    tokens = tokenizer.encode_within(budget, text, std::span(&all, is_trusted ? 1 : 0));
  } catch (const EncodingStopped&) {
    return;
  }
  require(tokens.size() <= kMaxTokens, "a text has more tokens than allowed");
  for (const TokenId token : tokens)
    require(token >= 0 && static_cast<std::size_t>(token) < tokenizer.vocabulary_size(),
            "a token is beyond the vocabulary");
  check_decoding(tokenizer, tokens);
}

}  // namespace

void check_tokenizer(const Tokenizer& tokenizer) {
  std::vector<TokenId> every_token;
  std::string every_spelling;
  const std::size_t num_tokens = std::min<std::size_t>(tokenizer.vocabulary_size(), 512);
  for (std::size_t id = 0; id < num_tokens; ++id) {
    every_token.push_back(static_cast<TokenId>(id));
    every_spelling += tokenizer.token_content(static_cast<TokenId>(id));
  }
  check_decoding(tokenizer, every_token);
  for (const std::string_view text :
       {std::string_view(""), std::string_view("hello"), std::string_view("Hello,  world! 123\n\t it's"),
        std::string_view("h\xC3\xA9llo \xE6\x97\xA5\xE6\x9C\xAC \xF0\x9F\x98\x80 e\xCC\x81"),
        std::string_view("\xFF\xFE cut \xE6\x97"), std::string_view("a\0b", 3),
        std::string_view(every_spelling)}) {
    check_encoding(tokenizer, text, false);
    check_encoding(tokenizer, text, true);
  }
}

}  // namespace troupe::fuzz
