// SPDX-License-Identifier: Apache-2.0
#include "app/costs/probed_device.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kBatchesEach = 3;  // of a shape in a round
constexpr std::chrono::milliseconds kLongEnough{4};

double quantile(std::vector<double> values, double rank) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(rank * static_cast<double>(values.size() - 1) + 0.5)];
}

// Null: the device needs none.
std::unique_ptr<ProgramCache> programs_of(const LoadedModel& model, const Device& device) {
  if (!model.served.network || !device.needs_programs()) return nullptr;
  const DeviceDescription& about = device.description();
  return std::make_unique<ProgramCache>(
      model.served.network, model.served.compute_type,
      ProgramShape{.max_tokens = about.max_batch_tokens, .max_output_rows = about.num_slots});
}

}  // namespace

ProbedDevice::ProbedDevice(const LoadedModel& model)
    : device_(model.make_device(0)),
      programs_(programs_of(model, *device_)),
      direct_(*device_, programs_.get()) {}

std::vector<CostSample> ProbedDevice::measure(std::span<const std::shared_ptr<const Batch>> batches,
                                              std::uint32_t num_rounds,
                                              const std::function<void(std::uint32_t)>& on_round) {
  std::vector<std::vector<double>> times(batches.size());
  for (std::uint32_t round = 0; round <= num_rounds; ++round) {  // the first warms up
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const double time = mean_nanoseconds(batches[i]);
      if (round > 0) times[i].push_back(time);
    }
    if (on_round) on_round(round);
  }
  std::vector<CostSample> samples;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const double median = quantile(times[i], 0.5);
    samples.push_back({.shape = shape_of(*batches[i]),
                       .nanoseconds = median,
                       .spread = (quantile(times[i], 0.75) - quantile(times[i], 0.25)) / median});
  }
  return samples;
}

// From one batch's end to the next one's, with two in flight. Not a median of
// single times: when this thread wakes up late, the next ones are short.
double ProbedDevice::mean_nanoseconds(const std::shared_ptr<const Batch>& batch) {
  submit(batch);
  Ticket last = submit(batch);
  wait_for(last - 1);
  const auto begin = Clock::now();
  auto end = begin;
  std::uint32_t count = 0;
  for (; count < kBatchesEach || end - begin < kLongEnough; ++count) {
    last = submit(batch);
    wait_for(last - 1);
    end = Clock::now();
  }
  wait_for(last);
  return static_cast<double>(std::chrono::nanoseconds(end - begin).count()) / count;
}

void ProbedDevice::add_slice(Batch& batch, std::uint32_t slot, const SequenceStep& step,
                             PageId first_page) const {
  direct_.add_slice(batch, {.slot = slot,
                            .num_tokens = step.num_tokens,
                            .context_length = step.context_length,
                            .input_from_slot = step.input_from_slot,
                            .sample = step.sample,
                            .first_page = first_page});
}

IterationShape shape_of(const Batch& batch) {
  IterationShape shape;
  for (const SequenceSlice& slice : batch.slices)
    shape.add({.num_tokens = slice.num_tokens,
               .context_length = slice.context_length,
               .input_from_slot = slice.input_from_slot,
               .sample = slice.sample});
  return shape;
}

}  // namespace troupe
