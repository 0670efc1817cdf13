// SPDX-License-Identifier: Apache-2.0
#include "gpu/noop/noop_device.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe {
namespace {

bool asks_for_logprobs(const Batch& batch) {
  return std::any_of(batch.slices.begin(), batch.slices.end(), [](const SequenceSlice& slice) {
    return slice.sample && slice.sampling.wants_logprobs();
  });
}

// There was no other choice: a logarithm of 0.
std::vector<TokenLogprobs> certain_logprobs(const Batch& batch, const std::vector<std::int32_t>& tokens) {
  std::vector<TokenLogprobs> logprobs(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (batch.slices[i].sampling.top_logprobs > 0) logprobs[i].top.push_back({tokens[i], 0.0F});
  return logprobs;
}

// The first allowed one at or behind `wanted`, else the first of all.
std::int32_t allowed_token(std::span<const std::uint32_t> allowed, std::int32_t wanted) {
  const std::size_t num_bits = allowed.size() * 32;
  for (std::size_t step = 0; step < num_bits; ++step) {
    const std::size_t id = (static_cast<std::size_t>(wanted) + step) % num_bits;
    if (has_token(allowed, id)) return static_cast<std::int32_t>(id);
  }
  return -1;
}

}  // namespace

std::int32_t noop_token(const NoopDeviceSettings& settings, const SequenceSlice& slice,
                        std::span<const std::uint32_t> allowed) {
  if (slice.scored_token >= 0) return slice.scored_token;
  const auto count = static_cast<std::uint64_t>(settings.num_tokens);
  const std::uint64_t position = std::uint64_t{slice.context_length} + slice.num_tokens;
  for (std::uint64_t step = 0; step < count; ++step) {
    const auto token = settings.first_token + static_cast<std::int32_t>((position + step) % count);
    if (!allowed.empty()) return allowed_token(allowed, token);
    const auto& suppressed = slice.suppressed;
    if (std::find(suppressed.begin(), suppressed.end(), token) == suppressed.end()) return token;
  }
  return settings.first_token;
}

NoopDevice::NoopDevice(NoopDeviceSettings settings) : settings_(std::move(settings)) {
  const auto vocabulary = std::int64_t{settings_.description.vocabulary_size};
  if (settings_.first_token < 0 || settings_.num_tokens < 1 ||
      std::int64_t{settings_.first_token} + settings_.num_tokens > vocabulary) {
    throw std::runtime_error("the no-op device's tokens must lie in its vocabulary of " +
                             std::to_string(vocabulary));
  }
  if (settings_.immediate && (settings_.iteration_time.count() > 0 || settings_.token_time.count() > 0)) {
    throw std::runtime_error("a no-op device that completes at once cannot take time");
  }
  settings_.description.waits_for_masks = !settings_.immediate;
  has_no_token_.resize(settings_.description.num_slots);
  if (settings_.description.name.empty()) settings_.description.name = "no-op";
  if (!settings_.immediate) executor_ = std::thread([this] { execute(); });
}

NoopDevice::~NoopDevice() {
  set_listener({});
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  is_submitted_.notify_one();
  is_stopped_.notify_one();
  if (executor_.joinable()) executor_.join();
}

Ticket NoopDevice::submit(std::shared_ptr<const Program> /*program*/, std::shared_ptr<const Batch> batch) {
  ++submitted_;
  if (settings_.immediate) {
    complete(*batch, std::chrono::nanoseconds{0});
    return submitted_;
  }
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({.batch = std::move(batch), .submitted = Clock::now()});
  }
  is_submitted_.notify_one();
  return submitted_;
}

BatchResult NoopDevice::collect(Ticket ticket) {
  if (ticket != collected_ + 1 || ticket > completed()) {
    throw std::logic_error("ticket " + std::to_string(ticket) +
                           " is not the next one to collect, or is not completed");
  }
  const std::lock_guard lock(mutex_);
  BatchResult result = std::move(results_.front());
  results_.pop_front();
  ++collected_;
  return result;
}

void NoopDevice::set_listener(std::function<void()> listener) {
  const std::lock_guard lock(listener_mutex_);
  listener_ = std::move(listener);
}

void NoopDevice::execute() {
  IterationEnds ends;
  std::unique_lock lock(mutex_);
  while (true) {
    is_submitted_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    const auto [batch, submitted] = std::move(queue_.front());
    queue_.pop_front();
    const auto cost = settings_.iteration_time + settings_.token_time * batch->num_tokens();
    const auto end = ends.next(submitted, cost);
    if (cost.count() > 0 && is_stopped_.wait_until(lock, end, [this] { return stop_; })) return;
    lock.unlock();
    complete(*batch, cost);
    lock.lock();
  }
}

void NoopDevice::draw(const Batch& batch, BatchResult& result) {
  const auto has_input = [&](std::size_t i) {
    return batch.awaited_masks.empty() || !batch.slices[i].input_from_slot ||
           !has_no_token_.at(batch.slices[i].slot);
  };
  AwaitedMasks awaited = await_masks(batch, settings_.longest_mask_wait, has_input);
  result.tokens.assign(batch.slices.size(), -1);
  for (std::size_t i = 0; i < batch.slices.size(); ++i) {
    const SequenceSlice& slice = batch.slices[i];
    if (!slice.sample) continue;
    const bool is_awaited = !awaited.masks.empty() && batch.awaited_masks[i] != nullptr;
    if (has_input(i) && is_awaited)
      result.tokens[i] = awaited.masks[i] ? noop_token(settings_, slice, *awaited.masks[i]) : kNoMask;
    else if (has_input(i))
      result.tokens[i] = noop_token(settings_, slice, slice.allowed);
    if (slice.draws()) has_no_token_.at(slice.slot) = result.tokens[i] < 0;
  }
  result.mask_wait_nanoseconds = std::move(awaited.wait_nanoseconds);
  result.mask_sleep_nanoseconds = awaited.asleep.count();
}

void NoopDevice::complete(const Batch& batch, std::chrono::nanoseconds cost) {
  BatchResult result{.batch_id = batch.id, .tokens = {}, .network_nanoseconds = cost.count(), .error = {}};
  draw(batch, result);
  if (const CellType& cell = settings_.description.cells.at(batch.cell); cell.result == ResultKind::kVector) {
    result.vectors.assign(batch.slices.size() * cell.vector_size, 0.0F);
    for (std::size_t i = 0; i < result.vectors.size(); i += cell.vector_size) result.vectors[i] = 1.0F;
  }
  if (asks_for_logprobs(batch)) result.logprobs = certain_logprobs(batch, result.tokens);
  {
    const std::lock_guard lock(mutex_);
    results_.push_back(std::move(result));
  }
  completed_.fetch_add(1, std::memory_order_release);
  const std::lock_guard lock(listener_mutex_);
  if (listener_) listener_();
}

}  // namespace troupe
