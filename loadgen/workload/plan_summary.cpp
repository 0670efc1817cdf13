// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/plan_summary.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>

namespace troupe::loadgen {
namespace {

// The smallest length that `share` of all don't exceed.
std::uint32_t quantile(std::vector<std::uint32_t>& lengths, double share) {
  const auto place = static_cast<std::size_t>(share * static_cast<double>(lengths.size() - 1));
  const auto found = lengths.begin() + static_cast<std::ptrdiff_t>(place);
  std::nth_element(lengths.begin(), found, lengths.end());
  return *found;
}

std::string row(const LengthStatistics& lengths) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%9.1f %7u %7u %7u", lengths.mean, lengths.p50, lengths.p99,
                lengths.max);
  return text.data();
}

}  // namespace

LengthStatistics length_statistics(std::vector<std::uint32_t>& lengths) {
  if (lengths.empty()) return {};
  const double sum = std::accumulate(lengths.begin(), lengths.end(), 0.0);
  return {.mean = sum / static_cast<double>(lengths.size()),
          .p50 = quantile(lengths, 0.5),
          .p99 = quantile(lengths, 0.99),
          .max = *std::max_element(lengths.begin(), lengths.end())};
}

PlanSummary::PlanSummary(const std::vector<RequestClass>& classes) {
  for (const auto& request_class : classes) classes_.emplace_back().name = request_class.name;
}

void PlanSummary::add(const PlannedConversation& conversation) {
  auto& of_class = classes_.at(conversation.request_class);
  ++of_class.num_conversations;
  last_start_ = std::max(last_start_, conversation.start);
  std::uint32_t prefix_tokens = 0;
  for (const auto& block : conversation.prefix) {
    prefix_tokens += block.num_tokens;
    if (!seen_blocks_.insert(block.id).second) repeated_prefix_tokens_ += block.num_tokens;
  }
  prefix_tokens_ += prefix_tokens;
  for (const auto& turn : conversation.turns) {
    of_class.prompt_tokens.push_back(turn.prompt_tokens + std::exchange(prefix_tokens, 0));
    if (turn.output_tokens > 0) of_class.output_tokens.push_back(turn.output_tokens);
  }
}

std::uint64_t PlanSummary::num_conversations() const {
  std::uint64_t total = 0;
  for (const auto& c : classes_) total += c.num_conversations;
  return total;
}

std::uint64_t PlanSummary::num_turns() const {
  std::uint64_t total = 0;
  for (const auto& c : classes_) total += c.prompt_tokens.size();
  return total;
}

double PlanSummary::repeated_prefix_share() const {
  if (prefix_tokens_ == 0) return 0;
  return static_cast<double>(repeated_prefix_tokens_) / static_cast<double>(prefix_tokens_);
}

void PlanSummary::print(std::ostream& out) {
  std::array<char, 160> text{};
  const double last_start_s = std::chrono::duration<double>(last_start_).count();
  out << num_conversations() << " conversations, " << num_turns() << " turns";
  if (last_start_s > 0) {
    const double rate = static_cast<double>(num_conversations()) / last_start_s;
    std::snprintf(text.data(), text.size(), "; the last begins at %.1f s: %.3g a second", last_start_s, rate);
    out << text.data();
  }
  const std::string columns = "     mean     p50     p99     max";
  std::snprintf(text.data(), text.size(), "\n\n%36s    %-35s%s\n%-16s %9s %9s  ", "", "prompt tokens",
                "output tokens", "class", "conv.", "turns");
  out << text.data() << columns << "   " << columns << '\n';
  for (auto& c : classes_) {
    std::snprintf(text.data(), text.size(), "%-16s %9llu %9zu  ", c.name.c_str(),
                  static_cast<unsigned long long>(c.num_conversations), c.prompt_tokens.size());
    out << text.data() << row(length_statistics(c.prompt_tokens)) << "   "
        << (c.output_tokens.empty() ? "until the model ends" : row(length_statistics(c.output_tokens)))
        << '\n';
  }
  if (prefix_tokens_ == 0) return;
  std::snprintf(text.data(), text.size(),
                "\n%.1f %% of %llu prefix tokens have come before: what a cache can find\n",
                100 * repeated_prefix_share(), static_cast<unsigned long long>(prefix_tokens_));
  out << text.data();
}

}  // namespace troupe::loadgen
