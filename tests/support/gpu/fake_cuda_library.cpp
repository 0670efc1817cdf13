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
//   less_memory     GPU 1 has less memory than the others
//   other_kind      GPU 1 is of another kind
// With "host" in front it is the CPU backend's device, which answers by meaning.
// There are as many GPUs as FAKE_GPUS says, else four.
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
#include "gpu/model/model_config.hpp"
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

std::uint32_t num_gpus() {
  const char* text = std::getenv("FAKE_GPUS");
  return text != nullptr ? static_cast<std::uint32_t>(std::atoi(text)) : 4;
}

std::string gpu_name(const BackendSettings& settings) {
  return "fake GPU " + std::to_string(settings.ordinal);
}

class FakeDevice final : public Device {
 public:
  FakeDevice(std::unique_ptr<Device> inner, std::string name)
      : inner_(std::move(inner)), description_(inner_->description()) {
    description_.name = std::move(name);
  }

  const DeviceDescription& description() const override { return description_; }
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
  DeviceDescription description_;
  Trouble trouble_ = trouble_asked_for();
  Ticket hit_ = 0;  // the first with the token; 0: none yet
};

class FakeBackend final : public Backend {
 public:
  explicit FakeBackend(const BackendSettings& settings) : name_(gpu_name(settings)) {
    const ModelConfig config = load_model_config(settings.model_dir);
    const Trouble trouble = trouble_asked_for();
    if (trouble.kind == "no_device") throw std::runtime_error("no CUDA device (fake)");
    if (trouble.kind == "crash") std::abort();
    if (settings.ordinal >= num_gpus()) throw std::runtime_error("no " + name_);
    if (trouble.is_on_host) {
      host_ = make_cpu_backend(settings);
      plan_ = host_->plan();
      plan_.num_gpus = num_gpus();
      plan_.device = name_;
      return;
    }
    const bool is_second = settings.ordinal == 1;
    const bool has_less = trouble.kind == "less_memory" && is_second;
    const std::uint64_t budget = trouble.kind == "no_memory" ? 1 << 20 : has_less ? 1ULL << 27 : 1ULL << 30;
    plan_.memory = plan_memory({.weight_bytes = 1 << 20,
                                .page_bytes = 1 << 14,
                                .page_size = kPageSize,
                                .num_slots = settings.num_slots,
                                .context_length = config.context_length,
                                .max_pages = settings.max_pages,
                                .budget_bytes = budget});
    plan_.context_length = config.context_length;
    plan_.num_gpus = num_gpus();
    plan_.device = name_;
    plan_.computation = trouble.kind == "other_kind" && is_second ? "other" : "fake";
    plan_.summary = "fake GPU";
    device_.description = {.name = name_,
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

  const BackendPlan& plan() const override { return plan_; }
  std::unique_ptr<Device> make_device(std::shared_ptr<HostPages> host_pages, std::uint32_t) override {
    if (host_) return std::make_unique<FakeDevice>(host_->make_device(std::move(host_pages)), name_);
    return std::make_unique<FakeDevice>(std::make_unique<NoopDevice>(device_), name_);
  }

 private:
  std::string name_;
  std::unique_ptr<Backend> host_;
  BackendPlan plan_;
  NoopDeviceSettings device_;
};

}  // namespace
}  // namespace troupe

extern "C" std::uint64_t troupe_backend_fingerprint() { return troupe::kBackendFingerprint; }

extern "C" std::unique_ptr<troupe::Backend> troupe_make_cuda_backend(
    const troupe::BackendSettings& settings) {
  return std::make_unique<troupe::FakeBackend>(settings);
}
