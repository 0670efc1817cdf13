// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/arrival_process.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "tests/loadgen/workload/kolmogorov_smirnov.hpp"
#include "tests/loadgen/workload/planned_input.hpp"

using namespace troupe::loadgen;
using namespace troupe::loadgen::test;

namespace {

using Kind = ArrivalSettings::Kind;

std::vector<double> times_of(const ArrivalSettings& settings, std::size_t max_count,
                             std::uint64_t seed = 11) {
  check(settings);
  const auto process = make_arrival_process(settings, RandomSource(seed, RandomStream::kArrivals));
  std::vector<double> times_s;
  while (times_s.size() < max_count) {
    const auto time = process->next();
    if (!time) break;
    times_s.push_back(std::chrono::duration<double>(*time).count());
  }
  return times_s;
}

std::vector<double> gaps_of(const ArrivalSettings& settings, std::size_t count) {
  auto gaps = times_of(settings, count + 1);
  std::adjacent_difference(gaps.begin(), gaps.end(), gaps.begin());
  gaps.erase(gaps.begin());
  return gaps;
}

ArrivalSettings with_rate(Kind kind, double rate, double burstiness = 1) {
  ArrivalSettings settings;
  settings.kind = kind;
  settings.rate = rate;
  settings.burstiness = burstiness;
  return settings;
}

ArrivalSettings profile(std::vector<RateSegment> segments, bool has_constant_gaps = false) {
  ArrivalSettings settings;
  settings.kind = Kind::kProfile;
  settings.segments = std::move(segments);
  settings.has_constant_gaps = has_constant_gaps;
  return settings;
}

const std::vector<RateSegment> kRamp = {{.duration_s = 100, .begin_rate = 0, .end_rate = 200}};
const std::vector<RateSegment> kSpike = {{60, 20, 20}, {10, 400, 400}, {60, 20, 20}};

// What a profile's rate has summed up to by `time`, by the trapezoid rule.
double integrated(const std::vector<RateSegment>& segments, double time_s) {
  double count = 0;
  for (const auto& segment : segments) {
    const double part = std::clamp(time_s / segment.duration_s, 0.0, 1.0);
    const double rate_there = segment.begin_rate + part * (segment.end_rate - segment.begin_rate);
    count += part * segment.duration_s * (segment.begin_rate + rate_there) / 2;
    time_s -= segment.duration_s;
  }
  return count;
}

// Given how many there are, the times of a Poisson process with a changing rate
// are independent draws whose distribution function is the integrated rate.
bool follows(const std::vector<double>& times_s, const std::vector<RateSegment>& segments) {
  const double total = integrated(segments, 1e9);
  return passes_ks(times_s, [&](double t) { return integrated(segments, t) / total; });
}

double exponential_cdf(double x) { return 1 - std::exp(-x); }

// Variance over mean of the counts in windows.
double dispersion(const std::vector<double>& times_s, double window_s) {
  std::vector<double> counts(static_cast<std::size_t>(times_s.back() / window_s));
  for (const double time : times_s) {
    const auto window = static_cast<std::size_t>(time / window_s);
    if (window < counts.size()) ++counts[window];
  }
  const auto n = static_cast<double>(counts.size());
  const double mean = std::accumulate(counts.begin(), counts.end(), 0.0) / n;
  double square = 0;
  for (const double count : counts) square += std::pow(count - mean, 2);
  return square / (n - 1) / mean;
}

}  // namespace

TEST_CASE("arrivals: constant gaps are equal and don't drift in a million") {
  const auto times = times_of(with_rate(Kind::kConstant, 3), 1'000'001);
  CHECK(times[0] == 0);
  CHECK(times[1] == doctest::Approx(1.0 / 3).epsilon(1e-8));
  CHECK(times[999'999] == doctest::Approx(333'333).epsilon(1e-14));
}

TEST_CASE("arrivals: a Poisson process passes Kolmogorov-Smirnov") {
  const auto gaps = gaps_of(with_rate(Kind::kPoisson, 4), 20000);
  CHECK(passes_ks(gaps, [](double x) { return exponential_cdf(4 * x); }));
}

TEST_CASE("arrivals: Kolmogorov-Smirnov refuses another rate and other gaps than Poisson's") {
  const auto gaps = gaps_of(with_rate(Kind::kPoisson, 4), 20000);
  CHECK_FALSE(passes_ks(gaps, [](double x) { return exponential_cdf(4.2 * x); }));
  for (const auto& wrong : {with_rate(Kind::kConstant, 4), with_rate(Kind::kGamma, 4, 0.9)})
    CHECK_FALSE(passes_ks(gaps_of(wrong, 20000), [](double x) { return exponential_cdf(4 * x); }));
}

