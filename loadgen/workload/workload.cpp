// SPDX-License-Identifier: Apache-2.0
// make_source(): arrivals and contents joined into conversations.
#include <algorithm>
#include <cmath>
#include <utility>

#include "loadgen/workload/arrival_process.hpp"
#include "loadgen/workload/contents/conversation_content.hpp"
#include "loadgen/workload/distribution.hpp"
#include "loadgen/workload/workload_settings.hpp"

namespace troupe::loadgen {
namespace {

using Kind = ArrivalSettings::Kind;
using std::chrono::nanoseconds;

class Workload final : public ConversationSource {
 public:
  Workload(const WorkloadSettings& settings, std::uint64_t seed)
      : max_conversations_(settings.max_conversations),
        end_(settings.duration_s > 0 ? seconds_to_nanoseconds(settings.duration_s) : nanoseconds::max()),
        seed_(seed),
        is_closed_(settings.arrivals.kind == Kind::kClosed),
        speed_(settings.arrivals.speed),
        pause_s_(settings.arrivals.pause_s) {
    double total = 0;
    for (const auto& c : settings.classes) {
      cancelled_.push_back({c.cancelled.share, Distribution(c.cancelled.after_s)});
      stalled_.push_back({c.stalled.share, Distribution(c.stalled.after_s)});
      contents_.push_back(make_content(settings, static_cast<std::uint32_t>(contents_.size()), seed));
      class_shares_.push_back(total += c.share);
    }
    if (!is_closed_ && !uses_trace_times(settings))
      arrivals_ = make_arrival_process(settings.arrivals, RandomSource(seed, RandomStream::kArrivals));
  }

  bool next(PlannedConversation& conversation) override {
    if (max_conversations_ > 0 && number_ == max_conversations_) return false;
    conversation.number = number_;
    const std::uint32_t drawn = conversation.request_class = draw_class();
    if (!contents_[drawn]->fill(number_, conversation)) return false;
    draw_impatience(drawn, conversation);
    if (is_closed_) {
      conversation.start = nanoseconds(0);  // a trace may have set its own
      RandomSource random(seed_, RandomStream::kPause, number_);
      conversation.turns.front().think_time = seconds_to_nanoseconds(pause_s_.sample(random));
    } else if (!set_start(conversation)) {
      return false;
    }
    ++number_;
    return true;
  }

  std::vector<std::string> warnings() const override {
    std::vector<std::string> all;
    for (const auto& content : contents_)
      for (auto& warning : content->warnings()) all.push_back(std::move(warning));
    return all;
  }

 private:
  std::uint32_t draw_class() const {
    if (class_shares_.size() == 1) return 0;
    const double share = RandomSource(seed_, RandomStream::kClass, number_).uniform() * class_shares_.back();
    const auto found = std::upper_bound(class_shares_.begin(), class_shares_.end(), share);
    return static_cast<std::uint32_t>(std::min(found, class_shares_.end() - 1) - class_shares_.begin());
  }

  struct Impatience {
    double share = 0;
    Distribution after_s;

    std::optional<nanoseconds> draw(RandomSource& random) const {
      if (random.uniform() >= share) return std::nullopt;
      return seconds_to_nanoseconds(after_s.sample(random));
    }
  };

  // A saved plan has its own, and classes of its own.
  void draw_impatience(std::uint32_t drawn_class, PlannedConversation& conversation) const {
    const Impatience& cancelled = cancelled_[drawn_class];
    const Impatience& stalled = stalled_[drawn_class];
    if (cancelled.share == 0 && stalled.share == 0) return;
    RandomSource cancels(seed_, RandomStream::kCancelled, number_);
    RandomSource stalls(seed_, RandomStream::kStalled, number_);
    for (PlannedTurn& turn : conversation.turns) {
      turn.cancelled_after = cancelled.draw(cancels);
      turn.stops_reading_after = stalled.draw(stalls);
    }
  }

  // Without arrivals of our own, the content has set its trace's time.
  bool set_start(PlannedConversation& conversation) {
    if (arrivals_ != nullptr) {
      const auto time = arrivals_->next();
      if (!time) return false;
      conversation.start = *time;
    } else {
      conversation.start =
          nanoseconds(std::llround(static_cast<double>(conversation.start.count()) / speed_));
    }
    return conversation.start < end_;
  }

  std::uint64_t max_conversations_;
  nanoseconds end_;
  std::uint64_t seed_;
  bool is_closed_;
  double speed_;
  Distribution pause_s_;
  std::vector<Impatience> cancelled_, stalled_;                 // of each class
  std::vector<double> class_shares_;                            // cumulated
  std::vector<std::unique_ptr<ConversationContent>> contents_;  // of each class
  std::unique_ptr<ArrivalProcess> arrivals_;                    // null: closed, or the trace's times
  std::uint64_t number_ = 0;
};

}  // namespace

std::unique_ptr<ConversationSource> make_source(const WorkloadSettings& settings, std::uint64_t seed) {
  check(settings);
  return std::make_unique<Workload>(settings, seed);
}

}  // namespace troupe::loadgen
