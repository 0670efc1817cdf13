// SPDX-License-Identifier: Apache-2.0
// tokenizer.json and, behind a zero byte, tokenizer_config.json of a stranger: what
// loads encodes and decodes any text within its bounds.
#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/fuzz/fuzz_targets.hpp"
#include "tests/fuzz/property.hpp"
#include "text/detokenizer.hpp"
#include "text/model_file.hpp"
#include "text/tokenizer/file/tokenizer_file.hpp"
#include "text/tokenizer/pipeline_tokenizer.hpp"
#include "text/utf8.hpp"

namespace troupe::fuzz {
namespace {

// As load_tokenizer() does, whose contract is that any exception is a refusal.
std::optional<PipelineTokenizer> loaded(std::string_view bytes) {
  const auto end = std::min(bytes.find('\0'), bytes.size());
  try {
    const auto tokenizer = parse_model_json("tokenizer.json", std::string(bytes.substr(0, end)));
    const auto config = end < bytes.size()
                            ? parse_model_json("tokenizer_config.json", std::string(bytes.substr(end + 1)))
                            : nlohmann::json();
    return std::optional<PipelineTokenizer>(std::in_place, read_tokenizer(tokenizer, config));
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

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

void fuzz_tokenizer_file(std::string_view bytes) {
  const auto tokenizer = loaded(bytes);
  if (!tokenizer) return;
  std::vector<TokenId> every_token;
  std::string every_spelling;
  const std::size_t num_tokens = std::min<std::size_t>(tokenizer->vocabulary_size(), 512);
  for (std::size_t id = 0; id < num_tokens; ++id) {
    every_token.push_back(static_cast<TokenId>(id));
    every_spelling += tokenizer->token_content(static_cast<TokenId>(id));
  }
  check_decoding(*tokenizer, every_token);
  for (const std::string_view text :
       {std::string_view(""), std::string_view("hello"), std::string_view("Hello,  world! 123\n\t it's"),
        std::string_view("h\xC3\xA9llo \xE6\x97\xA5\xE6\x9C\xAC \xF0\x9F\x98\x80 e\xCC\x81"),
        std::string_view("\xFF\xFE cut \xE6\x97"), std::string_view("a\0b", 3),
        std::string_view(every_spelling)}) {
    check_encoding(*tokenizer, text, false);
    check_encoding(*tokenizer, text, true);
  }
}

}  // namespace troupe::fuzz
