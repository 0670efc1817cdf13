// SPDX-License-Identifier: Apache-2.0
#include "actors/request/answer/answer_tokens.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "text/utf8.hpp"

namespace troupe {
namespace {

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

// Special tokens stand for no text, but have a name.
LikelyToken likely(const Tokenizer& tokenizer, std::int32_t token, float logprob) {
  const std::string_view bytes =
      tokenizer.is_special(token) ? tokenizer.token_content(token) : tokenizer.token_bytes(token);
  LikelyToken likely{.text = {}, .bytes = std::string(bytes), .logprob = logprob, .id = token};
  Utf8Assembler assembler;
  assembler.push(bytes, likely.text);
  assembler.finish(likely.text);
  return likely;
}

AnswerToken answer_token(const Tokenizer& tokenizer, std::int32_t token, const TokenLogprobs& logprobs,
                         std::size_t max_top) {
  AnswerToken out{.token = likely(tokenizer, token, logprobs.logprob)};
  const auto top = std::span(logprobs.top).first(std::min(max_top, logprobs.top.size()));
  out.top.reserve(top.size());
  for (const RankedToken& ranked : top) out.top.push_back(likely(tokenizer, ranked.id, ranked.logprob));
  return out;
}

}  // namespace

void append_scored(std::vector<AnswerToken>& tokens, const Tokenizer& tokenizer,
                   std::span<const std::int32_t> prompt, std::span<const TokenLogprobs> logprobs,
                   TextRange range, std::size_t max_top) {
  for (std::size_t i = range.begin; i < range.end; ++i) {
    tokens.push_back(answer_token(tokenizer, prompt[i], i == 0 ? TokenLogprobs() : logprobs[i - 1], max_top));
    tokens.back().has_logprob = i > 0;
  }
}

void AnswerTokens::add(std::int32_t token, const TokenLogprobs& logprobs) {
  Waiting waiting{.token = answer_token(*tokenizer_, token, logprobs, max_top_), .begin = num_known_bytes_};
  waiting.token.text_offset = num_known_characters_;
  waiting_.push_back(std::move(waiting));
}

void AnswerTokens::add_first(std::int32_t token) {
  add(token, {});
  waiting_.back().token.has_logprob = false;
}

void AnswerTokens::extend(std::string_view text) {
  num_known_bytes_ += text.size();
  num_known_characters_ +=
      static_cast<std::uint32_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::vector<AnswerToken> AnswerTokens::show(std::string_view text) {
  num_shown_bytes_ += text.size();
  std::vector<AnswerToken> shown;
  for (; !waiting_.empty() && waiting_.front().begin < num_shown_bytes_; waiting_.pop_front())
    shown.push_back(std::move(waiting_.front().token));
  return shown;
}

std::vector<AnswerToken> AnswerTokens::take_rest() {
  std::vector<AnswerToken> rest;
  for (Waiting& waiting : std::exchange(waiting_, {})) rest.push_back(std::move(waiting.token));
  return rest;
}

}  // namespace troupe
