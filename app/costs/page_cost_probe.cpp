// SPDX-License-Identifier: Apache-2.0
#include "app/costs/page_cost_probe.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "app/costs/probed_device.hpp"
#include "policy/costs/page_timing.hpp"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostRounds = 6;
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kSteadyWithin = 1.25;
constexpr double kLongTime = 1e8;       // ns: what disturbs is averaged, once is enough
constexpr double kFarTooLong = 1e9;     // ns: once, though caches and the weights' pages were cold
constexpr double kTooLongForAll = 1e8;  // ns: then only both ends of the context
constexpr std::uint32_t kMostChunkPages = 8;
// How often the time limit may pass before measurements are steady: with a model
// that computes so many pages within it, and with a larger one.
constexpr int kManyPages = 20, kBusyFactor = 2, kLargeFactor = 20;
constexpr std::uint64_t kMostHostBytes = 16 << 20;  // they stay allocated
constexpr std::uint32_t kMovesEach = 64;            // of a batch that only fills pages
// Serving begins with the same host pages: what is left in them must not be
// what a generation of its own names.
constexpr std::uint64_t kFirstGeneration = 1ULL << 63;

class PageCostProbe {
 public:
  PageCostProbe(const LoadedModel& model, std::chrono::nanoseconds time_limit)
      : device_(model), begin_(Clock::now()), time_limit_(time_limit) {
    const DeviceDescription& about = device_.description();
    page_size_ = about.page_size;
    const std::uint32_t capacity = std::min(about.context_length / page_size_, about.num_pages);
    if (capacity == 0 || page_size_ > about.max_batch_tokens)
      throw std::runtime_error("expected room for a page of " + std::to_string(page_size_) +
                               " tokens in a context, in a batch and on the device");
    deepest_ = capacity - 1;
    chunk_pages_ = std::min({about.max_batch_tokens / page_size_, capacity, kMostChunkPages});
    if (model.host_pages && about.num_host_pages > 0)
      num_host_pages_ = static_cast<std::uint32_t>(
          std::clamp<std::uint64_t>(kMostHostBytes / model.host_pages->page_bytes(), 1,
                                    std::min(about.num_host_pages, std::max(deepest_, 1U))));
  }

  MeasuredPageCosts measure() {
    const double cold = compute(0, 1);
    if (cold > kFarTooLong) times_[0].add(cold);
    MeasuredPageCosts measured;
    if (num_host_pages_ > 0 && deepest_ > 0) measure_loads();
    measure_pages();
    measured.costs.host = load_cost();
    measured.costs.recompute = recompute_cost_of(lowest_times(), deepest_);
    measured.is_steady = is_steady();
    return measured;
  }

 private:
  // What a busy machine adds is never below zero, so the lowest time counts; a
  // second one as low says that it was not luck.
  struct LowestTimes {
    double lowest = kNever, second = kNever;
    void add(double time) {
      if (time < lowest) std::swap(time, lowest);
      second = std::min(second, time);
    }
    bool is_steady() const { return second <= kSteadyWithin * lowest || lowest > kLongTime; }
  };

  // The time of computing so many pages behind `depth` others.
  double compute(std::uint32_t depth, std::uint32_t num_pages) {
    Batch batch;
    device_.add_slice(batch, 0, {.num_tokens = num_pages * page_size_, .context_length = depth * page_size_},
                      0);
    const auto begin = Clock::now();
    const auto time = static_cast<double>(device_.run(std::move(batch)).network_nanoseconds);
    trip_ = std::min(trip_, std::chrono::duration<double, std::nano>(Clock::now() - begin).count() - time);
    return time;
  }

  // Both ends first, and then as many of the others, and as often, as there is
  // time for.
  void measure_pages() {
    times_[deepest_].add(compute(deepest_, 1));
    if (times_[0].lowest == kNever) times_[0].add(compute(0, 1));
    if (times_[0].lowest < kTooLongForAll)
      for (std::uint32_t depth = 1; depth < deepest_; depth *= 2) times_.try_emplace(depth);
    for (int round = 0; !is_over(round); ++round) {
      for (auto& [depth, times] : times_) times.add(compute(depth, 1));
      if (chunk_pages_ >= 2 && times_[0].lowest < kTooLongForAll) chunk_.add(compute(0, chunk_pages_));
    }
  }

