// SPDX-License-Identifier: Apache-2.0
#include "text/history/history_encoding.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "text/history/answer_record.hpp"
#include "text/history/encoding_behind.hpp"

namespace troupe {
namespace {

using Part = std::shared_ptr<const RememberedText>;
using Tokens = std::vector<TokenId>;

bool has_text(const RenderedText& rendered, std::size_t at, std::string_view text) {
  return std::string_view(rendered.text).substr(at, text.size()) == text;
}

bool begins_alike(const RenderedText& rendered, const RememberedText& part) {
  return part.begin <= rendered.text.size() && has_text(rendered, part.begin, part.text) &&
         rendered.trusted_in(part.begin, part.answer_begin()) == part.trusted;
}

// A special token in an answer stands for text of the template, never for a client's.
bool has_answer(const RenderedText& rendered, const RememberedText& part) {
  return has_text(rendered, part.answer_begin(), part.answer) &&
         std::ranges::all_of(part.answer_specials,
                             [&](const TextRange& range) { return rendered.is_trusted(range); });
}

// The template's text follows, at most a part of one token behind: a client or a template
// has cut the end of an answer off. No character is cut in two.
bool ends_answer(const RenderedText& rendered, std::size_t at) {
  constexpr std::size_t kLongestRest = 16;
  if (rendered.is_border(at)) return true;
  if (at < rendered.text.size() && (static_cast<unsigned char>(rendered.text[at]) & 0xC0) == 0x80)
    return false;
  return !rendered.trusted_in(at, at + kLongestRest + 1).empty();
}

// The part with as much of its answer as is there. Null: nothing of it, or no end was cut off.
Part with_less_answer(const Tokenizer& tokenizer, const RenderedText& rendered, const RememberedText& part) {
  const auto text = std::string_view(rendered.text).substr(part.answer_begin());
  const auto differs = std::ranges::mismatch(text, part.answer);
  const auto num_alike = static_cast<std::size_t>(differs.in2 - part.answer.begin());
  RememberedText less = part;
  while (less.answer.size() > num_alike) {
    if (less.tokens.empty()) return nullptr;
    const auto num_bytes = spelling_in_answer(tokenizer, less.tokens.back()).size();
    if (num_bytes > less.answer.size()) return nullptr;
    less.answer.resize(less.answer.size() - num_bytes);
    less.tokens.pop_back();
  }
  while (!less.answer_specials.empty() && less.answer_specials.back().end > less.end())
    less.answer_specials.pop_back();
  if (less.answer.empty() || !ends_answer(rendered, less.end()) || !has_answer(rendered, less))
    return nullptr;
  return std::make_shared<const RememberedText>(std::move(less));
}

// From the prompt's beginning on, as far as the rendered text is the same.
std::vector<Part> matching_parts(const Tokenizer& tokenizer, const RenderedText& rendered, const Part& last) {
  std::vector<Part> chain;
  for (const Part* part = &last; *part; part = &(*part)->before) chain.push_back(*part);
  std::ranges::reverse(chain);
  for (std::size_t i = 0; i < chain.size(); ++i) {
    if (begins_alike(rendered, *chain[i])) {
      if (has_answer(rendered, *chain[i])) continue;
      chain[i] = with_less_answer(tokenizer, rendered, *chain[i]);
      if (chain[i]) ++i;
    }
    chain.resize(i);
  }
  return chain;
}

class Encoding {
 public:
  Encoding(const Tokenizer& tokenizer, const RenderedText& rendered, EncodingBudget& budget)
      : tokenizer_(tokenizer), rendered_(rendered), budget_(budget), marker_(draw_marker()) {}

  // Of bytes [begin, end) of the text; nullopt where the tokenizer does not cut at begin.
  std::optional<Tokens> encode(std::size_t begin, std::size_t end, std::size_t num_before) const {
    const std::string_view text = std::string_view(rendered_.text).substr(begin, end - begin);
    auto trusted = rendered_.trusted_in(begin, end);
    if (begin == 0) {
      budget_.set_other_tokens(num_before);
      auto tokens = tokenizer_.encode_within(budget_, text, trusted);
      budget_.set_other_tokens(0);
      return tokens;
    }
    for (TextRange& range : trusted)
      range = {range.begin - begin + marker_.size(), range.end - begin + marker_.size()};
    return encode_behind_marker(tokenizer_, marker_, marker_ + std::string(text), trusted, num_before,
                                budget_);
  }

