// SPDX-License-Identifier: Apache-2.0
// Which kept KV should go: by a power of its age, or by the chance that its conversation
// comes back in the next moment, estimated from the ages at which conversations did come
// back, by turn number (Pensieve, §3.4.3.1). Chats in virtual time over one tier of pages,
// as large as device and host together; a conversation loses its leading pages first.
// Counts what is computed again, in the time of computing it; seeds are paired.
//
// Usage: bench_return_hazard [seeds] [tokens at which attention costs as much as the rest]
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <queue>
#include <string>
#include <vector>

#include "bench/cache/think_times.hpp"

using namespace troupe;
using namespace troupe::loadgen;

namespace {

constexpr double kPageTokens = 32;
constexpr double kSeconds = 2400, kWarmup = 600;
constexpr double kSecondsPerToken = 0.02;  // of an answer
constexpr double kNever = std::numeric_limits<double>::infinity();

struct Conversation {
  PlannedConversation plan;
  std::uint32_t turn = 0;       // the next, or the one that runs
  double num_tokens = 0;        // before that turn
  std::uint32_t num_pages = 0;  // full ones, of which the first `num_lost` are gone
  std::uint32_t num_lost = 0;
  double idle_since = 0, returns_at = kNever;

  bool is_idle = false;
  bool has_pages() const { return is_idle && num_lost < num_pages; }
};

// Returns and idle time by age and turn number. Where little was seen it is 1 / age,
// which is Pensieve's own.
class ReturnHazard {
 public:
  void add(std::uint32_t turn, double age, bool has_returned) {
    Bins& bins = bins_[class_of(turn)];
    const std::size_t last = bin_of(age);
    for (std::size_t bin = 0; bin < last; ++bin) bins[bin].idle += end_of(bin) - begin_of(bin);
    bins[last].idle += age - begin_of(last);
    bins[last].returns += has_returned ? 1 : 0;
  }
  double at(std::uint32_t turn, double age) const {
    const std::size_t bin = bin_of(age);
    const Bin& seen = bins_[class_of(turn)][bin];
    return (seen.returns + 1) / (seen.idle + std::max(age, 1.0));
  }
  // The highest mean from now on until any later age: whoever is sure to come back in a
  // minute may not be about to in this second (Gittins' index).
  double ahead(std::uint32_t turn, double age) const {
    const Bins& bins = bins_[class_of(turn)];
    double returns = 1, idle = std::max(age, 1.0), highest = 0;
    for (std::size_t bin = bin_of(age); bin < kBins; ++bin) {
      returns += bins[bin].returns;
      idle += bins[bin].idle;
      highest = std::max(highest, returns / idle);
    }
    return highest;
  }

 private:
  static constexpr std::size_t kBins = 40;  // a third of an octave each, from one second on
  struct Bin {
    double returns = 0, idle = 0;
  };
  using Bins = std::array<Bin, kBins>;

  static double begin_of(std::size_t bin) { return bin == 0 ? 0 : std::exp2(static_cast<double>(bin) / 3); }
  static double end_of(std::size_t bin) { return begin_of(bin + 1); }
  static std::size_t bin_of(double age) {
    const double bin = age <= 1 ? 0 : std::floor(3 * std::log2(age));
    return std::min(static_cast<std::size_t>(bin), kBins - 1);
  }
  static std::size_t class_of(std::uint32_t turn) { return std::min<std::uint32_t>(turn, 6) - 1; }

