// SPDX-License-Identifier: Apache-2.0
// The real model on the real device behind the real engine threads, with a
// device that dies in the middle of an answer.
#include "app/model_loading.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

using namespace troupe;

namespace {

// Works like the device inside it until the n-th batch, which it fails.
class DyingDevice final : public Device {
 public:
  DyingDevice(std::unique_ptr<Device> inner, Ticket last) : inner_(std::move(inner)), last_(last) {}

  const DeviceDescription& description() const override { return inner_->description(); }
  Ticket submit(std::shared_ptr<const Program> program, std::shared_ptr<const Batch> batch) override {
    return inner_->submit(std::move(program), std::move(batch));
  }
  Ticket completed() const noexcept override { return inner_->completed(); }
  BatchResult collect(Ticket ticket) override {
    auto result = inner_->collect(ticket);
    if (ticket == last_) result.error = "the test wants this device to die";
    return result;
  }
  void set_listener(std::function<void()> listener) override { inner_->set_listener(std::move(listener)); }
  std::optional<std::chrono::nanoseconds> poll_delay() const override { return inner_->poll_delay(); }

 private:
  std::unique_ptr<Device> inner_;
  Ticket last_;
};

class TextSink final : public ResponseSink {
 public:
  void deliver(ResponseEvent event) override {
    const std::lock_guard lock(mutex_);
    if (const auto* delta = std::get_if<TextDelta>(&event)) text_ += delta->text;
    if (const auto* failed = std::get_if<Failed>(&event)) text_ += "FAILED: " + failed->error.message;
    has_ended_ = has_ended_ || std::holds_alternative<Finished>(event) || std::holds_alternative<Failed>(event);
    if (has_ended_) ended_.notify_all();
  }
  std::size_t pending_bytes() const noexcept override { return 0; }
  std::string wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return has_ended_; });
    return text_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  std::string text_;
};

Options demo_options() {
  Options options;
  options.model_dir = TROUPE_SOURCE_DIR "/models/demo";
  options.memory_bytes = 64 << 20;
  return options;
}

// The first device dies at its `last` batch (0: never), its successors live.
std::string answer_with_death_at(const LoadedModel& model, Ticket last, float temperature) {
  Metrics metrics("demo");
  std::atomic<int> num_devices{0};
  const DeviceFactory factory = [&]() -> std::unique_ptr<Device> {
    return std::make_unique<DyingDevice>(model.make_device(), num_devices++ == 0 ? last : 0);
  };
  Engine engine(model.served, factory, engine_options(demo_options()), metrics);
  GenerationRequest request;
  request.id = "test";
  request.prompt = ChatPrompt{.messages = {{"user", "Count from 5 to 60."}}};
  request.sampling = {.temperature = temperature, .seed = 7};
  request.max_tokens = 300;
  const auto sink = std::make_shared<TextSink>();
  engine.submit(std::move(request), sink);
  auto text = sink->wait();
  CHECK(num_devices == (last == 0 ? 1 : 2));
  return text;
}

}  // namespace

TEST_CASE("worker restart: a device dies in mid-answer and the text goes on as if nothing had happened") {
  const auto model = load_model(demo_options());
  for (const float temperature : {0.0F, 1.5F}) {
    const auto undisturbed = answer_with_death_at(model, 0, temperature);
    REQUIRE(undisturbed.size() > 100);
    for (const Ticket last : {1U, 2U, 7U, 40U}) {
      CAPTURE(last);
      CHECK(answer_with_death_at(model, last, temperature) == undisturbed);
    }
  }
}
