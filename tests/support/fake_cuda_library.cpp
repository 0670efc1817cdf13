// SPDX-License-Identifier: Apache-2.0
// Stands in for the CUDA backend's library: the no-op device, behind the same
// two symbols, with what can go wrong with a GPU. The environment variable
// FAKE_CUDA says what does:
//   no_device       there is no GPU
//   no_memory       the model does not fit
//   crash           the process dies while it plans
//   abort_at N      ... when a batch with the token N in it comes
//   kill_at N       ... when such a batch is done, and nobody has been told
//   error_at N      a batch with the token N in it fails
//   hang_at N       ... never ends, and neither does one behind it
// With "host" in front it is the host backend's device, which answers by meaning.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "gpu/backend.hpp"
#include "gpu/backend_fingerprint.hpp"
#include "gpu/model_config.hpp"
#include "gpu/noop/noop_device.hpp"

namespace troupe {
namespace {

constexpr std::uint32_t kPageSize = 32;
constexpr std::int32_t kAnswer = 40;  // the token that it always says
constexpr std::chrono::milliseconds kBatchTime{1};

struct Trouble {
  std::string kind;
  std::int32_t token = -1;
  bool is_on_host = false;
};

Trouble trouble_asked_for() {
  const char* text = std::getenv("FAKE_CUDA");
  std::istringstream stream(text != nullptr ? text : "");
  Trouble trouble;
  stream >> trouble.kind;
  trouble.is_on_host = trouble.kind == "host";
  if (trouble.is_on_host) stream >> trouble.kind;
  stream >> trouble.token;
  return trouble;
}

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}

  const DeviceDescription& description() const override { return inner_->description(); }
  Ticket submit(std::shared_ptr<const Program> program, std::shared_ptr<const Batch> batch) override {
    const auto& tokens = batch->token_ids;
    const bool is_hit = std::find(tokens.begin(), tokens.end(), trouble_.token) != tokens.end();
    if (is_hit && trouble_.kind == "abort_at") std::abort();
    const Ticket ticket = inner_->submit(std::move(program), std::move(batch));
    if (is_hit && hit_ == 0) hit_ = ticket;
    return ticket;
  }
  Ticket completed() const noexcept override {
    const Ticket completed = inner_->completed();
    return trouble_.kind == "hang_at" && hit_ > 0 ? std::min(completed, hit_ - 1) : completed;
  }
  BatchResult collect(Ticket ticket) override {
    if (trouble_.kind == "kill_at" && ticket == hit_) ::raise(SIGKILL);
    auto result = inner_->collect(ticket);
    if (trouble_.kind == "error_at" && ticket == hit_) result.error = "illegal address (fake)";
    return result;
  }
  void set_listener(std::function<void()> listener) override { inner_->set_listener(std::move(listener)); }
  std::optional<std::chrono::nanoseconds> poll_delay() const override { return inner_->poll_delay(); }

 private:
  std::unique_ptr<Device> inner_;
  Trouble trouble_ = trouble_asked_for();
  Ticket hit_ = 0;  // the first with the token; 0: none yet
};

class FakeBackend final : public Backend {
 public:
  explicit FakeBackend(const BackendSettings& settings) {
    const ModelConfig config = load_model_config(settings.model_dir);
    const Trouble trouble = trouble_asked_for();
    if (trouble.kind == "no_device") throw std::runtime_error("no CUDA device (fake)");
    if (trouble.kind == "crash") std::abort();
    if (trouble.is_on_host) {
      host_ = make_host_backend(settings);
      return;
    }
    const std::uint64_t budget = trouble.kind == "no_memory" ? 1 << 20 : 1ULL << 30;
    plan_.memory = plan_memory({.weight_bytes = 1 << 20,
                                .page_bytes = 1 << 14,
                                .page_size = kPageSize,
                                .num_slots = settings.num_slots,
                                .context_length = config.context_length,
                                .max_pages = settings.max_pages,
                                .budget_bytes = budget});
    plan_.context_length = config.context_length;
    plan_.device = "fake GPU " + std::to_string(settings.ordinal);
    plan_.computation = "fake";
    plan_.summary = "fake GPU";
    device_.description = {.name = plan_.device,
                           .page_size = kPageSize,
                           .num_pages = plan_.memory.num_pages,
                           .num_slots = settings.num_slots,
                           .max_batch_tokens = settings.max_batch_tokens,
                           .context_length = config.context_length,
                           .vocabulary_size = config.vocabulary_size};
    device_.first_token = kAnswer;
    device_.num_tokens = 1;
    device_.iteration_time = kBatchTime;
  }

  const BackendPlan& plan() const override { return host_ ? host_->plan() : plan_; }
  std::unique_ptr<Device> make_device(std::shared_ptr<HostPages> host_pages) override {
    if (host_) return std::make_unique<FakeDevice>(host_->make_device(std::move(host_pages)));
    return std::make_unique<FakeDevice>(std::make_unique<NoopDevice>(device_));
  }

 private:
  std::unique_ptr<Backend> host_;
  BackendPlan plan_;  // without it
  NoopDeviceSettings device_;
};

}  // namespace
}  // namespace troupe

extern "C" std::uint64_t troupe_backend_fingerprint() { return troupe::kBackendFingerprint; }

extern "C" std::unique_ptr<troupe::Backend> troupe_make_cuda_backend(
    const troupe::BackendSettings& settings) {
  return std::make_unique<troupe::FakeBackend>(settings);
}
