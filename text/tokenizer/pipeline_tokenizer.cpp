// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/pipeline_tokenizer.hpp"

#include <algorithm>
#include <utility>

#include "text/utf8.hpp"

namespace troupe {
namespace {

TokenTable table_of(const std::vector<VocabularyEntry>& vocabulary) {
  TokenTable table(vocabulary.size());
  for (std::size_t id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary[id].content.empty()) {
      table.add(vocabulary[id].content, static_cast<TokenId>(id));
    }
  }
  return table;
}

// Special tokens are looked for in the text as it came even where the file says
// "normalized": only there is it known who wrote it.
AddedTokenMatcher raw_matcher(const std::vector<AddedToken>& tokens) {
  std::vector<AddedToken> chosen;
  for (const AddedToken& token : tokens) {
    if (token.needs_trust() || !token.is_normalized) chosen.push_back(token);
  }
  return AddedTokenMatcher(std::move(chosen));
}

AddedTokenMatcher normalized_matcher(const std::vector<AddedToken>& tokens, const Normalizer& normalizer) {
  std::vector<AddedToken> chosen;
  PatternScratch scratch;
  EncodingBudget budget;
  for (AddedToken token : tokens) {
    if (token.needs_trust() || !token.is_normalized) continue;
    token.content = normalizer.apply(token.content, scratch, budget);
    if (!token.content.empty()) chosen.push_back(std::move(token));
  }
  return AddedTokenMatcher(std::move(chosen));
}

// Calls between(text, is_beginning) for what lies between matches, and appends
// the matches themselves.
template <class Between>
void split_at_added_tokens(const AddedTokenMatcher& matcher, std::string_view text, bool is_beginning,
                           std::span<const TextRange> trusted, std::vector<TokenId>& tokens,
                           Between between) {
  std::size_t done = 0;
  while (done < text.size()) {
    const auto match = matcher.is_empty() ? std::nullopt : matcher.find(text, done, trusted);
    const std::size_t end = match ? match->range.begin : text.size();
    if (done < end) between(text.substr(done, end - done), is_beginning && done == 0);
    if (!match) return;
    tokens.push_back(match->token);
    done = match->range.end;
  }
}

std::size_t invalid_utf8_prefix(std::string_view text, EncodingBudget& budget) {
  std::size_t end = 0;
  while (end < text.size()) {
    const Utf8Character character = next_utf8_character(text.substr(end));
    if (character.kind == Utf8Character::Kind::kValid) break;
    budget.spend(character.num_bytes);
    end += character.num_bytes;
  }
  return end;
}

}  // namespace

// Working memory of one call, and its result.
struct PipelineTokenizer::Scratch {
  EncodingBudget& budget;
  PatternScratch patterns = {};
  WordScratch words = {};
  std::vector<TokenId> tokens = {};
};

PipelineTokenizer::PipelineTokenizer(PipelineTokenizerParts parts)
    : vocabulary_(std::move(parts.vocabulary)),
      ids_(table_of(vocabulary_)),
      raw_tokens_(raw_matcher(parts.added_tokens)),
      normalized_tokens_(normalized_matcher(parts.added_tokens, Normalizer(parts.normalizer_steps))),
      normalizer_(std::move(parts.normalizer_steps)),
      pre_tokenizer_(std::move(parts.pre_tokenizer_steps)),
      model_(std::move(parts.model)),
      max_token_bytes_(longest_token(parts.added_tokens)),
      num_stripped_leading_spaces_(parts.num_stripped_leading_spaces),
      bos_token_(parts.bos_token),
      eos_token_(parts.eos_token),
      enclosing_tokens_(std::move(parts.enclosing_tokens)),
      pair_tokens_(std::move(parts.pair_tokens)) {
  normalizer_.probe();
}

std::vector<TokenId> PipelineTokenizer::encode_within(EncodingBudget& budget, std::string_view text,
                                                      std::span<const TextRange> trusted) const {
  budget.begin_text(text.size());
  budget.check_tokens(text.size() / max_token_bytes_);
  Scratch scratch{.budget = budget};
  split_at_added_tokens(
      raw_tokens_, text, true, trusted, scratch.tokens,
      [&](std::string_view segment, bool is_beginning) { encode_segment(segment, is_beginning, scratch); });
  budget.check_tokens(scratch.tokens.size());
  return std::move(scratch.tokens);
}

std::string_view PipelineTokenizer::token_bytes(TokenId token) const {
  const auto index = static_cast<std::size_t>(token);
  return token >= 0 && index < vocabulary_.size() ? std::string_view(vocabulary_[index].bytes)
                                                  : std::string_view();
}

std::string_view PipelineTokenizer::token_content(TokenId token) const {
  const auto index = static_cast<std::size_t>(token);
  return token >= 0 && index < vocabulary_.size() ? std::string_view(vocabulary_[index].content)
                                                  : std::string_view();
}

bool PipelineTokenizer::is_special(TokenId token) const {
  const auto index = static_cast<std::size_t>(token);
  return token >= 0 && index < vocabulary_.size() && vocabulary_[index].is_special;
}

std::optional<TokenId> PipelineTokenizer::token_id(std::string_view content) const {
  return ids_.find(content);
}

// Bytes that aren't UTF-8 (no client can send them, files can) go straight to
// the model: patterns and normal forms say nothing about them.
void PipelineTokenizer::encode_segment(std::string_view text, bool is_beginning, Scratch& scratch) const {
  while (!text.empty()) {
    const std::size_t num_valid = valid_utf8_prefix(text);
    if (num_valid > 0) encode_valid_text(text.substr(0, num_valid), is_beginning, scratch);
    text.remove_prefix(num_valid);
    const std::size_t num_invalid = invalid_utf8_prefix(text, scratch.budget);
    if (num_invalid > 0) {
      model_.encode(text.substr(0, num_invalid), scratch.words, scratch.budget, scratch.tokens);
    }
    text.remove_prefix(num_invalid);
    is_beginning = false;
  }
}

void PipelineTokenizer::encode_valid_text(std::string_view text, bool is_beginning, Scratch& scratch) const {
  std::string normalized;
  if (!normalizer_.is_identity()) {
    normalized = normalizer_.apply(text, scratch.patterns, scratch.budget);
    text = normalized;
  }
  split_at_added_tokens(
      normalized_tokens_, text, is_beginning, {}, scratch.tokens,
      [&](std::string_view segment, bool begins) { encode_words(segment, begins, scratch); });
}

void PipelineTokenizer::encode_words(std::string_view text, bool is_beginning, Scratch& scratch) const {
  pre_tokenizer_.cut(text, is_beginning, scratch.patterns, scratch.budget, [&](std::string_view word) {
    model_.encode(word, scratch.words, scratch.budget, scratch.tokens);
  });
}

// Not known where white space or other text goes without a token of its own.
std::size_t PipelineTokenizer::longest_token(const std::vector<AddedToken>& added_tokens) const {
  std::size_t longest = model_.max_token_bytes();
  if (pre_tokenizer_.removes_text() ||
      __builtin_mul_overflow(longest, normalizer_.max_shrinkage(), &longest)) {
    return EncodingBudget::kUnlimited;
  }
  for (const AddedToken& token : added_tokens) {
    if (token.strips_left || token.strips_right) return EncodingBudget::kUnlimited;
    longest = std::max(longest, token.content.size() * normalizer_.max_shrinkage());
  }
  return longest;
}

}  // namespace troupe
