// SPDX-License-Identifier: Apache-2.0
#include "gpu/child/worker_loop.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <deque>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "gpu/cuda_library.hpp"
#include "gpu/networks/network.hpp"
#include "gpu/pages/host_pages.hpp"
#include "gpu/program/program_cache.hpp"

namespace troupe::child {
namespace {

constexpr std::chrono::hours kNoLimit{1000};

class WorkerLoop {
 public:
  WorkerLoop(FrameSocket& socket, const BackendMaker& maker)
      : socket_(socket), maker_(maker), rung_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!rung_.is_open()) throw std::runtime_error(std::strerror(errno));
  }

  // Ends by throwing, ConnectionLost if all went well.
  [[noreturn]] void run() {
    greet();
    start();
    for (;;) {
      while (const auto frame = socket_.take()) handle(*frame);
      send_results();
      wait_for_events();
      socket_.read_now();
    }
  }

 private:
  // A batch whose result is not sent. Without a ticket the device refused it.
  struct Submitted {
    Ticket ticket = 0;  // the server's
    std::optional<Ticket> of_device = {};
    std::string refusal = {};
  };

  Frame receive() {
    for (;;)
      if (auto frame = socket_.receive(kNoLimit)) return *std::move(frame);
  }

  void greet() {
    const auto hello = decode<Hello>(receive());
    if (hello.fingerprint != kBackendFingerprint)
      throw std::runtime_error("the server is of another build than its worker process");
    socket_.send(Hello{});
  }

  void start() {
    const auto start = decode<StartBackend>(receive());
    backend_ = maker_(start);
    network_ = load_network(start.settings.model_dir);
    socket_.send(backend_->plan());
  }

  void handle(const Frame& frame) {
    switch (frame.kind) {
      case MessageKind::kMakeDevice: return make_device(decode<MakeDevice>(frame));
      case MessageKind::kSubmitBatch: return submit(decode<SubmitBatch>(frame));
      case MessageKind::kEndDevice: return end_device();
      default: throw ProtocolError(std::string("nobody expects a ") + name_of(frame.kind));
    }
  }

  void make_device(const MakeDevice& message) {
    if (device_) throw ProtocolError("a second device is asked for");
    std::shared_ptr<HostPages> host_pages;
    if (message.num_host_pages > 0)
      host_pages = std::make_shared<HostPages>(HostPages::map_shared(
          socket_.take_descriptor().get(), message.num_host_pages, message.host_page_bytes));
    device_ = backend_->make_device(std::move(host_pages));
    const DeviceDescription& description = device_->description();
    if (device_->needs_programs())
      programs_.emplace(
          network_, backend_->plan().compute_type,
          ProgramShape{.max_tokens = description.max_batch_tokens, .max_output_rows = description.num_slots});
    device_->set_listener([this] {
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto num_written = ::write(rung_.get(), &one, sizeof one);
    });
    socket_.send(description);
  }

  void submit(SubmitBatch message) {
    if (!device_) throw ProtocolError("a batch came before a device was asked for");
    Submitted submitted{.ticket = message.ticket};
    try {
      const auto batch = std::make_shared<const Batch>(std::move(message.batch));
      submitted.of_device = device_->submit(program_for(*batch), batch);
    } catch (const std::exception& error) {
      submitted.refusal = error.what();
    }
    submitted_.push_back(std::move(submitted));
  }

  std::shared_ptr<const Program> program_for(const Batch& batch) {
    if (!programs_ || batch.slices.empty()) return nullptr;
    return programs_->find(batch.cell, batch.num_tokens(), batch.num_output_rows());
  }

  void end_device() {
    submitted_.clear();
    device_.reset();
    programs_.reset();
    socket_.send(DeviceEnded{});
  }

  void send_results() {
    while (!submitted_.empty()) {
      const Submitted& front = submitted_.front();
      if (front.of_device && *front.of_device > device_->completed()) return;
      BatchResult result;
      if (front.of_device) result = device_->collect(*front.of_device);
      if (!front.refusal.empty()) result.error = front.refusal;
      const auto frame = encode_fields<BatchAnswer>(front.ticket, result);
      socket_.send(std::span<const std::byte>(frame));
      submitted_.pop_front();
    }
  }

  void wait_for_events() {
    std::array<pollfd, 2> entries{pollfd{.fd = socket_.descriptor(), .events = POLLIN, .revents = 0},
                                  pollfd{.fd = rung_.get(), .events = POLLIN, .revents = 0}};
    std::optional<std::chrono::nanoseconds> delay;
    if (!submitted_.empty()) delay = device_->poll_delay();
    timespec time{};
    if (delay) time = {.tv_sec = delay->count() / 1'000'000'000, .tv_nsec = delay->count() % 1'000'000'000};
    if (::ppoll(entries.data(), entries.size(), delay ? &time : nullptr, nullptr) < 0 && errno != EINTR)
      throw std::runtime_error(std::strerror(errno));
    std::uint64_t count = 0;
    [[maybe_unused]] const auto num_read = ::read(rung_.get(), &count, sizeof count);
  }

  FrameSocket& socket_;
  const BackendMaker& maker_;
  FileDescriptor rung_;  // an event: a batch is done
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const Network> network_;
  std::optional<ProgramCache> programs_;
  std::deque<Submitted> submitted_;
  std::unique_ptr<Device> device_;  // last: its threads ring
};

}  // namespace

std::unique_ptr<Backend> make_backend(const StartBackend& start) {
  if (start.kind == BackendKind::kCpu) return make_cpu_backend(start.settings);
  return load_cuda_library(start.library)(start.settings);
}

bool run_worker(FrameSocket socket, const BackendMaker& maker) {
  try {
    WorkerLoop(socket, maker).run();
  } catch (const ConnectionLost&) {
    return true;
  } catch (const std::exception& error) {
    try {
      socket.send(WorkerError{.text = error.what()});
    } catch (const ConnectionLost&) {
      return true;
    }
    return false;
  }
}

}  // namespace troupe::child
