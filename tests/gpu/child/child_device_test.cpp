// SPDX-License-Identifier: Apache-2.0
// A device whose worker is a thread of the test at the other end of the socket.
#include "gpu/child/child_device.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/child/frame_socket.hpp"

namespace troupe::child {
namespace {

constexpr std::chrono::seconds kLong{60};

// The end of a worker process, played by a thread.
class FakeWorker {
 public:
  using Play = std::function<void(FrameSocket&)>;

  explicit FakeWorker(Play play) {
    auto [ours, theirs] = FrameSocket::connected_pair();
    socket_ = std::move(ours);
    thread_ = std::thread([play = std::move(play), end = std::move(theirs)]() mutable {
      try {
        play(end);
      } catch (const ConnectionLost&) {
      }
    });
  }
  ~FakeWorker() { thread_.join(); }

  std::unique_ptr<ChildDevice> device(ChildDevice::GiveBack give_back = {}) {
    return std::make_unique<ChildDevice>(Worker(std::move(socket_)),
                                         DeviceDescription{.name = "fake", .num_pages = 3}, nullptr,
                                         std::move(give_back));
  }

 private:
  FrameSocket socket_;
  std::thread thread_;
};

SubmitBatch next_batch(FrameSocket& socket) {
  const auto frame = socket.receive(kLong);
  REQUIRE(frame);
  return decode<SubmitBatch>(*frame);
}

BatchAnswer answer_to(const SubmitBatch& submitted, std::int32_t token) {
  BatchAnswer answer{.ticket = submitted.ticket, .result = {}};
  answer.result.batch_id = submitted.batch.id;
  answer.result.tokens.assign(submitted.batch.slices.size(), token);
  return answer;
}

void answer_all(FrameSocket& socket, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i)
    socket.send(answer_to(next_batch(socket), static_cast<std::int32_t>(i)));
}

std::shared_ptr<const Batch> a_batch(std::uint64_t id = 1, std::size_t num_tokens = 1) {
  Batch batch;
  batch.id = id;
  batch.slices.resize(1);
  batch.slices[0].num_tokens = static_cast<std::uint32_t>(num_tokens);
  batch.token_ids.resize(num_tokens);
  return std::make_shared<const Batch>(std::move(batch));
}

// Sleeps until the listener has rung for it.
class Waiter {
 public:
  explicit Waiter(Device& device) : device_(device) {
    device_.set_listener([this] {
      ++rings_;
      rings_.notify_one();
    });
  }
  ~Waiter() { device_.set_listener({}); }
  BatchResult wait_for(Ticket ticket) {
    for (auto seen = rings_.load(); device_.completed() < ticket; seen = rings_.load()) rings_.wait(seen);
    return device_.collect(ticket);
  }

 private:
  Device& device_;
  std::atomic<std::uint32_t> rings_{0};
};

}  // namespace

TEST_CASE("child device: batches go out, results come back in order") {
  FakeWorker worker([](FrameSocket& socket) { answer_all(socket, 50); });
  const auto device = worker.device();
  Waiter waiter(*device);
  for (Ticket i = 1; i <= 50; ++i) {
    CHECK(device->submit(nullptr, a_batch(100 + i)) == i);
    if (i < 3) continue;  // two in flight
    const auto result = waiter.wait_for(i - 2);
    CHECK(result.batch_id == 100 + i - 2);
    CHECK(result.tokens == std::vector<std::int32_t>{static_cast<std::int32_t>(i - 3)});
    CHECK(result.error.empty());
  }
  waiter.wait_for(49);
  waiter.wait_for(50);
  CHECK(device->description().num_pages == 3);
  CHECK_FALSE(device->needs_programs());
}

TEST_CASE("child device: it takes no more penalized tokens than fit into a frame") {
  FakeWorker worker([](FrameSocket&) {});
  const std::uint32_t most = worker.device()->description().max_penalized_tokens;
  CHECK(most == kMaxPenalizedTokens);
  SubmitBatch message;
  message.batch.slices.resize(2);
  for (auto& slice : message.batch.slices) slice.penalized.resize(most / 2);
  CHECK(encode(message).size() < kMaxBodyBytes / 2 + 1000);
}

