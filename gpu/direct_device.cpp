// SPDX-License-Identifier: Apache-2.0
#include "gpu/direct_device.hpp"

#include <stdexcept>
#include <utility>

namespace troupe {

DirectDevice::DirectDevice(Device& device, ProgramCache* programs, Waiting waiting)
    : device_(device), programs_(programs), waiting_(waiting) {
  if (waiting_ == Waiting::kPoll) return;
  device_.set_listener([this] {
    ++rings_;
    rings_.notify_one();
  });
}

DirectDevice::~DirectDevice() {
  if (waiting_ == Waiting::kSleep) device_.set_listener({});
}

Ticket DirectDevice::submit(const std::shared_ptr<const Batch>& batch) {
  const bool has_program = programs_ != nullptr && !batch->slices.empty();
  return device_.submit(
      has_program ? programs_->find(batch->cell, batch->num_tokens(), batch->num_output_rows()) : nullptr,
      batch);
}

BatchResult DirectDevice::wait_for(Ticket ticket) {
  for (auto seen = rings_.load(); device_.completed() < ticket; seen = rings_.load())
    if (waiting_ == Waiting::kSleep) rings_.wait(seen);
  BatchResult result = device_.collect(ticket);
  if (!result.error.empty()) throw std::runtime_error("a batch failed: " + result.error);
  return result;
}

BatchResult DirectDevice::run(Batch batch) {
  return wait_for(submit(std::make_shared<const Batch>(std::move(batch))));
}

void DirectDevice::add_slice(Batch& batch, const MadeUpSlice& made_up) const {
  const std::uint32_t page_size = description().page_size, end = made_up.context_length + made_up.num_tokens;
  SequenceSlice slice;
  slice.sequence = made_up.slot;
  slice.slot = made_up.slot;
  slice.num_tokens = made_up.num_tokens;
  slice.context_length = made_up.context_length;
  slice.first_page = static_cast<std::uint32_t>(batch.page_table.size());
  slice.num_pages = (end + page_size - 1) / page_size;
  slice.input_from_slot = made_up.input_from_slot;
  slice.sample = made_up.sample;
  slice.sampling.temperature = 0;
  for (std::uint32_t page = 0; page < slice.num_pages; ++page)
    batch.page_table.push_back(made_up.first_page + page);
  for (std::uint32_t position = made_up.context_length; position < end; ++position)
    batch.token_ids.push_back(
        static_cast<std::int32_t>((made_up.slot * 31 + position * 7 + 5) % description().vocabulary_size));
  batch.slices.push_back(std::move(slice));
}

}  // namespace troupe
