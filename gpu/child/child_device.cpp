// SPDX-License-Identifier: Apache-2.0
#include "gpu/child/child_device.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <utility>

namespace troupe::child {
namespace {

// For freeing a device's memory.
constexpr std::chrono::seconds kEndDeviceTime{5};

// What it can do, as far as batches fit into frames.
DeviceDescription within_frames(DeviceDescription description) {
  description.waits_for_masks = false;  // they are of this process
  description.max_penalized_tokens = std::min(description.max_penalized_tokens, kMaxPenalizedTokens);
  return description;
}

FileDescriptor make_event() {
  FileDescriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.is_open()) throw std::runtime_error(std::string("can't make an event: ") + std::strerror(errno));
  return event;
}

}  // namespace

ChildDevice::ChildDevice(Worker worker, DeviceDescription description, std::shared_ptr<HostPages> host_pages,
                         GiveBack give_back)
    : description_(within_frames(std::move(description))),
      host_pages_(std::move(host_pages)),
      worker_(std::move(worker)),
      give_back_(std::move(give_back)),
      wake_(make_event()) {
  io_thread_ = std::thread(&ChildDevice::exchange, this);
}

ChildDevice::~ChildDevice() {
  stop_ = true;
  wake();
  io_thread_.join();
  if (end_well()) {
    give_back_(std::move(worker_));
  } else {
    worker_.kill();  // its destructor waits until it has gone
  }
}

// Whether the worker is ready for another device.
bool ChildDevice::end_well() {
  if (has_failed_ || !give_back_ || completed() != submitted_) return false;
  try {
    worker_.ask<DeviceEnded>(EndDevice{}, kEndDeviceTime);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

Ticket ChildDevice::submit(std::shared_ptr<const Program> /*program*/, std::shared_ptr<const Batch> batch) {
  const std::lock_guard lock(mutex_);
  const Ticket ticket = submitted_ + 1;
  const auto frame = encode_fields<SubmitBatch>(ticket, *batch);
  submitted_ = ticket;
  if (!fault_.empty()) {
    completed_.store(ticket, std::memory_order_release);
    return ticket;
  }
  expected_.push_back(expected_of(*batch));
  std::size_t num_sent = 0;
  try {
    if (unsent_.empty()) num_sent = worker_.socket().send_now(frame);
  } catch (const ConnectionLost&) {
    return ticket;  // the io thread hears of it too, and says how it came
  }
  if (num_sent == frame.size()) return ticket;
  unsent_.insert(unsent_.end(), frame.begin() + static_cast<std::ptrdiff_t>(num_sent), frame.end());
  wake();
  return ticket;
}

BatchResult ChildDevice::collect(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  if (ticket > completed()) throw std::logic_error("a batch was collected before it was done");
  BatchResult result;
  result.error = fault_;
  if (results_.empty()) return result;
  result = std::move(results_.front());
  results_.pop_front();
  return result;
}

void ChildDevice::set_listener(std::function<void()> listener) {
  const std::lock_guard lock(listener_mutex_);
  listener_ = std::move(listener);
}

std::string ChildDevice::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

void ChildDevice::exchange() {
  try {
    try {
      exchange_until_stopped();
    } catch (const ConnectionLost&) {
      worker_.socket().read_rest();  // it may be sending that failed
      take_answers();                // that came before
      fail(worker_.end_in_words());
    }
  } catch (const ProtocolError& error) {
    worker_.kill();
    fail("the worker process can't be understood: " + std::string(error.what()));
  } catch (const std::exception& error) {
    worker_.kill();
    fail("the worker process gave up: " + std::string(error.what()));
  }
}

void ChildDevice::exchange_until_stopped() {
  for (;;) {
    wait_for_events();
    if (stop_) return;
    send_rest();
    worker_.socket().read_now();
    take_answers();
  }
}

void ChildDevice::wait_for_events() {
  bool has_rest = false;
  {
    const std::lock_guard lock(mutex_);
    has_rest = !unsent_.empty();
  }
  const auto events = static_cast<short>(has_rest ? POLLIN | POLLOUT : POLLIN);
  std::array<pollfd, 2> entries{pollfd{.fd = worker_.socket().descriptor(), .events = events, .revents = 0},
                                pollfd{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  if (::poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR)
    throw std::runtime_error(std::strerror(errno));
  std::uint64_t count = 0;
  if (entries[1].revents == 0) return;
  [[maybe_unused]] const auto num_read = ::read(wake_.get(), &count, sizeof count);
}

void ChildDevice::send_rest() {
  const std::lock_guard lock(mutex_);
  if (unsent_.empty()) return;
  const auto num_sent = worker_.socket().send_now(unsent_);
  unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(num_sent));
}

void ChildDevice::take_answers() {
  bool has_news = false;
  while (const auto frame = worker_.socket().take()) {
    if (frame->kind == MessageKind::kWorkerError) throw std::runtime_error(decode<WorkerError>(*frame).text);
    take_answer(decode<BatchAnswer>(*frame));
    has_news = true;
  }
  if (has_news) ring();
}

void ChildDevice::take_answer(BatchAnswer answer) {
  const std::lock_guard lock(mutex_);
  check_answer(answer);
  has_failed_ = has_failed_ || !answer.result.error.empty();
  expected_.pop_front();
  results_.push_back(std::move(answer.result));
  completed_.store(answer.ticket, std::memory_order_release);
}

void ChildDevice::check_answer(const BatchAnswer& answer) const {
  if (const Ticket next = completed() + 1; answer.ticket != next || answer.ticket > submitted_)
    throw ProtocolError("expected the result of batch " + std::to_string(next) + " of " +
                        std::to_string(submitted_) + ", got that of " + std::to_string(answer.ticket));
  if (!answer.result.error.empty()) return;
  const Expected& expected = expected_.front();
  if (answer.result.tokens.size() != expected.num_slices)
    throw ProtocolError("expected a token for each of " + std::to_string(expected.num_slices) +
                        " slices, got " + std::to_string(answer.result.tokens.size()));
  if (answer.result.vectors.size() != expected.num_floats)
    throw ProtocolError("expected vectors of " + std::to_string(expected.num_floats) + " floats, got " +
                        std::to_string(answer.result.vectors.size()));
}

// The worker refuses a batch of a cell that is not there.
ChildDevice::Expected ChildDevice::expected_of(const Batch& batch) const {
  Expected expected{.num_slices = batch.slices.size()};
  if (batch.cell < description_.cells.size() && description_.cells[batch.cell].result == ResultKind::kVector)
    expected.num_floats = batch.slices.size() * description_.cells[batch.cell].vector_size;
  return expected;
}

void ChildDevice::fail(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    has_failed_ = true;
    fault_ = reason;
    unsent_.clear();
    completed_.store(submitted_, std::memory_order_release);
  }
  ring();
}

void ChildDevice::ring() {
  const std::lock_guard lock(listener_mutex_);
  if (listener_) listener_();
}

void ChildDevice::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto num_written = ::write(wake_.get(), &one, sizeof one);
}

}  // namespace troupe::child
