// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/exact_prompts.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

namespace troupe::loadgen {
namespace {

constexpr std::array<std::string_view, 24> kShortWords = {"the", "a", "to", "of", "and", "in", "is", "it",
                                                          "on",  "I", "be", "as", "at",  "by", "or", "an",
                                                          "b",   "c", "d",  "e",  "m",   "n",  "s",  "t"};
constexpr int kMostCorrections = 32;

std::vector<std::string_view> words_in(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const auto space = std::min(text.find(' '), text.size());
    if (space > 0) words.push_back(text.substr(0, space));
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return words;
}

std::string with_space(std::string_view word) { return " " + std::string(word); }

}  // namespace

ExactPrompts::ExactPrompts(PromptWriter writer, std::shared_ptr<const Tokenizer> tokenizer)
    : writer_(writer), tokenizer_(std::move(tokenizer)) {
  const std::uint32_t alone = count("a");
  for (const std::string_view word : kShortWords)
    if (count("a" + with_space(word)) == alone + 1) fillers_.emplace_back(word);
  if (fillers_.empty())
    throw std::runtime_error("run.tokenizer: expected a vocabulary with short words that are one token each");
}

std::string ExactPrompts::text(const PlannedConversation& conversation, std::size_t turn) const {
  const PlannedTurn& planned = conversation.turns.at(turn);
  std::string text;
  PlannedConversation part;
  part.number = conversation.number;
  part.turns.resize(turn + 1);
  if (turn == 0) {
    for (const PrefixBlock& block : conversation.prefix) {
      part.prefix = {block};
      text += exact(writer_.text(part, 0, 1), block.num_tokens, text.empty());
    }
    part.prefix.clear();
  }
  if (!planned.text.empty()) return text.empty() ? planned.text : text + '\n' + planned.text;
  if (planned.prompt_tokens == 0 && !text.empty()) return text;
  part.turns[turn].prompt_tokens = planned.prompt_tokens;
  return text + exact(writer_.text(part, turn, 1), std::max(planned.prompt_tokens, 1U), text.empty());
}

// Words are counted one by one, as what is split at spaces adds up; the whole is counted once more, and
// corrected where it did not.
std::string ExactPrompts::exact(std::string_view words, std::uint32_t num_tokens, bool is_first) const {
  std::string text;
  std::uint32_t counted = 0;
  const std::string before = is_first ? "" : "a";  // of a text that this one goes on
  for (const std::string_view word : words_in(words)) {
    const std::string next = text.empty() && is_first ? std::string(word) : with_space(word);
    const std::uint32_t more = text.empty() && is_first ? count(next) : count("a" + next) - count("a");
    if (counted + more > num_tokens) break;
    text += next;
    counted += more;
  }
  for (int correction = 0; correction < kMostCorrections; ++correction) {
    const std::uint32_t present = count(before + text) - (is_first ? 0 : count(before));
    if (present == num_tokens) return text;
    if (present > num_tokens) {
      const auto space = text.rfind(' ');
      text.resize(space == std::string::npos ? 0 : space);
      continue;
    }
    for (std::uint32_t missing = num_tokens - present; missing > 0; --missing) {
      const std::string& filler = fillers_[(missing + correction) % fillers_.size()];
      text += text.empty() && is_first ? filler : with_space(filler);
    }
  }
  throw std::runtime_error("run.tokenizer: no prompt of exactly " + std::to_string(num_tokens) +
                           " tokens was found");
}

std::uint32_t ExactPrompts::count(std::string_view text) const {
  return static_cast<std::uint32_t>(tokenizer_->encode(text).size());
}

}  // namespace troupe::loadgen
