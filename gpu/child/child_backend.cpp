// SPDX-License-Identifier: Apache-2.0
#include "gpu/child/child_backend.hpp"

#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "gpu/child/child_device.hpp"
#include "gpu/child/worker.hpp"

namespace troupe::child {
namespace {

// Reads headers and finds the device; drivers take their time with many GPUs.
constexpr std::chrono::minutes kPlanTime{5};
// Loads weights, from a disk however slow.
constexpr std::chrono::hours kLoadTime{1};

// Workers without a device, between two of them.
struct IdleWorkers {
  std::mutex mutex;
  std::vector<Worker> workers;
};

class ChildBackend final : public Backend {
 public:
  ChildBackend(const BackendSettings& settings, const ChildBackendSettings& child)
      : settings_(settings), child_(child) {
    idle_->workers.emplace_back(child_.command);
    plan_ = plan_in(idle_->workers.back());
    // Whoever comes later divides the memory in the same way, also if less of
    // it is free then.
    settings_.memory_budget_bytes = plan_.memory.request.budget_bytes;
    settings_.max_pages = plan_.memory.num_pages;
    shown_plan_ = plan_;
    shown_plan_.summary += ", child process";
  }

  const BackendPlan& plan() const override { return shown_plan_; }

  std::unique_ptr<Device> make_device(std::shared_ptr<HostPages> host_pages, std::uint32_t) override {
    if (host_pages && host_pages->descriptor() < 0)
      throw std::logic_error("a worker process needs host pages that are shared");
    Worker worker = next_worker();
    MakeDevice message;
    if (host_pages)
      message = {.num_host_pages = host_pages->num_pages(), .host_page_bytes = host_pages->page_bytes()};
    auto description =
        worker.ask<DeviceDescription>(message, kLoadTime, host_pages ? host_pages->descriptor() : -1);
    return std::make_unique<ChildDevice>(std::move(worker), std::move(description), std::move(host_pages),
                                         [idle = idle_](Worker unused) {
                                           const std::lock_guard lock(idle->mutex);
                                           idle->workers.push_back(std::move(unused));
                                         });
  }

 private:
  BackendPlan plan_in(Worker& worker) const {
    return worker.ask<BackendPlan>(
        StartBackend{.kind = child_.kind, .library = child_.library, .settings = settings_}, kPlanTime);
  }

  Worker next_worker() {
    if (auto idle = take_idle(); idle && idle->is_idle()) return std::move(*idle);
    Worker worker(child_.command);
    const BackendPlan plan = plan_in(worker);
    // What is in the host pages, and the scheduler's view, depend on these.
    if (plan.computation != plan_.computation ||
        plan.memory.request.page_bytes != plan_.memory.request.page_bytes)
      throw std::runtime_error("the new worker process computes otherwise than the one before: " +
                               plan.computation + ", not " + plan_.computation);
    return worker;
  }

  std::optional<Worker> take_idle() {
    const std::lock_guard lock(idle_->mutex);
    std::optional<Worker> idle;
    if (idle_->workers.empty()) return idle;
    idle.emplace(std::move(idle_->workers.back()));
    idle_->workers.pop_back();
    return idle;
  }

  BackendSettings settings_;
  ChildBackendSettings child_;
  BackendPlan plan_;
  BackendPlan shown_plan_;
  std::shared_ptr<IdleWorkers> idle_ = std::make_shared<IdleWorkers>();
};

}  // namespace

std::unique_ptr<Backend> make_child_backend(const BackendSettings& settings,
                                            const ChildBackendSettings& child) {
  return std::make_unique<ChildBackend>(settings, child);
}

}  // namespace troupe::child
