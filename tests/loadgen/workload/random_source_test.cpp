// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/random_source.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include "tests/loadgen/workload/kolmogorov_smirnov.hpp"

using namespace troupe::loadgen;
using namespace troupe::loadgen::test;

namespace {

std::vector<double> samples_of(const std::function<double(RandomSource&)>& draw) {
  RandomSource random(2026);
  std::vector<double> samples;
  for (int i = 0; i < 20000; ++i) samples.push_back(draw(random));
  return samples;
}

double normal_cdf(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }
double exponential_cdf(double x) { return 1 - std::exp(-x); }
// For shapes that have a closed form.
double gamma_half_cdf(double x) { return std::erf(std::sqrt(x)); }
double gamma_two_cdf(double x) { return 1 - std::exp(-x) * (1 + x); }

}  // namespace

TEST_CASE("random source: a seed means the same numbers everywhere, for ever") {
  // What the published C code of xoshiro256++ 1.0, seeded by that of splitmix64
  // from 42, prints.
  RandomSource random(42);
  CHECK(random.next() == 0xD0764D4F4476689FULL);
  CHECK(random.next() == 0x519E4174576F3791ULL);
  CHECK(random.next() == 0xFBE07CFB0C24ED8CULL);
}

TEST_CASE("random source: the streams of a seed and the indices of a stream differ") {
  std::set<std::uint64_t> first_numbers;
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    for (const auto stream : {RandomStream::kArrivals, RandomStream::kClass, RandomStream::kPromptTokens})
      for (std::uint64_t index = 0; index < 100; ++index)
        first_numbers.insert(RandomSource(seed, stream, index).next());
  CHECK(first_numbers.size() == 10 * 3 * 100);
}

TEST_CASE("random source: first numbers of successive indices are uniform too") {
  std::vector<double> samples;
  for (std::uint64_t index = 0; index < 20000; ++index)
    samples.push_back(RandomSource(1, RandomStream::kPromptTokens, index).uniform());
  CHECK(passes_ks(samples, [](double x) { return x; }));
}

TEST_CASE("random source: uniform, exponential, normal and gamma numbers pass Kolmogorov-Smirnov") {
  CHECK(passes_ks(samples_of([](auto& r) { return r.uniform(); }), [](double x) { return x; }));
  CHECK(passes_ks(samples_of([](auto& r) { return r.exponential(); }), exponential_cdf));
  CHECK(passes_ks(samples_of([](auto& r) { return r.normal(); }), normal_cdf));
  CHECK(passes_ks(samples_of([](auto& r) { return r.gamma(0.5); }), gamma_half_cdf));
  CHECK(passes_ks(samples_of([](auto& r) { return r.gamma(1); }), exponential_cdf));
  CHECK(passes_ks(samples_of([](auto& r) { return r.gamma(2); }), gamma_two_cdf));
}

TEST_CASE("random source: Kolmogorov-Smirnov tells a wrong distribution") {
  CHECK_FALSE(passes_ks(samples_of([](auto& r) { return r.uniform() * 0.98; }), [](double x) { return x; }));
  CHECK_FALSE(passes_ks(samples_of([](auto& r) { return r.exponential() * 1.05; }), exponential_cdf));
  CHECK_FALSE(passes_ks(samples_of([](auto& r) { return r.normal() + 0.03; }), normal_cdf));
  CHECK_FALSE(passes_ks(samples_of([](auto& r) { return r.gamma(0.55); }), gamma_half_cdf));
  CHECK_FALSE(passes_ks(samples_of([](auto& r) { return r.gamma(2.1); }), gamma_two_cdf));
}

TEST_CASE("random source: whole numbers below a limit are equally likely") {
  RandomSource random(7);
  std::array<int, 7> counts{};
  constexpr int kDraws = 70000;
  for (int i = 0; i < kDraws; ++i) ++counts.at(random.below(7));
  double chi_square = 0;
  for (const int count : counts) chi_square += std::pow(count - kDraws / 7.0, 2) / (kDraws / 7.0);
  CHECK(chi_square < 16.8);  // 99 % at 6 degrees of freedom
  CHECK(random.below(1) == 0);
}
