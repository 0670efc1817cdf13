// SPDX-License-Identifier: Apache-2.0
#include "actors/request/answer_tokens.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "text/utf8.hpp"

namespace troupe {
namespace {

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

}  // namespace

void AnswerTokens::add(std::int32_t token, const TokenLogprobs& logprobs) {
  Waiting waiting{
      .token = {.token = likely(token, logprobs.logprob), .top = {}, .text_offset = num_known_characters_},
      .begin = num_known_bytes_};
  waiting.token.top.reserve(logprobs.top.size());
  for (const RankedToken& ranked : logprobs.top)
    waiting.token.top.push_back(likely(ranked.id, ranked.logprob));
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

// Special tokens stand for no text, but have a name.
LikelyToken AnswerTokens::likely(std::int32_t token, float logprob) const {
  const std::string_view bytes =
      tokenizer_->is_special(token) ? tokenizer_->token_content(token) : tokenizer_->token_bytes(token);
  LikelyToken likely{.text = {}, .bytes = std::string(bytes), .logprob = logprob};
  Utf8Assembler assembler;
  assembler.push(bytes, likely.text);
  assembler.finish(likely.text);
  return likely;
}

}  // namespace troupe
