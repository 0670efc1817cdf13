// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/sim_encoder.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/actors/byte_tokenizer.hpp"

namespace troupe::sim {

std::vector<float> sim_vector(std::span<const std::int32_t> tokens) {
  return {static_cast<float>(std::accumulate(tokens.begin(), tokens.end(), 0)),
          static_cast<float>(tokens.size())};
}

SimDeviceSettings small_encoder() {
  SimDeviceSettings settings;
  settings.description = {.name = "simulated encoder",
                          .page_size = 32,
                          .num_slots = 8,
                          .max_batch_tokens = 64,
                          .context_length = 40,
                          .vocabulary_size = ByteTokenizer::kVocabularySize,
                          .cells = {{.name = "encoder_pass",
                                     .state = StateKind::kNone,
                                     .result = ResultKind::kVector,
                                     .vector_size = 2}}};
  return settings;
}

SimEncoder::SimEncoder(SimDeviceSettings settings, std::shared_ptr<SimDevices> shared, WorkerId worker)
    : settings_(std::move(settings)), shared_(std::move(shared)), worker_(worker) {
  if (!shared_->encoders.emplace(worker_, this).second)
    shared_->violations.push_back("two encoders of a worker at once");
}

SimEncoder::~SimEncoder() { shared_->encoders.erase(worker_); }

Ticket SimEncoder::submit(std::shared_ptr<const Program>, std::shared_ptr<const Batch> batch) {
  check(*batch);
  const auto [fault, done] =
      shared_->begin(worker_, *batch, settings_.batch_time + settings_.token_time * batch->num_tokens());
  queue_.push_back({.batch = std::move(batch), .done = done, .fault = fault});
  return ++num_submitted_;
}

void SimEncoder::check(const Batch& batch) {
  const DeviceDescription& device = settings_.description;
  std::uint32_t num_tokens = 0;
  for (const auto& slice : batch.slices) {
    num_tokens += slice.num_tokens;
    if (slice.context_length > 0 || slice.num_pages > 0 || slice.sample)
      shared_->violations.push_back("an input of an encoder with a decoder's wishes");
    if (slice.num_tokens == 0 || slice.num_tokens > device.context_length)
      shared_->violations.push_back("an input of " + std::to_string(slice.num_tokens) + " tokens");
    if (shared_->ended.contains(slice.sequence)) shared_->violations.push_back("an input that had ended");
  }
  if (num_tokens != batch.num_tokens() || num_tokens > device.max_batch_tokens ||
      batch.slices.size() > device.num_slots || !batch.copies.empty())
    shared_->violations.push_back("an encoder's batch of the wrong size");
}

Ticket SimEncoder::completed() const noexcept {
  const TimePoint now = shared_->now();
  return num_collected_ +
         static_cast<Ticket>(
             std::count_if(queue_.begin(), queue_.end(), [&](const auto& one) { return one.done <= now; }));
}

BatchResult SimEncoder::collect(Ticket ticket) {
  if (ticket != num_collected_ + 1 || ticket > completed()) throw std::logic_error("collected out of order");
  const Submitted submitted = std::move(queue_.front());
  queue_.pop_front();
  num_collected_ += 1;
  if (submitted.fault == Fault::kThrowInCollect) throw std::runtime_error("simulated failure of collect");
  BatchResult result;
  result.batch_id = submitted.batch->id;
  if (submitted.fault != Fault::kNone) {
    result.error = "simulated failure of a batch";
    return result;
  }
  std::span<const std::int32_t> tokens = submitted.batch->token_ids;
  for (const auto& slice : submitted.batch->slices) {
    const auto vector = sim_vector(tokens.first(slice.num_tokens - slice.num_padding));
    result.vectors.insert(result.vectors.end(), vector.begin(), vector.end());
    tokens = tokens.subspan(slice.num_tokens);
  }
  return result;
}

TimePoint SimEncoder::next_completion() const {
  const auto num_told = static_cast<std::size_t>(num_rung_ > num_collected_ ? num_rung_ - num_collected_ : 0);
  return num_told < queue_.size() ? queue_[num_told].done : TimePoint::max();
}

void SimEncoder::ring_if_due() {
  const Ticket done = completed();
  if (done <= num_rung_) return;
  num_rung_ = done;
  if (listener_) listener_();
}

}  // namespace troupe::sim