TEST_CASE("child device: results that come in single bytes are results") {
  FakeWorker worker([](FrameSocket& socket) {
    for (int i = 0; i < 3; ++i) {
      const auto frame = encode(answer_to(next_batch(socket), 7));
      for (const auto& byte : frame) socket.send(std::span(&byte, 1));
    }
  });
  const auto device = worker.device();
  Waiter waiter(*device);
  for (Ticket i = 1; i <= 3; ++i) {
    device->submit(nullptr, a_batch());
    CHECK(waiter.wait_for(i).tokens == std::vector<std::int32_t>{7});
  }
}

TEST_CASE("child device: a worker that reads slowly makes nobody wait in submit") {
  std::atomic<bool> may_read{false};
  constexpr std::size_t kManyTokens = 4 << 20;  // more than any socket takes
  FakeWorker worker([&](FrameSocket& socket) {
    may_read.wait(false);
    answer_all(socket, 3);
  });
  const auto device = worker.device();
  Waiter waiter(*device);
  for (int i = 0; i < 3; ++i) device->submit(nullptr, a_batch(1, kManyTokens));
  CHECK(device->completed() == 0);
  may_read = true;
  may_read.notify_one();
  for (Ticket i = 1; i <= 3; ++i) CHECK(waiter.wait_for(i).error.empty());
}

TEST_CASE("child device: when the worker hangs up, what has no result fails, and all that follows") {
  FakeWorker worker([](FrameSocket& socket) {
    answer_all(socket, 1);
    next_batch(socket);
  });
  const auto device = worker.device();
  Waiter waiter(*device);
  device->submit(nullptr, a_batch());
  CHECK(waiter.wait_for(1).error.empty());
  device->submit(nullptr, a_batch());
  CHECK(waiter.wait_for(2).error == "the worker process closed its connection");
  const Ticket late = device->submit(nullptr, a_batch());
  CHECK(device->completed() == late);
  CHECK(device->collect(late).error == "the worker process closed its connection");
}

TEST_CASE("child device: results that came before the end count") {
  FakeWorker worker([](FrameSocket& socket) { answer_all(socket, 2); });
  const auto device = worker.device();
  Waiter waiter(*device);
  for (int i = 0; i < 3; ++i) device->submit(nullptr, a_batch());
  CHECK(waiter.wait_for(1).error.empty());
  CHECK(waiter.wait_for(2).error.empty());
  CHECK(waiter.wait_for(3).error.find("closed its connection") != std::string::npos);
}

// The server notices the end as it sends: what came is still in the socket.
TEST_CASE("child device: results that came before the end count, although a batch was being sent") {
  constexpr std::size_t kManyTokens = 4 << 20;  // more than any socket takes
  std::atomic<bool> may_answer{false}, has_gone{false}, is_over{false};
  const auto play = [&](FrameSocket& socket) {
    may_answer.wait(false);
    answer_all(socket, 3);
    socket.close();
    has_gone = true;
    has_gone.notify_one();
  };
  FakeWorker worker(play);
  const auto device = worker.device();
  // The io thread does not look again before the worker has gone.
  device->set_listener([&] {
    has_gone.wait(false);
    if (device->completed() < 4) return;
    is_over = true;
    is_over.notify_one();
  });
  for (int i = 0; i < 3; ++i) device->submit(nullptr, a_batch());
  device->submit(nullptr, a_batch(4, kManyTokens));
  may_answer = true;
  may_answer.notify_one();
  is_over.wait(false);
  for (Ticket i = 1; i <= 3; ++i) CHECK(device->collect(i).error.empty());
  CHECK_FALSE(device->collect(4).error.empty());
  device->set_listener({});
}

TEST_CASE("child device: half a result is none") {
  FakeWorker worker([](FrameSocket& socket) {
    const auto frame = encode(answer_to(next_batch(socket), 7));
    socket.send(std::span(frame).first(frame.size() - 1));
  });
  const auto device = worker.device();
  Waiter waiter(*device);
  device->submit(nullptr, a_batch());
  CHECK(waiter.wait_for(1).error.find("closed its connection") != std::string::npos);
}