TEST_CASE("arrivals: gamma gaps have the burstiness as shape and keep the rate") {
  // vllm bench: shape = burstiness, scale = 1 / (rate * burstiness).
  const auto bursty = gaps_of(with_rate(Kind::kGamma, 5, 0.5), 20000);
  const auto even = gaps_of(with_rate(Kind::kGamma, 5, 2), 20000);
  const auto half_cdf = [](double x) { return std::erf(std::sqrt(5 * 0.5 * x)); };
  const auto two_cdf = [](double x) { return 1 - std::exp(-5 * 2 * x) * (1 + 5 * 2 * x); };
  CHECK(passes_ks(bursty, half_cdf));
  CHECK(passes_ks(even, two_cdf));
  CHECK_FALSE(passes_ks(bursty, two_cdf));
  CHECK_FALSE(passes_ks(even, half_cdf));
  CHECK(std::accumulate(bursty.begin(), bursty.end(), 0.0) / 20000 == doctest::Approx(0.2).epsilon(0.02));
}

TEST_CASE("arrivals: burstiness 1 is Poisson") {
  CHECK(passes_ks(gaps_of(with_rate(Kind::kGamma, 4, 1), 20000),
                  [](double x) { return exponential_cdf(4 * x); }));
}

TEST_CASE("arrivals: a Markov-modulated process has its states' mean rate and dispersion") {
  ArrivalSettings settings;
  settings.kind = Kind::kMarkov;
  settings.states = {{.rate = 2, .mean_dwell_s = 8}, {.rate = 20, .mean_dwell_s = 2}};
  CHECK(mean_rate(settings) == doctest::Approx(5.6));

  const auto times = times_of(settings, 1'000'000);
  CHECK(static_cast<double>(times.size()) / times.back() == doctest::Approx(5.6).epsilon(0.02));

  // Fischer and Meier-Hellstern (1993), variance of the counts of a 2-state MMPP.
  const double leave = 1.0 / 8 + 1.0 / 2;
  const double a =
      2 * std::pow(20 - 2, 2) * (1.0 / 8) * (1.0 / 2) / (leave * leave * (2 * 1.0 / 2 + 20 * 1.0 / 8));
  for (const double window_s : {1.0, 30.0}) {
    const double expected = 1 + a - a / (leave * window_s) * (1 - std::exp(-leave * window_s));
    CHECK(dispersion(times, window_s) == doctest::Approx(expected).epsilon(0.05));
  }
  CHECK(dispersion(times_of(with_rate(Kind::kPoisson, 5.6), 1'000'000), 30) ==
        doctest::Approx(1).epsilon(0.05));
}

TEST_CASE("arrivals: a Markov-modulated process of three states may fall silent and keeps its mean rate") {
  ArrivalSettings settings;
  settings.kind = Kind::kMarkov;
  settings.states = {{0, 5}, {10, 3}, {40, 1}};
  const auto times = times_of(settings, 400'000);
  CHECK(static_cast<double>(times.size()) / times.back() ==
        doctest::Approx(mean_rate(settings)).epsilon(0.03));
}

TEST_CASE("arrivals: the states of a Markov-modulated process begin as often as they last") {
  ArrivalSettings settings;
  settings.kind = Kind::kMarkov;
  settings.states = {{.rate = 1e6, .mean_dwell_s = 1000}, {.rate = 1, .mean_dwell_s = 3000}};
  int begins_fast = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed)
    begins_fast += times_of(settings, 1, seed)[0] < 1e-4 ? 1 : 0;
  CHECK(begins_fast == doctest::Approx(250).epsilon(0.15));
}

TEST_CASE("arrivals: a ramp's arrivals are distributed like its integrated rate, and as many") {
  const auto times = times_of(profile(kRamp), 1'000'000);
  CHECK(times.size() == doctest::Approx(10000).epsilon(0.04));  // 4 standard deviations
  CHECK(follows(times, kRamp));
  CHECK_FALSE(follows(times, {{100, 100, 100}}));
  CHECK_FALSE(follows(times, {{100, 10, 190}}));
}

TEST_CASE("arrivals: a falling ramp ends in silence") {
  const std::vector<RateSegment> fall = {{100, 200, 0}};
  CHECK(follows(times_of(profile(fall), 1'000'000), fall));
}

TEST_CASE("arrivals: steps and spikes are distributed like their integrated rate") {
  const std::vector<RateSegment> steps = {{50, 20, 20}, {50, 80, 80}, {50, 0, 0}, {50, 160, 160}};
  const auto stepped = times_of(profile(steps), 1'000'000);
  CHECK(stepped.size() == doctest::Approx(13000).epsilon(0.035));
  CHECK(follows(stepped, steps));
  CHECK(std::none_of(stepped.begin(), stepped.end(), [](double t) { return t > 100 && t < 150; }));
  const auto spiked = times_of(profile(kSpike), 1'000'000);
  CHECK(follows(spiked, kSpike));
  CHECK_FALSE(follows(spiked, {{60, 20, 20}, {10, 300, 300}, {60, 20, 20}}));
}