  // The text from here on begins with a special token: nothing in front changes its tokens.
  bool begins_with_special(const Tokens& tokens, std::size_t at) const {
    if (tokens.empty() || !tokenizer_.is_special(tokens.front())) return false;
    const auto content = tokenizer_.token_content(tokens.front());
    return !content.empty() && has_text(rendered_, at, content);
  }

 private:
  const Tokenizer& tokenizer_;
  const RenderedText& rendered_;
  EncodingBudget& budget_;
  std::string marker_;
};

RememberedText part_of(const RenderedText& rendered, std::size_t begin, std::size_t end, std::uint64_t key,
                       Tokens tokens) {
  return {.key = key,
          .begin = begin,
          .text = rendered.text.substr(begin, end - begin),
          .trusted = rendered.trusted_in(begin, end),
          .tokens = std::move(tokens)};
}

// Everything behind `begin`, cut where the last message ends if the tokens are the same
// then. False where the tokenizer does not cut at begin.
bool encode_rest(const Encoding& encoding, const RenderedText& rendered, std::size_t begin, std::uint64_t key,
                 std::size_t num_before, PromptParts& parts) {
  const auto end = rendered.text.size();
  const bool has_opening = !rendered.trusted.empty() && rendered.trusted.back().end == end;
  const auto cut = has_opening ? rendered.trusted.back().begin : begin;
  if (cut > begin) {
    auto opening = encoding.encode(cut, end, num_before);
    if (opening && encoding.begins_with_special(*opening, cut)) {
      auto messages = encoding.encode(begin, cut, num_before + opening->size());
      if (!messages) return false;
      parts.messages = part_of(rendered, begin, cut, key, std::move(*messages));
      parts.opening = part_of(rendered, cut, end, key, std::move(*opening));
      return true;
    }
  }
  auto rest = encoding.encode(begin, end, num_before);
  if (!rest) return false;
  parts.opening = part_of(rendered, begin, end, key, std::move(*rest));
  return true;
}

void append(Tokens& tokens, const Tokens& more) { tokens.insert(tokens.end(), more.begin(), more.end()); }

}  // namespace

PromptWithHistory encode_with_history(const Tokenizer& tokenizer, const RenderedText& rendered,
                                      std::span<const std::uint64_t> keys, const std::string& tenant,
                                      const std::string& scope, TurnMemory& memory, EncodingBudget& budget) {
  const Encoding encoding(tokenizer, rendered, budget);
  auto last = memory.find(tenant, keys);
  if (last && last->scope != scope) last = nullptr;  // keys may be equal by chance or on purpose
  auto known = matching_parts(tokenizer, rendered, last);
  std::size_t num_remembered = 0;
  for (const Part& part : known) num_remembered += part->tokens.size();
  PromptWithHistory prompt;
  for (;; known.pop_back()) {
    const auto begin = known.empty() ? 0 : known.back()->end();
    if (encode_rest(encoding, rendered, begin, keys.back(), num_remembered, prompt.parts) || known.empty())
      break;
    num_remembered -= known.back()->tokens.size();
  }
  prompt.num_remembered = num_remembered;
  prompt.parts.opening.scope = scope;
  if (prompt.parts.messages) prompt.parts.messages->scope = scope;
  if (!known.empty()) prompt.parts.before = known.back();
  const auto num_new =
      prompt.parts.opening.tokens.size() + (prompt.parts.messages ? prompt.parts.messages->tokens.size() : 0);
  prompt.tokens.reserve(num_remembered + num_new);
  for (const Part& part : known) append(prompt.tokens, part->tokens);
  if (prompt.parts.messages) append(prompt.tokens, prompt.parts.messages->tokens);
  append(prompt.tokens, prompt.parts.opening.tokens);
  return prompt;
}

}  // namespace troupe
