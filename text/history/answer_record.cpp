// SPDX-License-Identifier: Apache-2.0
#include "text/history/answer_record.hpp"

#include <utility>

#include "text/history/message_chain.hpp"

namespace troupe {
namespace {

// A special token, or one that looks like it and that no text of a client becomes.
bool is_only_drawn(const Tokenizer& tokenizer, TokenId token) {
  if (tokenizer.is_special(token)) return true;
  const auto bytes = tokenizer.token_bytes(token);
  if (bytes.size() < 3 || bytes.front() != '<' || bytes.back() != '>') return false;
  return tokenizer.encode(bytes) != std::vector<TokenId>{token};
}

}  // namespace

std::string_view spelling_in_answer(const Tokenizer& tokenizer, TokenId token) {
  return tokenizer.is_special(token) ? tokenizer.token_content(token) : tokenizer.token_bytes(token);
}

void AnswerRecord::add_calls(const std::vector<CallDelta>& calls) {
  auto& known = message_.tool_calls;
  for (const auto& call : calls) {
    if (call.index >= known.size()) known.resize(call.index + 1);
    known[call.index].id += call.id;
    known[call.index].name += call.name;
    known[call.index].arguments += call.arguments;
  }
}

void AnswerRecord::remember(const Tokenizer& tokenizer, TurnMemory& memory) {
  std::vector<RememberedText> parts;
  if (prompt_.messages) parts.push_back(std::move(*prompt_.messages));
  if (!tokens_.empty()) parts.push_back(with_answer(tokenizer));
  memory.remember(tenant_, prompt_.before, std::move(parts));
}

RememberedText AnswerRecord::with_answer(const Tokenizer& tokenizer) {
  RememberedText part = std::move(prompt_.opening);
  part.key = chain_key(message_, part.key);
  for (const TokenId token : tokens_) {
    const auto begin = part.end();
    part.answer += spelling_in_answer(tokenizer, token);
    if (is_only_drawn(tokenizer, token)) part.answer_specials.push_back({begin, part.end()});
  }
  part.tokens.insert(part.tokens.end(), tokens_.begin(), tokens_.end());
  part.answer.shrink_to_fit();
  part.tokens.shrink_to_fit();
  return part;
}

}  // namespace troupe
