// SPDX-License-Identifier: Apache-2.0
#include "gpu/host/host_backend.hpp"

#include <optional>
#include <utility>

#include "gpu/host/host_device.hpp"
#include "gpu/host/kernels/isa.hpp"

namespace troupe {
namespace {

BackendPlan backend_plan(const HostModelPlan& host) {
  const std::string type(name_of(host.compute_type));
  const std::string threads = std::to_string(host.settings.num_threads) + " threads";
  const std::string isa(name_of(best_isa()));
  return {.memory = host.memory,
          .compute_type = host.compute_type,
          .context_length = host.settings.context_length,
          .device = "host (" + threads + ", " + isa + ")",
          .computation =
              "host, " + type + ", " + isa + (host.settings.deterministic ? "" : ", not deterministic"),
          .summary = "host, " + type + ", " + threads};
}

class HostBackend final : public Backend {
 public:
  explicit HostBackend(const BackendSettings& settings)
      : host_(plan_host_model(settings.model_dir, host_model_settings(settings))),
        plan_(backend_plan(*host_)),
        link_(settings.link) {}

  const BackendPlan& plan() const override { return plan_; }

  std::unique_ptr<Device> make_device(std::shared_ptr<HostPages> host_pages) override {
    if (!model_) model_ = load_host_model(*host_);
    host_.reset();  // the weights are packed, their files are not needed any more
    return std::make_unique<HostDevice>(
        model_, HostDeviceOptions{.host_pages = std::move(host_pages), .link = link_});
  }

 private:
  std::optional<HostModelPlan> host_;
  BackendPlan plan_;
  LinkSettings link_;
  std::shared_ptr<const HostModel> model_;
};

}  // namespace

HostModelSettings host_model_settings(const BackendSettings& settings) {
  HostModelSettings host;
  host.compute_type = settings.compute_type;
  host.deterministic = settings.deterministic;
  host.num_threads = settings.num_threads;
  host.cpus = settings.cpus;
  host.memory_budget_bytes = settings.memory_budget_bytes;
  host.num_slots = settings.num_slots;
  host.max_batch_tokens = settings.max_batch_tokens;
  host.max_pages = settings.max_pages;
  return host;
}

std::unique_ptr<Backend> make_host_backend(const BackendSettings& settings) {
  return std::make_unique<HostBackend>(settings);
}

}  // namespace troupe
