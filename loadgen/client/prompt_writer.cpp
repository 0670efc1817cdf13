// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/prompt_writer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "loadgen/workload/random_source.hpp"

namespace troupe::loadgen {
namespace {

// Frequent enough to be one token each in vocabularies of 30,000 and more.
constexpr std::array<std::string_view, 128> kWords = {
    "about",   "after",     "again",     "all",    "also",   "always",  "and",    "another", "any",
    "around",  "back",      "before",    "best",   "better", "between", "big",    "book",    "both",
    "call",    "can",       "car",       "case",   "change", "city",    "close",  "come",    "could",
    "country", "day",       "different", "down",   "each",   "early",   "end",    "even",    "every",
    "example", "eye",       "face",      "fact",   "family", "far",     "few",    "find",    "first",
    "follow",  "food",      "form",      "friend", "full",   "game",    "give",   "good",    "great",
    "group",   "hand",      "hard",      "head",   "help",   "here",    "high",   "home",    "house",
    "idea",    "important", "just",      "keep",   "kind",   "know",    "large",  "last",    "learn",
    "leave",   "left",      "life",      "light",  "line",   "list",    "little", "live",    "long",
    "look",    "make",      "many",      "mean",   "money",  "month",   "more",   "morning", "most",
    "move",    "much",      "name",      "near",   "need",   "never",   "new",    "next",    "night",
    "now",     "number",    "often",     "old",    "open",   "order",   "other",  "over",    "own",
    "page",    "paper",     "part",      "people", "place",  "plan",    "point",  "power",   "question",
    "read",    "real",      "right",     "room",   "run",    "same",    "say",    "school",  "set",
    "small",   "story"};

std::uint64_t words_of(std::uint32_t num_tokens, double tokens_per_word) {
  return static_cast<std::uint64_t>(std::max(1.0, std::round(num_tokens / tokens_per_word)));
}

void append_words(std::string& text, RandomSource random, std::uint64_t count) {
  for (; count > 0; --count) {
    if (!text.empty()) text += ' ';
    text += kWords[random.next() % kWords.size()];
  }
}

// Different for different numbers, also in the first letter for 26 in a row.
void append_name(std::string& text, std::uint64_t number) {
  if (!text.empty()) text += ' ';
  for (++number; number > 0; number = (number - 1) / 26) text += static_cast<char>('a' + (number - 1) % 26);
}

// Moves all numbers at once, so that they stay different, by the seed.
std::uint64_t moved(std::uint64_t number, std::uint64_t seed) {
  return number ^ (mixed(seed, static_cast<std::uint64_t>(RandomStream::kUniqueText)) & 0xFFFF);
}

RandomSource unique_numbers(std::uint64_t seed, const PlannedConversation& conversation, std::size_t turn) {
  return {seed, RandomStream::kUniqueText, mixed(conversation.number, turn)};
}

}  // namespace

std::string PromptWriter::text(const PlannedConversation& conversation, std::size_t turn,
                               double tokens_per_word) const {
  const auto& planned = conversation.turns.at(turn);
  std::string text;
  if (turn == 0) {
    for (const auto& block : conversation.prefix)
      append_words(text, {seed_, RandomStream::kPrefixText, block.id},
                   words_of(block.num_tokens, tokens_per_word));
  }
  if (!planned.text.empty()) return text.empty() ? planned.text : text + '\n' + planned.text;
  if (planned.prompt_tokens == 0 && !text.empty()) return text;
  append_name(text, moved(conversation.number, seed_));
  append_words(text, unique_numbers(seed_, conversation, turn),
               words_of(planned.prompt_tokens, tokens_per_word) - 1);
  return text;
}

// Nodes are written with the parents first; none of it recurses, as a tree may be deep.
std::string PromptWriter::tree(const PlannedConversation& conversation, std::size_t turn,
                               TreeShape shape) const {
  const std::uint32_t num_words = std::max(1U, conversation.turns.at(turn).prompt_tokens);
  const auto inner = inner_nodes(shape, num_words, {seed_, RandomStream::kTrees, conversation.number});
  auto numbers = unique_numbers(seed_, conversation, turn);
  std::string text;
  constexpr std::uint32_t kClose = UINT32_MAX;
  std::vector<std::uint32_t> open = {num_words + static_cast<std::uint32_t>(inner.size()) - 1};  // the root
  while (!open.empty()) {
    const std::uint32_t node = open.back();
    open.pop_back();
    if (node == kClose) {
      text += ')';
      continue;
    }
    text += " (2";
    if (node < num_words) {
      append_words(text, numbers, 1);
      numbers.next();
      text += ')';
    } else {
      const auto [left, right] = inner[node - num_words];
      open.insert(open.end(), {kClose, right, left});
    }
  }
  return text.substr(1);
}

std::vector<std::int32_t> PromptWriter::token_ids(const PlannedConversation& conversation, std::size_t turn,
                                                  TokenRange range) const {
  const auto num_ids = static_cast<std::uint64_t>(std::max(1, range.end - range.first));
  const auto id_of = [&](std::uint64_t number) {
    return range.first + static_cast<std::int32_t>(number % num_ids);
  };
  std::vector<std::int32_t> ids;
  const auto append = [&](RandomSource random, std::uint32_t count) {
    for (; count > 0; --count) ids.push_back(id_of(random.next()));
  };
  if (turn == 0) {
    for (const auto& block : conversation.prefix)
      append({seed_, RandomStream::kPrefixText, block.id}, block.num_tokens);
  }
  auto count = conversation.turns.at(turn).prompt_tokens;
  if (count == 0 && ids.empty()) count = 1;  // no server takes an empty prompt
  if (count > 0) {
    ids.push_back(id_of(conversation.number + mixed(seed_, turn) % num_ids));
    append(unique_numbers(seed_, conversation, turn), count - 1);
  }
  return ids;
}

}  // namespace troupe::loadgen