TEST_CASE("arrivals: with constant gaps a profile's counts follow the integrated rate to one") {
  for (const auto& segments : {kRamp, kSpike}) {
    const auto times = times_of(profile(segments, true), 1'000'000);
    CHECK(times.size() == static_cast<std::size_t>(integrated(segments, 1e9)));
    for (std::size_t i = 0; i < times.size(); ++i)
      REQUIRE(integrated(segments, times[i]) == doctest::Approx(static_cast<double>(i)).epsilon(1e-6));
  }
}

TEST_CASE("arrivals: given times are replayed at the given speed, and end") {
  ArrivalSettings settings;
  settings.kind = Kind::kReplay;
  settings.times_s = {0, 1, 1, 5};
  settings.speed = 2;
  CHECK(times_of(settings, 100) == std::vector<double>{0, 0.5, 0.5, 2.5});
}

TEST_CASE("arrivals: all at once means at the begin") {
  CHECK(times_of(with_rate(Kind::kAtOnce, 1), 3) == std::vector<double>{0, 0, 0});
}

TEST_CASE("arrivals: times never decrease, and a seed repeats them") {
  ArrivalSettings markov;
  markov.kind = Kind::kMarkov;
  markov.states = {{1, 1}, {50, 0.1}};
  for (const auto& settings :
       {with_rate(Kind::kPoisson, 9), with_rate(Kind::kGamma, 9, 0.2), markov, profile(kRamp)}) {
    const auto times = times_of(settings, 5000, 1);
    CHECK(std::is_sorted(times.begin(), times.end()));
    CHECK(times == times_of(settings, 5000, 1));
    CHECK(times != times_of(settings, 5000, 2));
  }
}

TEST_CASE("arrivals: a rate that yields nothing in centuries ends the plan instead of overflowing") {
  CHECK(times_of(with_rate(Kind::kConstant, 1e-12), 10).size() == 1);
  CHECK(times_of(with_rate(Kind::kPoisson, 1e-12), 10).empty());
}

TEST_CASE("arrivals: another mean rate keeps the kind and the proportions") {
  auto spike = profile(kSpike);
  set_mean_rate(spike, 2 * mean_rate(spike));
  CHECK(spike.segments[1].begin_rate == doctest::Approx(800));
  auto gamma = with_rate(Kind::kGamma, 5, 0.5);
  set_mean_rate(gamma, 7);
  CHECK(mean_rate(gamma) == 7);
  CHECK(gamma.burstiness == 0.5);
  auto closed = with_rate(Kind::kClosed, 1);
  CHECK(contains(refusal_of([&] { set_mean_rate(closed, 3); }), "arrivals.kind: expected one with a rate"));
}

TEST_CASE("arrivals: settings out of range are refused with key, what was expected and what came") {
  const auto refusal = [](const ArrivalSettings& settings) { return refusal_of([&] { check(settings); }); };
  CHECK(refusal(with_rate(Kind::kPoisson, -3)) == "arrivals.rate: expected a number above 0, got -3");
  CHECK(refusal(with_rate(Kind::kConstant, 0)) == "arrivals.rate: expected a number above 0, got 0");
  CHECK(refusal(with_rate(Kind::kPoisson, NAN)) == "arrivals.rate: expected a number above 0, got nan");
  CHECK(refusal(with_rate(Kind::kPoisson, INFINITY)) == "arrivals.rate: expected a number above 0, got inf");
  CHECK(refusal(with_rate(Kind::kGamma, 1, 0)) == "arrivals.burstiness: expected a number above 0, got 0");
  CHECK(refusal(profile({})) == "arrivals.segments: expected at least one segment, got none");
  CHECK(refusal(profile({{10, 0, 0}})) ==
        "arrivals.segments: expected a segment with a rate above 0, got none");
  CHECK(refusal(profile({{-1, 1, 1}})) ==
        "arrivals.segments[0].duration_s: expected a number above 0, got -1");
  ArrivalSettings settings;
  settings.kind = Kind::kMarkov;
  settings.states = {{1, 1}};
  CHECK(refusal(settings) == "arrivals.states: expected at least two states, got 1");
  settings.states = {{1, 1}, {2, 0}};
  CHECK(refusal(settings) == "arrivals.states[1].mean_dwell_s: expected a number above 0, got 0");
  settings.states = {{0, 1}, {0, 1}};
  CHECK(contains(refusal(settings), "a state with a rate above 0"));
  settings.kind = Kind::kReplay;
  settings.times_s = {1, 0.5};
  CHECK(refusal(settings) == "arrivals.times_s[1]: expected a number of at least 1, got 0.5");
  settings.times_s = {-1};
  CHECK(refusal(settings) == "arrivals.times_s[0]: expected a number of at least 0, got -1");
  settings.speed = 0;
  CHECK(refusal(settings) == "arrivals.speed: expected a number above 0, got 0");
  settings.kind = Kind::kClosed;
  settings.users = 0;
  CHECK(refusal(settings) == "arrivals.users: expected a number of at least 1, got 0");
}