  std::array<Bins, 6> bins_{};  // after the first turn, the second ...; the sixth and later
};

// What a conversation's next page to go is worth, over the cost of computing it again.
using Weight = std::function<double(const Conversation&, const ReturnHazard&, double now)>;

double age_of(const Conversation& conversation, double now) {
  return std::max(now - conversation.idle_since, 1e-9);
}

Weight by_power(double exponent) {
  return [exponent](const Conversation& conversation, const ReturnHazard&, double now) {
    return std::pow(age_of(conversation, now), -exponent);
  };
}

struct Policy {
  std::string name;
  Weight weight;
  bool counts_cost = true;
};

std::vector<Policy> policies() {
  return {
      {"lru", by_power(1), false},
      {"1 / T", by_power(1)},
      {"1 / T^1.5", by_power(1.5)},
      {"1 / T^2", by_power(2)},
      {"hazard", [](const Conversation& conversation, const ReturnHazard& hazard,
                    double now) { return hazard.at(conversation.turn, age_of(conversation, now)); }},
      {"hazard ahead", [](const Conversation& conversation, const ReturnHazard& hazard,
                          double now) { return hazard.ahead(conversation.turn, age_of(conversation, now)); }},
      {"known return", [](const Conversation& conversation, const ReturnHazard&, double now) {
         return 1 / std::max(conversation.returns_at - now, 1e-9);  // of those that never do: 0
       }}};
}

// The time that is lost, in units of a first page.
class Play {
 public:
  Play(const WorkloadSettings& workload, std::uint64_t seed, std::uint32_t capacity, double equal_tokens,
       const Policy& policy)
      : source_(make_source(workload, seed)),
        capacity_(capacity),
        equal_tokens_(equal_tokens),
        policy_(policy) {}

  double run() {
    begin_next();
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      event.is_end ? end_turn(event.conversation, event.time) : begin_turn(event.conversation, event.time);
    }
    return lost_;
  }

 private:
  struct Event {
    double time = 0;
    std::size_t conversation = 0;
    bool is_end = false;
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : conversation > other.conversation;
    }
  };

  double cost_of(std::uint32_t page) const { return 1 + page * kPageTokens / equal_tokens_; }

  void begin_next() {
    Conversation next;
    if (!source_->next(next.plan)) return;
    events_.push(
        {.time = std::chrono::duration<double>(next.plan.start).count(), .conversation = all_.size()});
    all_.push_back(std::move(next));
  }

  void begin_turn(std::size_t index, double now) {
    if (all_[index].turn == 0) begin_next();
    Conversation& conversation = all_[index];
    if (conversation.turn > 0) hazard_.add(conversation.turn, now - conversation.idle_since, true);
    if (conversation.is_idle) std::erase(idle_, index);
    conversation.is_idle = false;
    for (std::uint32_t page = 0; page < conversation.num_lost; ++page)
      lost_ += now >= kWarmup ? cost_of(page) : 0;
    const PlannedTurn& turn = conversation.plan.turns[conversation.turn];
    conversation.num_tokens += turn.prompt_tokens + turn.output_tokens;
    const auto num_pages = static_cast<std::uint32_t>(conversation.num_tokens / kPageTokens);
    make_room(num_pages - conversation.num_pages + conversation.num_lost, now);
    num_used_ += num_pages - conversation.num_pages + conversation.num_lost;
    conversation.num_pages = num_pages;
    conversation.num_lost = 0;
    events_.push(
        {.time = now + turn.output_tokens * kSecondsPerToken, .conversation = index, .is_end = true});
  }

  void end_turn(std::size_t index, double now) {
    Conversation& conversation = all_[index];
    conversation.turn += 1;
    conversation.is_idle = true;
    conversation.returns_at = kNever;
    conversation.idle_since = now;
    idle_.push_back(index);
    if (conversation.turn == conversation.plan.turns.size()) return;
    const double think =
        std::chrono::duration<double>(conversation.plan.turns[conversation.turn].think_time).count();
    conversation.returns_at = now + think;
    events_.push({.time = now + think, .conversation = index});
  }

  // Conversations that run keep their pages, if need be beyond the capacity.
  void make_room(std::uint32_t num_wanted, double now) {
    if (num_used_ + num_wanted <= capacity_) return;
    std::erase_if(idle_, [&](std::size_t index) { return is_done_with(index, now); });
    const ReturnHazard hazard = hazard_with_those_away(now);
    using Victim = std::pair<double, std::size_t>;
    std::vector<double> weights(all_.size());
    std::priority_queue<Victim, std::vector<Victim>, std::greater<>> victims;
    const auto value = [&](std::size_t index) {
      return weights[index] * (policy_.counts_cost ? cost_of(all_[index].num_lost) : 1);
    };
    for (const std::size_t index : idle_) {
      if (!all_[index].has_pages()) continue;
      weights[index] = policy_.weight(all_[index], hazard, now);
      victims.emplace(value(index), index);
    }
    while (num_used_ + num_wanted > capacity_ && !victims.empty()) {
      const std::size_t index = victims.top().second;
      victims.pop();
      if (!all_[index].has_pages()) continue;
      all_[index].num_lost += 1;
      num_used_ -= 1;
      if (all_[index].has_pages()) victims.emplace(value(index), index);
    }
  }

  // It has been away for so long that it counts as over.
  bool is_done_with(std::size_t index, double now) {
    const Conversation& conversation = all_[index];
    if (conversation.has_pages() || now - conversation.idle_since < kSeconds / 2) return false;
    hazard_.add(conversation.turn, now - conversation.idle_since, false);
    return true;
  }

  // Nobody says that a conversation is over: idle time without a return says so.
  ReturnHazard hazard_with_those_away(double now) {
    if (now < next_estimate_) return estimate_;
    next_estimate_ = now + 10;
    estimate_ = hazard_;
    for (const std::size_t index : idle_)
      estimate_.add(all_[index].turn, now - all_[index].idle_since, false);
    return estimate_;
  }

  std::unique_ptr<ConversationSource> source_;
  std::uint32_t capacity_;
  double equal_tokens_;
  const Policy& policy_;
  std::vector<Conversation> all_;
  std::vector<std::size_t> idle_;  // each once, between two turns or after the last
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint32_t num_used_ = 0;
  ReturnHazard hazard_, estimate_;
  double next_estimate_ = 0;
  double lost_ = 0;
};

