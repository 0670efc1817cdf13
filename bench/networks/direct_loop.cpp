// SPDX-License-Identifier: Apache-2.0
#include "bench/networks/direct_loop.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

DirectLoop::DirectLoop(Device& device, ProgramCache& programs, DirectDevice::Waiting waiting,
                       std::uint32_t num_sequences, std::uint32_t length)
    : device_(device, &programs, waiting),
      num_sequences_(num_sequences),
      pages_each_((length + device.description().page_size - 1) / device.description().page_size) {
  if (first_spare_page() > device.description().num_pages) {
    throw TooFewPages(std::to_string(num_sequences) + " sequences of " + std::to_string(length) +
                      " tokens need " + std::to_string(first_spare_page()) + " KV pages of " +
                      std::to_string(device.description().num_pages));
  }
}

Batch DirectLoop::chunk_of(std::uint32_t sequence, std::uint32_t context, std::uint32_t count,
                           bool sample) const {
  Batch batch;
  device_.add_slice(batch, {.slot = sequence,
                            .num_tokens = count,
                            .context_length = context,
                            .sample = sample,
                            .first_page = sequence * pages_each_});
  return batch;
}

double DirectLoop::prefill(std::uint32_t sequence, std::uint32_t context, std::uint32_t count,
                           std::vector<PageCopy> copies) {
  Batch batch = chunk_of(sequence, context, count, true);
  batch.copies = std::move(copies);
  const auto submitted = std::make_shared<const Batch>(std::move(batch));
  const auto begin = Clock::now();
  wait_for(device_.submit(submitted));
  return seconds_since(begin);
}

double DirectLoop::prefill_all(std::uint32_t num_tokens) {
  const auto begin = Clock::now();
  const std::uint32_t most = device_.description().max_batch_tokens;
  for (std::uint32_t sequence = 0; sequence < num_sequences_; ++sequence) {
    for (std::uint32_t done = 0; done < num_tokens; done += most) {
      const std::uint32_t count = std::min(most, num_tokens - done);
      device_.run(chunk_of(sequence, done, count, done + count == num_tokens));
    }
  }
  position_ = num_tokens;
  return seconds_since(begin);
}

DirectLoop::Decode DirectLoop::decode(
    std::uint32_t steps, const std::function<std::vector<PageCopy>(std::uint32_t step)>& copies_of) {
  Decode result;
  const auto collect = [&](Ticket ticket) {
    result.network_seconds += static_cast<double>(wait_for(ticket).network_nanoseconds) * 1e-9;
  };
  const auto begin = Clock::now();
  Ticket last = 0;
  for (std::uint32_t step = 0; step < steps; ++step, ++position_) {
    Batch batch;
    if (copies_of) batch.copies = copies_of(step);
    for (std::uint32_t sequence = 0; sequence < num_sequences_; ++sequence)
      device_.add_slice(batch, {.slot = sequence,
                                .context_length = position_,
                                .input_from_slot = true,
                                .sample = true,
                                .first_page = sequence * pages_each_});
    last = device_.submit(std::make_shared<const Batch>(std::move(batch)));
    if (step > 0) collect(last - 1);
  }
  if (steps > 0) collect(last);
  result.seconds = seconds_since(begin);
  return result;
}

void DirectLoop::copy(std::vector<PageCopy> copies) {
  Batch batch;
  batch.copies = std::move(copies);
  wait_for(device_.submit(std::make_shared<const Batch>(std::move(batch))));
}

// Of batches whose slices all sample.
BatchResult DirectLoop::wait_for(Ticket ticket) {
  BatchResult result = device_.wait_for(ticket);
  if (!result.failed_loads.empty()) {
    throw std::runtime_error("KV pages were not where they should be");
  }
  // The row's logits were no numbers: whatever was measured, it was not this network.
  if (std::find(result.tokens.begin(), result.tokens.end(), -1) != result.tokens.end())
    throw std::runtime_error("a step gave no token, as its logits are not all finite");
  return result;
}

CpuLoop::CpuLoop(std::shared_ptr<const CpuModel> model, std::uint32_t num_sequences, std::uint32_t length)
    : model_(std::move(model)),
      device_(model_),
      programs_(model_->network, model_->compute_type, model_->largest),
      loop_(device_, programs_, DirectDevice::Waiting::kSleep, num_sequences, length) {}

}  // namespace troupe::bench
