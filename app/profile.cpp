// SPDX-License-Identifier: Apache-2.0
#include "app/profile.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "app/device_probe.hpp"
#include "app/engine_probe.hpp"
#include "app/hardware.hpp"
#include "app/model_loading.hpp"
#include "app/profile_json.hpp"

namespace troupe {
namespace {

std::string present_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

ServingSettings serving_settings(const EngineOptions& options, const DeviceDescription& device) {
  ServingSettings serving;
  serving.limits = {.context_length = device.context_length,
                    .page_capacity = device.num_pages * device.page_size,
                    .vocabulary_size = device.vocabulary_size};
  serving.batch.max_tokens = std::min(options.max_batch_tokens, device.max_batch_tokens);
  serving.batch.max_sequences = std::min(options.max_batch_sequences, device.num_slots);
  serving.batch.prefill_chunk = std::min(options.prefill_chunk, serving.batch.max_tokens);
  serving.batch.separates_prefill = options.separates_prefill;
  serving.pages = {.page_size = device.page_size,
                   .look_ahead_pages = options.look_ahead_pages,
                   .kept_free = static_cast<std::uint32_t>(options.cache.keep_free * device.num_pages)};
  serving.num_pages = device.num_pages;
  serving.max_in_flight = options.max_in_flight;
  serving.max_waiting = options.max_waiting;
  serving.max_queue_time = options.max_queue_time;
  serving.prefix_cache = options.cache.keeps_prefixes;
  serving.cache_policy = options.cache.policy;
  serving.copy_ahead_below = options.cache.copy_ahead_below;
  serving.num_host_pages = device.num_host_pages;
  return serving;
}

double median_spread(std::vector<CostSample> samples) {
  std::sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) { return a.spread < b.spread; });
  return samples[samples.size() / 2].spread;
}

void print_summary(const CostProfile& profile, const std::vector<CostSample>& samples) {
  const FitQuality fit = assess_fit(profile.iteration, samples);
  std::printf("%zu batches measured; between rounds the middle half differs by %.1f %% (median)\n",
              samples.size(), 100 * median_spread(samples));
  std::printf("the fit is off by %.1f %% on average, %.1f %% at p90, %.1f %% at worst\n",
              100 * fit.mean_error, 100 * fit.p90_error, 100 * fit.worst_error);
  const ServingOverheads& overheads = profile.overheads;
  std::printf(
      "the engine adds %.1f us and %.2f us a sequence to a batch, %.1f us between batches "
      "one at a time, %.1f us to a request\n",
      overheads.iteration / 1e3, overheads.iteration_per_sequence / 1e3, overheads.turnaround / 1e3,
      overheads.request / 1e3);
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw std::runtime_error(path + ": cannot be written");
}

}  // namespace

int run_profile(const ProfileCommand& command) {
  const auto model = load_model(command.options);
  const auto options = engine_options(model.options);
  CostProfile profile;
  profile.model = model.served.name;
  profile.device = model.device_summary;
  profile.hardware = cpu_name() + ", " + std::to_string(std::thread::hardware_concurrency()) + " CPUs";
  profile.measured = present_time();

  std::vector<CostSample> samples;
  {
    DeviceProbe probe(model);
    profile.serving = serving_settings(options, probe.description());
    profile.serving.recompute_cost = model.served.recompute_cost;
    samples = probe.measure(command.num_rounds, [&](std::uint32_t round) {
      std::fprintf(stderr, "round %u of %u\n", round, command.num_rounds);
    });
  }
  profile.iteration = fit_iteration_cost(samples);
  profile.overheads = measure_engine(model, options, profile.iteration, command.num_rounds);
  if (const auto problem = profile_problem(profile); !problem.empty())
    throw std::runtime_error("profile: " + problem);
  write_file(command.out, profile_json(profile, samples));
  print_summary(profile, samples);
  std::printf("written to %s\n", command.out.c_str());
  return 0;
}

}  // namespace troupe
