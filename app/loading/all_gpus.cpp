// SPDX-License-Identifier: Apache-2.0
#include "app/loading/all_gpus.hpp"

#include <algorithm>
#include <future>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "app/options/configuration_error.hpp"

namespace troupe {
namespace {

using Backends = std::vector<std::unique_ptr<Backend>>;

std::string gpu_name(std::size_t ordinal) { return "cuda:" + std::to_string(ordinal); }

class AllGpus final : public Backend {
 public:
  explicit AllGpus(Backends backends) : backends_(std::move(backends)), plan_(backends_.front()->plan()) {
    for (const auto& backend : backends_)
      plan_.max_in_flight = std::min(plan_.max_in_flight, backend->plan().max_in_flight);
    if (backends_.size() == 1) return;
    const std::string count = std::to_string(backends_.size()) + " GPUs such as ";
    plan_.device = count + plan_.device;
    plan_.summary = count + plan_.summary;
  }

  const BackendPlan& plan() const override { return plan_; }  // of each

  std::unique_ptr<Device> make_device(std::shared_ptr<HostPages> host_pages, std::uint32_t worker) override {
    return backends_.at(worker)->make_device(std::move(host_pages), worker);
  }

 private:
  Backends backends_;  // by worker
  BackendPlan plan_;
};

void check_num_workers(std::uint64_t asked, std::uint32_t num_gpus) {
  if (asked == 0 || asked == num_gpus) return;
  throw ConfigurationError("--workers: with --device cuda:all it is the number of GPUs, " +
                           std::to_string(num_gpus) + ", or left out; got " + std::to_string(asked));
}

std::unique_ptr<Backend> make_on(std::size_t ordinal, BackendSettings settings,
                                 const MakeGpuBackend& make_backend) {
  settings.ordinal = static_cast<std::uint32_t>(ordinal);
  try {
    return make_backend(settings);
  } catch (const std::exception& error) {
    throw std::runtime_error(gpu_name(ordinal) + ": " + error.what());
  }
}

// Makes the backends that are missing, all at once: a driver takes its time with each.
void make_missing(Backends& backends, const BackendSettings& settings, const MakeGpuBackend& make_backend) {
  std::vector<std::future<void>> made;
  for (std::size_t i = 0; i < backends.size(); ++i)
    if (!backends[i])
      made.push_back(
          std::async(std::launch::async, [&, i] { backends[i] = make_on(i, settings, make_backend); }));
  for (auto& one : made) one.wait();
  for (auto& one : made) one.get();
}

void check_alike(const Backends& backends) {
  const std::string& expected = backends.front()->plan().computation;
  for (std::size_t i = 1; i < backends.size(); ++i)
    if (const std::string& found = backends[i]->plan().computation; found != expected)
      throw std::runtime_error("cuda:all: " + gpu_name(i) + " computes otherwise than " + gpu_name(0) + ": " +
                               found + ", not " + expected);
}

std::uint32_t fewest_pages(const Backends& backends) {
  std::uint32_t fewest = backends.front()->plan().memory.num_pages;
  for (const auto& backend : backends) fewest = std::min(fewest, backend->plan().memory.num_pages);
  return fewest;
}

}  // namespace

std::unique_ptr<Backend> make_backend_of_all_gpus(const BackendSettings& settings, std::uint64_t num_workers,
                                                  const MakeGpuBackend& make_backend) {
  Backends backends;
  backends.push_back(make_on(0, settings, make_backend));
  const std::uint32_t num_gpus = std::max(backends.front()->plan().num_gpus, 1U);
  check_num_workers(num_workers, num_gpus);
  backends.resize(num_gpus);
  make_missing(backends, settings, make_backend);
  check_alike(backends);
  BackendSettings alike = settings;
  alike.max_pages = fewest_pages(backends);
  for (auto& backend : backends)
    if (backend->plan().memory.num_pages > alike.max_pages) backend.reset();
  make_missing(backends, alike, make_backend);
  return std::make_unique<AllGpus>(std::move(backends));
}

}  // namespace troupe