  bool is_over(int round) const {
    const auto time = Clock::now() - begin_;
    const bool is_small = times_.at(0).lowest * kManyPages < static_cast<double>(time_limit_.count());
    const auto longest = time_limit_ * (is_small ? kBusyFactor : kLargeFactor);
    return time > longest || (is_steady() && (time > time_limit_ || round >= kMostRounds));
  }

  bool is_steady() const {
    return std::all_of(times_.begin(), times_.end(), [](const auto& e) { return e.second.is_steady(); }) &&
           is_in_proportion(lowest_times());
  }

  // Fills the device's pages by the way.
  void measure_loads() {
    for (std::uint32_t page = 0; page < num_host_pages_; ++page) move(true, 0, page, 1);
    std::uint32_t filled = 1;
    for (; filled <= deepest_; filled += kMovesEach)
      move(false, filled, filled % num_host_pages_, std::min(kMovesEach, deepest_ + 1 - filled));
    many_ = std::min({num_host_pages_, deepest_, kMovesEach});
    for (int round = 0; round < kMostRounds; ++round) {
      load_one_.add(move(false, 1, 0, 1));
      load_many_.add(move(false, 1, 0, many_));
    }
  }

  // Without the trip: moves travel in batches that are run anyway.
  LoadCost load_cost() const {
    if (many_ == 0) return {};
    LoadCost cost = load_cost_of(load_one_.lowest, load_many_.lowest, many_);
    cost.fixed = std::max(cost.fixed - trip_, 0.0);
    return cost;
  }

  // Pages that follow one another, of the host in a circle. The time until the
  // batch is known to be done: nothing is computed in it.
  double move(bool to_host, PageId first_page, std::uint32_t first_host_page, std::uint32_t count) {
    Batch batch;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t host_page = (first_host_page + i) % num_host_pages_;
      batch.copies.push_back({.direction = to_host ? PageCopy::kStore : PageCopy::kLoad,
                              .device_page = first_page + i,
                              .host_page = host_page,
                              .generation = kFirstGeneration + host_page});
    }
    const auto begin = Clock::now();
    const BatchResult result = device_.run(std::move(batch));
    const std::chrono::duration<double, std::nano> time = Clock::now() - begin;
    if (!result.failed_loads.empty()) throw std::runtime_error("a page came back from the host damaged");
    return time.count();
  }

  PageTimes lowest_times() const {
    PageTimes lowest;
    for (const auto& [depth, times] : times_) {
      if (times.lowest == kNever) continue;
      (depth == 0 ? lowest.first : lowest.by_depth[depth]) = times.lowest;
    }
    if (chunk_.lowest == kNever) return lowest;
    lowest.chunk = chunk_.lowest;
    lowest.chunk_pages = chunk_pages_;
    return lowest;
  }

  ProbedDevice device_;
  Clock::time_point begin_;
  std::chrono::nanoseconds time_limit_;
  std::uint32_t page_size_ = 0;
  std::uint32_t deepest_ = 0;                   // pages in front of a context's last one
  std::uint32_t chunk_pages_ = 0;               // of a longer batch
  std::uint32_t num_host_pages_ = 0;            // used here
  std::map<std::uint32_t, LowestTimes> times_;  // of a page, by pages in front of it
  LowestTimes chunk_, load_one_, load_many_;
  std::uint32_t many_ = 0;
  double trip_ = kNever;  // from here to the device and back, however little it has to do
};

}  // namespace

MeasuredPageCosts measure_page_costs(const LoadedModel& model, std::chrono::nanoseconds time_limit) {
  return PageCostProbe(model, time_limit).measure();
}

}  // namespace troupe