TEST_CASE("child device: a worker that says what can't be is not listened to any more") {
  const auto is_refused = [](const std::function<void(FrameSocket&, const SubmitBatch&)>& say) {
    FakeWorker worker([&](FrameSocket& socket) {
      say(socket, next_batch(socket));
      socket.receive(kLong);  // until the device lets go of it
    });
    const auto device = worker.device();
    Waiter waiter(*device);
    device->submit(nullptr, a_batch());
    return waiter.wait_for(1).error;
  };
  const auto text = [](const std::string& error) {
    CHECK(error.starts_with("the worker process can't be understood: "));
    return error.substr(error.find(": ") + 2);
  };
  SUBCASE("garbage") {
    const auto error = is_refused([](FrameSocket& socket, const SubmitBatch&) {
      const std::vector<std::byte> garbage(100, std::byte{0x7F});
      socket.send(std::span<const std::byte>(garbage));
    });
    CHECK(text(error) == "what came is no frame");
  }
  SUBCASE("a result of a batch that is not there") {
    const auto error = is_refused([](FrameSocket& socket, const SubmitBatch& submitted) {
      auto answer = answer_to(submitted, 1);
      answer.ticket = 2;
      socket.send(answer);
    });
    CHECK(text(error) == "expected the result of batch 1 of 1, got that of 2");
  }
  SUBCASE("too many tokens") {
    const auto error = is_refused([](FrameSocket& socket, const SubmitBatch& submitted) {
      auto answer = answer_to(submitted, 1);
      answer.result.tokens.resize(5);
      socket.send(answer);
    });
    CHECK(text(error) == "expected a token for each of 1 slices, got 5");
  }
  SUBCASE("vectors of a cell that gives tokens") {
    const auto error = is_refused([](FrameSocket& socket, const SubmitBatch& submitted) {
      auto answer = answer_to(submitted, 1);
      answer.result.vectors.resize(2);
      socket.send(answer);
    });
    CHECK(text(error) == "expected vectors of 0 floats, got 2");
  }
  SUBCASE("something nobody asked for") {
    const auto error =
        is_refused([](FrameSocket& socket, const SubmitBatch&) { socket.send(DeviceEnded{}); });
    CHECK(text(error) == "expected BatchAnswer, got DeviceEnded");
  }
  SUBCASE("that it gives up") {
    const auto error = is_refused(
        [](FrameSocket& socket, const SubmitBatch&) { socket.send(WorkerError{.text = "enough"}); });
    CHECK(error == "the worker process gave up: enough");
  }
}

TEST_CASE("child device: the worker is given back after batches that were done well, and only then") {
  bool was_given_back = false;
  const auto give_back = [&](Worker) { was_given_back = true; };
  SUBCASE("well") {
    FakeWorker worker([](FrameSocket& socket) {
      answer_all(socket, 1);
      decode<EndDevice>(socket.receive(kLong).value());
      socket.send(DeviceEnded{});
    });
    auto device = worker.device(give_back);
    device->submit(nullptr, a_batch());
    Waiter(*device).wait_for(1);
    device.reset();
    CHECK(was_given_back);
  }
  SUBCASE("a batch failed") {
    FakeWorker worker([](FrameSocket& socket) {
      auto answer = answer_to(next_batch(socket), 1);
      answer.result = {.batch_id = 1, .tokens = {}, .error = "no"};
      socket.send(answer);
    });
    auto device = worker.device(give_back);
    device->submit(nullptr, a_batch());
    CHECK(Waiter(*device).wait_for(1).error == "no");
    device.reset();
    CHECK_FALSE(was_given_back);
  }
  SUBCASE("a batch is in flight") {
    FakeWorker worker([](FrameSocket& socket) {
      next_batch(socket);
      socket.receive(kLong);
    });
    auto device = worker.device(give_back);
    device->submit(nullptr, a_batch());
    device.reset();
    CHECK_FALSE(was_given_back);
  }
}

}  // namespace troupe::child
