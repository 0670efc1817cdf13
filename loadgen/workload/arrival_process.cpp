// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/arrival_process.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "loadgen/workload/distribution.hpp"
#include "loadgen/workload/rate_profile.hpp"
#include "loadgen/workload/toml/setting_check.hpp"

namespace troupe::loadgen {
namespace {

using std::chrono::nanoseconds;
using Kind = ArrivalSettings::Kind;

// Rates can be so low that arrivals never come.
std::optional<nanoseconds> at_seconds(double seconds) {
  if (!(seconds < kEndOfTimeS)) return std::nullopt;
  return seconds_to_nanoseconds(seconds);
}

class AllAtOnce final : public ArrivalProcess {
 public:
  std::optional<nanoseconds> next() override { return nanoseconds(0); }
};

class ConstantGaps final : public ArrivalProcess {
 public:
  explicit ConstantGaps(double rate) : rate_(rate) {}
  // Not a sum of gaps: that would drift.
  std::optional<nanoseconds> next() override { return at_seconds(static_cast<double>(count_++) / rate_); }

 private:
  double rate_;
  std::uint64_t count_ = 0;
};

// Poisson is the shape 1.
class GammaGaps final : public ArrivalProcess {
 public:
  GammaGaps(double rate, double shape, RandomSource random) : rate_(rate), shape_(shape), random_(random) {}
  std::optional<nanoseconds> next() override {
    now_s_ += (shape_ == 1 ? random_.exponential() : random_.gamma(shape_) / shape_) / rate_;
    return at_seconds(now_s_);
  }

 private:
  double rate_;
  double shape_;
  RandomSource random_;
  double now_s_ = 0;
};

// Stays in a state for an exponential time, then goes to one of the others,
// each equally likely. Begins in the long-run distribution, so that the mean
// rate holds from the first second.
class MarkovModulated final : public ArrivalProcess {
 public:
  MarkovModulated(std::vector<MarkovState> states, RandomSource random)
      : states_(std::move(states)), random_(random) {
    double total_s = 0;
    for (const auto& state : states_) total_s += state.mean_dwell_s;
    double left = random_.uniform() * total_s;
    while (state_ + 1 < states_.size() && left >= states_[state_].mean_dwell_s)
      left -= states_[state_++].mean_dwell_s;
    leave_s_ = dwell();
  }

  std::optional<nanoseconds> next() override {
    while (now_s_ < kEndOfTimeS) {
      const double rate = states_[state_].rate;
      const double gap_s = rate > 0 ? random_.exponential() / rate : kEndOfTimeS;
      if (now_s_ + gap_s < leave_s_) return at_seconds(now_s_ += gap_s);
      // The gap is drawn anew at the new rate: exponential gaps have no memory.
      now_s_ = leave_s_;
      state_ = (state_ + 1 + random_.below(states_.size() - 1)) % states_.size();
      leave_s_ += dwell();
    }
    return std::nullopt;
  }

 private:
  double dwell() { return random_.exponential() * states_[state_].mean_dwell_s; }

  std::vector<MarkovState> states_;
  RandomSource random_;
  std::size_t state_ = 0;
  double now_s_ = 0;
  double leave_s_ = 0;
};

// A process of rate 1 whose clock runs as fast as the profile's rate: the
// n-th arrival is where the integrated rate reaches the n-th time.
class ProfiledRate final : public ArrivalProcess {
 public:
  ProfiledRate(const ArrivalSettings& settings, RandomSource random)
      : profile_(settings.segments), has_constant_gaps_(settings.has_constant_gaps), random_(random) {}
  std::optional<nanoseconds> next() override {
    if (!has_constant_gaps_) expected_count_ += random_.exponential();
    const auto time_s = profile_.time_of(expected_count_);
    if (has_constant_gaps_) expected_count_ += 1;
    return time_s ? at_seconds(*time_s) : std::nullopt;
  }

 private:
  RateProfile profile_;
  bool has_constant_gaps_;
  RandomSource random_;
  double expected_count_ = 0;
};

class Replay final : public ArrivalProcess {
 public:
  Replay(std::vector<double> times_s, double speed) : times_s_(std::move(times_s)), speed_(speed) {}
  std::optional<nanoseconds> next() override {
    if (count_ == times_s_.size()) return std::nullopt;
    return at_seconds(times_s_[count_++] / speed_);
  }

 private:
  std::vector<double> times_s_;
  double speed_;
  std::size_t count_ = 0;
};

void check_states(const std::vector<MarkovState>& states) {
  if (states.size() < 2)
    refuse_setting("arrivals.states", "at least two states", std::to_string(states.size()));
  double total_rate = 0;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto key = "arrivals.states[" + std::to_string(i) + "]";
    expect_at_least(key + ".rate", 0, states[i].rate);
    expect_above_zero(key + ".mean_dwell_s", states[i].mean_dwell_s);
    total_rate += states[i].rate;
  }
  if (total_rate == 0) refuse_setting("arrivals.states", "a state with a rate above 0", "none");
}

void check_segments(const std::vector<RateSegment>& segments) {
  if (segments.empty()) refuse_setting("arrivals.segments", "at least one segment", "none");
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto key = "arrivals.segments[" + std::to_string(i) + "]";
    expect_above_zero(key + ".duration_s", segments[i].duration_s);
    expect_at_least(key + ".begin_rate", 0, segments[i].begin_rate);
    expect_at_least(key + ".end_rate", 0, segments[i].end_rate);
  }
  if (!(RateProfile(segments).expected_count() > 0))
    refuse_setting("arrivals.segments", "a segment with a rate above 0", "none");
}

void check_replay(const ArrivalSettings& settings) {
  expect_above_zero("arrivals.speed", settings.speed);
  const auto& times = settings.times_s;
  if (!times.empty()) expect_at_least("arrivals.times_s[0]", 0, times.front());
  for (std::size_t i = 1; i < times.size(); ++i)
    expect_at_least("arrivals.times_s[" + std::to_string(i) + "]", times[i - 1], times[i]);
}

}  // namespace

std::unique_ptr<ArrivalProcess> make_arrival_process(const ArrivalSettings& settings, RandomSource random) {
  switch (settings.kind) {
    case Kind::kConstant: return std::make_unique<ConstantGaps>(settings.rate);
    case Kind::kPoisson: return std::make_unique<GammaGaps>(settings.rate, 1, random);
    case Kind::kGamma: return std::make_unique<GammaGaps>(settings.rate, settings.burstiness, random);
    case Kind::kMarkov: return std::make_unique<MarkovModulated>(settings.states, random);
    case Kind::kProfile: return std::make_unique<ProfiledRate>(settings, random);
    case Kind::kReplay: return std::make_unique<Replay>(settings.times_s, settings.speed);
    case Kind::kAtOnce:
    case Kind::kClosed: break;
  }
  return std::make_unique<AllAtOnce>();
}

void check(const ArrivalSettings& settings) {
  switch (settings.kind) {
    case Kind::kAtOnce: return;
    case Kind::kGamma: expect_above_zero("arrivals.burstiness", settings.burstiness); [[fallthrough]];
    case Kind::kConstant:
    case Kind::kPoisson: return expect_above_zero("arrivals.rate", settings.rate);
    case Kind::kMarkov: return check_states(settings.states);
    case Kind::kProfile: return check_segments(settings.segments);
    case Kind::kReplay: return check_replay(settings);
    case Kind::kClosed:
      expect_at_least("arrivals.users", 1, settings.users);
      return check(settings.pause_s, "arrivals.pause_s");
  }
}

}  // namespace troupe::loadgen
