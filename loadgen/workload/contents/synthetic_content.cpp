// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/contents/synthetic_content.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::loadgen {
namespace {

constexpr std::uint64_t kIdMask = (1ULL << 53) - 1;  // survives readers whose numbers are doubles

std::vector<double> zipf_shares(const PrefixSettings& settings) {
  std::vector<double> shares;
  double total = 0;
  for (std::uint32_t k = 1; k <= settings.count; ++k)
    shares.push_back(total += std::pow(k, -settings.zipf_exponent));
  for (auto& share : shares) share /= total;
  return shares;
}

std::uint32_t rounded_up_to_one(double count) {
  return static_cast<std::uint32_t>(std::clamp(std::round(count), 1.0, 4e9));
}

}  // namespace

SyntheticContent::SyntheticContent(const ClassSettings& settings, std::uint32_t class_index,
                                   std::uint64_t seed)
    : prompt_tokens_(settings.prompt_tokens),
      output_tokens_(settings.output_tokens),
      num_turns_(settings.num_turns),
      think_time_s_(settings.think_time_s),
      prefix_tokens_(settings.prefix.tokens),
      prefix_shares_(zipf_shares(settings.prefix)),
      class_index_(class_index),
      seed_(seed) {
  if (settings.first_prompt_tokens) first_prompt_tokens_.emplace(*settings.first_prompt_tokens);
  if (settings.output_ratio) output_ratio_.emplace(*settings.output_ratio);
}

bool SyntheticContent::fill(std::uint64_t number, PlannedConversation& conversation) {
  const auto numbers_of = [&](RandomStream stream) { return RandomSource(seed_, stream, number); };
  conversation.system_text.clear();
  conversation.prefix.clear();
  if (!prefix_shares_.empty()) conversation.prefix.push_back(draw_prefix(number));

  auto num_turns = numbers_of(RandomStream::kNumTurns);
  auto prompt_tokens = numbers_of(RandomStream::kPromptTokens);
  auto output_tokens = numbers_of(RandomStream::kOutputTokens);
  auto think_time = numbers_of(RandomStream::kThinkTime);
  conversation.turns.assign(num_turns_.sample_count(num_turns, 1), PlannedTurn{});
  for (auto& turn : conversation.turns) {
    const bool is_first = &turn == conversation.turns.data();
    const Distribution& lengths = is_first && first_prompt_tokens_ ? *first_prompt_tokens_ : prompt_tokens_;
    turn.prompt_tokens = lengths.sample_count(prompt_tokens, 1);
    turn.output_tokens = output_ratio_
                             ? rounded_up_to_one(turn.prompt_tokens * output_ratio_->sample(output_tokens))
                             : output_tokens_.sample_count(output_tokens);
    if (is_first) continue;
    turn.think_time = seconds_to_nanoseconds(think_time_s_.sample(think_time));
  }
  return true;
}

PrefixBlock SyntheticContent::draw_prefix(std::uint64_t number) const {
  const double share = RandomSource(seed_, RandomStream::kPrefix, number).uniform();
  const auto found = std::upper_bound(prefix_shares_.begin(), prefix_shares_.end(), share);
  const auto k = std::min<std::ptrdiff_t>(found - prefix_shares_.begin(), std::ssize(prefix_shares_) - 1);
  return {.id = mixed(class_index_, static_cast<std::uint64_t>(k)) & kIdMask, .num_tokens = prefix_tokens_};
}

}  // namespace troupe::loadgen
