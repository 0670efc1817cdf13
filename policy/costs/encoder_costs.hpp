// SPDX-License-Identifier: Apache-2.0
// Time that a padded batch of texts takes on a device, by the length of each and their
// number: TurboTransformers' cached_cost. A grid that is measured once, interpolated between
// its points, and corrected by what batches are seen to take. It never shrinks with length
// or number, whatever is measured.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace troupe {

class EncoderCosts {
 public:
  static constexpr std::array<std::uint32_t, 12> kLengths = {1,  8,   16,  32,  48,  64,
                                                             96, 128, 192, 256, 384, 512};
  static constexpr std::array<std::uint32_t, 7> kCounts = {1, 2, 4, 8, 16, 32, 64};
  static constexpr std::size_t kPoints = kLengths.size() * kCounts.size();

  // Nanoseconds of a batch, above 0; nullopt: not to be measured.
  using Measure = std::function<std::optional<double>(std::uint32_t length, std::uint32_t num_texts)>;

  // Nothing is measured yet: a guess, of which only the proportions matter.
  EncoderCosts();
  // A point that is not measured follows from the one before it, in proportion; of the first
  // one there has to be a measurement.
  explicit EncoderCosts(const Measure& measure);
  // As values() gave them; nullopt: they can't be such.
  static std::optional<EncoderCosts> from_values(std::span<const double> values);

  // Nanoseconds, above 0. Both at least 1. Beyond the grid it goes on in proportion.
  double operator()(std::uint32_t length, std::uint32_t num_texts) const;
  // A batch took so long. Its neighbours on the grid follow slowly, and by no more than a
  // factor of 2 in one step.
  void learn(std::uint32_t length, std::uint32_t num_texts, double nanoseconds);

  // [kLengths, kCounts]
  std::span<const double> values() const { return values_; }
  std::uint64_t num_learnt() const { return num_learnt_; }

 private:
  void set(std::size_t length, std::size_t count, double value);
  double& at(std::size_t length, std::size_t count) { return values_[length * kCounts.size() + count]; }
  double at(std::size_t length, std::size_t count) const { return values_[length * kCounts.size() + count]; }

  std::array<double, kPoints> values_ = {};
  std::uint64_t num_learnt_ = 0;
};

}  // namespace troupe
