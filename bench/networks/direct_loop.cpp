// SPDX-License-Identifier: Apache-2.0
#include "bench/networks/direct_loop.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace troupe::bench {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

DirectLoop::DirectLoop(std::shared_ptr<const CpuModel> model, std::uint32_t num_sequences,
                       std::uint32_t length)
    : model_(std::move(model)),
      device_(model_),
      programs_(model_->network, model_->compute_type, model_->largest),
      num_sequences_(num_sequences),
      pages_each_((length + device_.description().page_size - 1) / device_.description().page_size) {
  if (pages_each_ * num_sequences_ > device_.description().num_pages)
    throw std::runtime_error("too few KV pages");
  device_.set_listener([this] {
    ++rings_;
    rings_.notify_one();
  });
}

DirectLoop::~DirectLoop() { device_.set_listener(nullptr); }

double DirectLoop::prefill(std::uint32_t num_tokens) {
  const auto start = std::chrono::steady_clock::now();
  const auto vocabulary = device_.description().vocabulary_size;
  const auto chunk = device_.description().max_batch_tokens;
  for (std::uint32_t sequence = 0; sequence < num_sequences_; ++sequence) {
    for (std::uint32_t first = 0; first < num_tokens; first += chunk) {
      auto batch = std::make_shared<Batch>();
      const auto count = std::min(chunk, num_tokens - first);
      SequenceSlice slice;
      slice.sequence = sequence;
      slice.slot = sequence;
      slice.num_tokens = count;
      slice.context_length = first;
      slice.num_pages = pages_each_;
      slice.sample = first + count == num_tokens;
      slice.sampling.temperature = 0;
      batch->slices.push_back(slice);
      for (std::uint32_t i = 0; i < count; ++i)
        batch->token_ids.push_back(
            static_cast<std::int32_t>((sequence * 31 + (first + i) * 7 + 5) % vocabulary));
      for (std::uint32_t page = 0; page < pages_each_; ++page)
        batch->page_table.push_back(sequence * pages_each_ + page);
      submit(std::move(batch));
      wait_for(submitted_);
    }
  }
  position_ = num_tokens;
  return seconds_since(start);
}

double DirectLoop::decode(std::uint32_t steps, double& network_seconds) {
  const auto start = std::chrono::steady_clock::now();
  const auto first = submitted_ + 1;
  for (std::uint32_t step = 0; step < steps; ++step) {
    submit(decode_batch(position_++));
    if (step > 0)
      network_seconds += static_cast<double>(wait_for(first + step - 1).network_nanoseconds) * 1e-9;
  }
  network_seconds += static_cast<double>(wait_for(submitted_).network_nanoseconds) * 1e-9;
  return seconds_since(start);
}

std::shared_ptr<const Batch> DirectLoop::decode_batch(std::uint32_t position) const {
  auto batch = std::make_shared<Batch>();
  for (std::uint32_t sequence = 0; sequence < num_sequences_; ++sequence) {
    SequenceSlice slice;
    slice.sequence = sequence;
    slice.slot = sequence;
    slice.num_tokens = 1;
    slice.context_length = position;
    slice.first_page = sequence * pages_each_;
    slice.num_pages = pages_each_;
    slice.input_from_slot = true;
    slice.sample = true;
    slice.sampling.temperature = 0;
    batch->slices.push_back(slice);
    batch->token_ids.push_back(0);
    for (std::uint32_t page = 0; page < pages_each_; ++page)
      batch->page_table.push_back(sequence * pages_each_ + page);
  }
  return batch;
}

void DirectLoop::submit(std::shared_ptr<const Batch> batch) {
  auto program = programs_.find(batch->cell, batch->num_tokens(), batch->num_output_rows());
  submitted_ = device_.submit(std::move(program), std::move(batch));
}

BatchResult DirectLoop::wait_for(Ticket ticket) {
  // Sleeps until the device rings: polling would take a core from the network.
  for (auto seen = rings_.load(); device_.completed() < ticket; seen = rings_.load()) rings_.wait(seen);
  auto result = device_.collect(ticket);
  if (!result.error.empty()) throw std::runtime_error(result.error);
  return result;
}

}  // namespace troupe::bench
