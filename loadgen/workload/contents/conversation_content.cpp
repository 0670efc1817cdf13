// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/contents/conversation_content.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "loadgen/workload/contents/question_content.hpp"
#include "loadgen/workload/distribution.hpp"
#include "loadgen/workload/random_source.hpp"
#include "loadgen/workload/traces/trace_selection.hpp"

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

// Conversations of drawn lengths: turns, think times, and prefixes that many
// conversations share. Only lengths are planned; prompt_writer makes the words.
class SyntheticContent final : public ConversationContent {
 public:
  SyntheticContent(const ClassSettings& settings, std::uint32_t class_index, std::uint64_t seed);
  bool fill(std::uint64_t number, PlannedConversation& conversation) override;

 private:
  PrefixBlock draw_prefix(std::uint64_t number) const;

  Distribution prompt_tokens_;
  std::optional<Distribution> first_prompt_tokens_;
  Distribution output_tokens_;
  std::optional<Distribution> output_ratio_;  // instead
  Distribution num_turns_;
  Distribution think_time_s_;
  std::uint32_t prefix_tokens_;
  std::vector<double> prefix_shares_;  // cumulated: the k-th ends where the next begins
  std::uint32_t class_index_;
  std::uint64_t seed_;
};

// The conversations of a trace file, in its order.
class TraceContent final : public ConversationContent {
 public:
  // `keeps_classes`: conversations have classes of their own (those of a plan
  // file that is the whole workload).
  TraceContent(const ClassSettings& settings, bool keeps_classes, std::uint64_t seed);
  bool fill(std::uint64_t number, PlannedConversation& conversation) override;
  std::vector<std::string> warnings() const override;

 private:
  bool read_next(PlannedConversation& conversation);

  TraceSettings trace_;
  bool repeats_;
  bool keeps_classes_;
  Distribution think_time_s_;
  std::uint64_t seed_;
  std::uint64_t num_rounds_ = 0;  // finished ones
  std::unique_ptr<ConversationSource> source_;
};

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

TraceContent::TraceContent(const ClassSettings& settings, bool keeps_classes, std::uint64_t seed)
    : trace_(settings.trace),
      repeats_(settings.repeats),
      keeps_classes_(keeps_classes),
      think_time_s_(settings.think_time_s),
      seed_(seed),
      source_(open_trace(trace_)) {}

bool TraceContent::fill(std::uint64_t number, PlannedConversation& conversation) {
  const auto request_class = conversation.request_class;
  if (!read_next(conversation)) return false;
  if (!keeps_classes_) conversation.request_class = request_class;
  // Later rounds share prefixes among themselves, not with those before.
  if (num_rounds_ > 0)
    for (auto& block : conversation.prefix) block.id = mixed(block.id, num_rounds_);
  RandomSource random(seed_, RandomStream::kThinkTime, number);
  for (std::size_t i = 1; i < conversation.turns.size(); ++i) {
    auto& think_time = conversation.turns[i].think_time;
    if (think_time.count() == 0) think_time = seconds_to_nanoseconds(think_time_s_.sample(random));
  }
  return true;
}

bool TraceContent::read_next(PlannedConversation& conversation) {
  if (source_->next(conversation)) return true;
  if (!repeats_) return false;
  ++num_rounds_;
  source_ = open_trace(trace_);
  return source_->next(conversation);
}

std::vector<std::string> TraceContent::warnings() const { return source_->warnings(); }

}  // namespace

std::unique_ptr<ConversationContent> make_content(const WorkloadSettings& settings, std::uint32_t class_index,
                                                  std::uint64_t seed) {
  const auto& c = settings.classes[class_index];
  switch (c.content) {
    case ClassSettings::Content::kQuestions: return std::make_unique<QuestionContent>(c, seed);
    case ClassSettings::Content::kTrace:
      return std::make_unique<TraceContent>(c, is_plan_replay(settings), seed);
    case ClassSettings::Content::kSynthetic: break;
  }
  return std::make_unique<SyntheticContent>(c, class_index, seed);
}

}  // namespace troupe::loadgen
