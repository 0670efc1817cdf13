// SPDX-License-Identifier: Apache-2.0
#include "bench/cache/cache_replay.hpp"

#include <deque>
#include <map>
#include <optional>
#include <queue>
#include <span>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "loadgen/simulator/synthetic_tokens.hpp"
#include "policy/pages/page_key.hpp"

namespace troupe::bench {
namespace {

using namespace loadgen;
using Time = std::chrono::nanoseconds;

struct Conversation {
  PlannedConversation plan;
  std::uint32_t turn = 0;
  std::vector<std::int32_t> tokens;  // all that was said, and the present turn
};

class Replay {
 public:
  Replay(ConversationSource& source, const ReplaySettings& settings)
      : source_(source), settings_(settings), cache_(settings.cache) {
    cache_.add_worker(0, settings.num_device_pages);
  }

  ReplayTotals run() {
    take_next_conversation();
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      if (event.is_end) {
        finish(event.conversation);
      } else {
        if (conversations_.at(event.conversation).turn == 0) take_next_conversation();
        waiting_.push_back(event.conversation);
      }
      while (!waiting_.empty() && admit(waiting_.front())) waiting_.pop_front();
    }
    return totals_;
  }

 private:
  struct Event {
    Time time{};
    bool is_end = false;  // of a turn, else its begin
    std::uint64_t conversation = 0;
    bool operator<(const Event& other) const {
      return std::tie(time, conversation) > std::tie(other.time, other.conversation);
    }
  };

  PageCache::TimePoint point() const { return PageCache::TimePoint(now_); }
  std::uint32_t page_size() const { return settings_.cache.page_size; }

  void take_next_conversation() {
    Conversation next;
    if (!source_.next(next.plan)) return;
    const std::uint64_t id = num_conversations_++;
    for (const PrefixBlock& block : next.plan.prefix) append_prefix(next.tokens, block);
    append_prompt(next.tokens, id, 0, next.plan.turns.front().prompt_tokens);
    events_.push({.time = next.plan.start, .is_end = false, .conversation = id});
    conversations_.emplace(id, std::move(next));
  }

  // False: too few pages, for now.
  bool admit(std::uint64_t id) {
    Conversation& conversation = conversations_.at(id);
    const PlannedTurn& turn = conversation.plan.turns[conversation.turn];
    const auto num_tokens = static_cast<std::uint32_t>(conversation.tokens.size());
    const std::uint32_t num_pages = (num_tokens + turn.output_tokens) / page_size() + 1;
    if (num_pages > settings_.num_device_pages) {
      totals_.num_refused += 1;
      conversations_.erase(id);
      return true;
    }
    const auto grant = cache_.leases().reserve(0, id, TenantId{0}, conversation.tokens,
                                               {.required = num_pages, .wanted = num_pages}, point());
    if (!grant) return false;
    settle();
    count(conversation, *grant);
    const std::uint32_t num_computed = num_tokens - grant->tokens_from_device - grant->tokens_from_host;
    append_answer(conversation.tokens, id, conversation.turn, turn.output_tokens);
    events_.push({.time = now_ + num_computed * settings_.per_computed_token +
                          turn.output_tokens * settings_.per_output_token,
                  .is_end = true,
                  .conversation = id});
    return true;
  }

  void count(const Conversation& conversation, const PageGrant& grant) {
    // Of a prompt, the last token at least is computed.
    const std::size_t most = (conversation.tokens.size() - 1) / page_size();
    std::uint32_t seen_pages = 0;
    std::uint64_t key = 0;
    for (; seen_pages < most; ++seen_pages) {
      key = key_below(key, page_of(conversation, seen_pages));
      if (!seen_.contains(key)) break;
    }
    if (now_ < settings_.warmup) return;
    totals_.num_requests += 1;
    totals_.prompt_tokens += conversation.tokens.size();
    totals_.tokens_from_device += grant.tokens_from_device;
    totals_.tokens_from_host += grant.tokens_from_host;
    totals_.seen_tokens += std::uint64_t{seen_pages} * page_size();
    for (std::uint32_t page = 0; page < seen_pages; ++page) {
      const std::uint32_t begin = page * page_size();
      bool is_computed = begin >= grant.known_tokens;
      for (const TokenRange& hole : grant.holes) is_computed |= hole.begin <= begin && begin < hole.end;
      if (!is_computed) continue;
      totals_.recomputed_tokens += page_size();
      totals_.recompute_cost += settings_.cache.cost.of_page(page);
    }
  }

  void finish(std::uint64_t id) {
    Conversation& conversation = conversations_.at(id);
    const auto num_pages = static_cast<std::uint32_t>(conversation.tokens.size() / page_size());
    std::uint64_t key = 0;
    for (std::uint32_t page = 0; page < num_pages; ++page) {
      seen_.insert(key = key_below(key, page_of(conversation, page)));
      cache_.leases().commit(id, page, page_of(conversation, page), point());
    }
    const auto tail = std::span(conversation.tokens).subspan(std::size_t{num_pages} * page_size());
    if (!tail.empty()) cache_.leases().commit(id, num_pages, tail, point());
    cache_.leases().release(id, point());
    cache_.host().copy_ahead(0, settings_.num_device_pages, point());
    settle();
    if (++conversation.turn == conversation.plan.turns.size()) {
      conversations_.erase(id);
      return;
    }
    const PlannedTurn& next = conversation.plan.turns[conversation.turn];
    append_prompt(conversation.tokens, id, conversation.turn, next.prompt_tokens);
    events_.push({.time = now_ + next.think_time, .is_end = false, .conversation = id});
  }

  // Copies take no time.
  void settle() { cache_.host().copies_done(0, cache_.host().take_copies(0)); }

  std::span<const std::int32_t> page_of(const Conversation& conversation, std::uint32_t page) const {
    return std::span(conversation.tokens).subspan(std::size_t{page} * page_size(), page_size());
  }
  static std::uint64_t key_below(std::uint64_t above, std::span<const std::int32_t> tokens) {
    return page_key({.k0 = 3, .k1 = 4}, {.low = above, .high = 0}, tokens).low;
  }

  ConversationSource& source_;
  const ReplaySettings& settings_;
  PageCache cache_;
  Time now_{0};
  std::priority_queue<Event> events_;
  std::deque<std::uint64_t> waiting_;
  std::map<std::uint64_t, Conversation> conversations_;
  std::uint64_t num_conversations_ = 0;
  std::unordered_set<std::uint64_t> seen_;  // pages, by what is in and in front of them
  ReplayTotals totals_;
};

}  // namespace

ReplayTotals replay(ConversationSource& source, const ReplaySettings& settings) {
  return Replay(source, settings).run();
}

}  // namespace troupe::bench
