// SPDX-License-Identifier: Apache-2.0
#include "bench/networks/device_loop.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <stdexcept>
#include <utility>

namespace troupe::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

DeviceLoop::DeviceLoop(Device& device, ProgramCache& programs, std::uint32_t num_sequences,
                       std::uint32_t length)
    : device_(device),
      programs_(programs),
      num_sequences_(num_sequences),
      pages_each_((length + device.description().page_size - 1) / device.description().page_size) {
  if (first_spare_page() > device.description().num_pages) {
    throw std::runtime_error(std::to_string(num_sequences) + " sequences of " + std::to_string(length) +
                             " tokens need " + std::to_string(first_spare_page()) + " KV pages of " +
                             std::to_string(device.description().num_pages));
  }
}

// With slices of these sequences, one token each, and their pages.
std::shared_ptr<Batch> DeviceLoop::batch_of(std::uint32_t first, std::uint32_t count) const {
  auto batch = std::make_shared<Batch>();
  for (std::uint32_t i = 0; i < count; ++i) {
    SequenceSlice& slice = batch->slices.emplace_back();
    slice.sequence = first + i;
    slice.slot = first + i;
    slice.num_tokens = 1;
    slice.first_page = i * pages_each_;
    slice.num_pages = pages_each_;
    slice.sample = true;
    slice.sampling.temperature = 0.0F;
    for (std::uint32_t page = 0; page < pages_each_; ++page) {
      batch->page_table.push_back((first + i) * pages_each_ + page);
    }
  }
  return batch;
}

double DeviceLoop::prefill(std::uint32_t sequence, std::uint32_t context, std::uint32_t count,
                           std::vector<PageCopy> moves) {
  const auto batch = batch_of(sequence, 1);
  batch->copies = std::move(moves);
  batch->slices.front().context_length = context;
  batch->slices.front().num_tokens = count;
  const std::uint32_t vocabulary = device_.description().vocabulary_size;
  for (std::uint32_t i = 0; i < count; ++i) {
    batch->token_ids.push_back(
        static_cast<std::int32_t>((sequence * 31 + (context + i) * 7 + 5) % vocabulary));
  }
  const auto begin = Clock::now();
  wait_for(submit(batch));
  return seconds_since(begin);
}

void DeviceLoop::prefill_all(std::uint32_t num_tokens) {
  const std::uint32_t most = device_.description().max_batch_tokens;
  for (std::uint32_t sequence = 0; sequence < num_sequences_; ++sequence) {
    for (std::uint32_t done = 0; done < num_tokens; done += most) {
      prefill(sequence, done, std::min(most, num_tokens - done));
    }
  }
  position_ = num_tokens;
}

DeviceLoop::Decode DeviceLoop::decode(
    std::uint32_t steps, std::uint32_t max_in_flight,
    const std::function<std::vector<PageCopy>(std::uint32_t step)>& moves_of) {
  Decode result;
  std::deque<Ticket> in_flight;
  const auto collect_first = [&] {
    const auto nanoseconds = wait_for(in_flight.front()).network_nanoseconds;
    result.network_seconds += static_cast<double>(nanoseconds) * 1e-9;
    in_flight.pop_front();
  };
  const auto begin = Clock::now();
  for (std::uint32_t step = 0; step < steps; ++step) {
    const auto batch = batch_of(0, num_sequences_);
    if (moves_of) batch->copies = moves_of(step);
    for (SequenceSlice& slice : batch->slices) {
      slice.context_length = position_;
      slice.input_from_slot = true;
      batch->token_ids.push_back(0);
    }
    in_flight.push_back(submit(batch));
    ++position_;
    if (in_flight.size() >= max_in_flight) collect_first();
  }
  while (!in_flight.empty()) collect_first();
  result.seconds = seconds_since(begin);
  return result;
}

void DeviceLoop::move(std::vector<PageCopy> moves) {
  const auto batch = std::make_shared<Batch>();
  batch->copies = std::move(moves);
  wait_for(device_.submit(nullptr, batch));
}

Ticket DeviceLoop::submit(std::shared_ptr<const Batch> batch) {
  auto program = programs_.find(batch->cell, batch->num_tokens(), batch->num_output_rows());
  return device_.submit(std::move(program), std::move(batch));
}

BatchResult DeviceLoop::wait_for(Ticket ticket) {
  while (device_.completed() < ticket) {
  }
  auto result = device_.collect(ticket);
  if (!result.error.empty()) throw std::runtime_error(result.error);
  if (!result.failed_loads.empty()) {
    throw std::runtime_error("KV pages were not where they should be");
  }
  // The row's logits were no numbers: whatever was measured, it was not this network.
  if (std::find(result.tokens.begin(), result.tokens.end(), -1) != result.tokens.end())
    throw std::runtime_error("a step gave no token, as its logits are not all finite");
  return result;
}

}  // namespace troupe::bench