// Mean and half of its 95 % interval: Student's, for up to 10 seeds; beyond, the normal distribution's.
std::pair<double, double> mean_of(const std::vector<double>& values) {
  constexpr double kStudent[] = {12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26};
  double mean = 0, squares = 0;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) mean += value / count;
  for (const double value : values) squares += (value - mean) * (value - mean);
  if (values.size() < 2) return {mean, kNever};
  const double t = values.size() <= 10 ? kStudent[values.size() - 2] : 1.96;
  return {mean, t * std::sqrt(squares / (count - 1) / count)};
}

void compare(const std::string& name, const WorkloadSettings& workload, std::uint32_t capacity, int num_seeds,
             double equal_tokens) {
  const auto all = policies();
  std::vector<std::vector<double>> ratios(all.size());  // to lru
  std::vector<double> differences;                      // hazard ahead less 1 / T^1.5
  for (int seed = 1; seed <= num_seeds; ++seed) {
    std::vector<double> lost;
    for (const Policy& policy : all)
      lost.push_back(Play(workload, static_cast<std::uint64_t>(seed), capacity, equal_tokens, policy).run());
    for (std::size_t i = 0; i < all.size(); ++i) ratios[i].push_back(lost[i] / std::max(lost[0], 1.0));
    differences.push_back(ratios[5].back() - ratios[2].back());
  }
  std::printf("| %s | %u |", name.c_str(), capacity);
  for (std::size_t i = 1; i < all.size(); ++i) std::printf(" %.3f |", mean_of(ratios[i]).first);
  const auto [difference, half] = mean_of(differences);
  std::printf(" %+.3f ± %.3f |\n", difference, half);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int num_seeds = argc > 1 ? std::atoi(argv[1]) : 5;
  const double equal_tokens = argc > 2 ? std::atof(argv[2]) : 700;
  if (num_seeds < 2 || equal_tokens <= 0) {
    std::fprintf(stderr, "usage: bench_return_hazard [seeds, at least 2] [tokens, above 0]\n");
    return 2;
  }
  std::printf(
      "time lost over that by lru, means of %d seeds; attention costs as much as the rest at %.0f tokens\n\n",
      num_seeds, equal_tokens);
  std::printf("| think time | pages |");
  for (const Policy& policy : policies())
    if (policy.name != "lru") std::printf(" %s |", policy.name.c_str());
  std::printf(" hazard ahead less 1 / T^1.5 |\n|---|---|---|---|---|---|---|---|---|\n");
  const std::pair<const char*, DistributionSettings> think_times[] = {
      {"exponential, 60 s", bench::exponential(60)},
      {"log-normal, median 20 s", bench::log_normal()},
      {"Pareto, 60 s", bench::pareto()}};
  for (const auto& [name, think_time] : think_times)
    for (const std::uint32_t capacity : {2000U, 4000U, 8000U, 14000U})
      compare(name, bench::chats(think_time, kSeconds), capacity, num_seeds, equal_tokens);
  return 0;
}
