// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "app/commands.hpp"
#include "app/costs/cell_probe.hpp"
#include "app/costs/device_probe.hpp"
#include "app/costs/engine_probe.hpp"
#include "app/costs/page_costs.hpp"
#include "app/costs/profile_json.hpp"
#include "app/costs/served_iterations.hpp"
#include "app/loading/disk_cache.hpp"
#include "app/loading/hardware.hpp"
#include "app/loading/model_loading.hpp"
#include "app/loading/model_set.hpp"
#include "app/state.hpp"
#include "app/trace/trace_file.hpp"
#include "gpu/activations.hpp"
#include "policy/costs/residuals.hpp"
#include "store/read_time.hpp"

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

ProfiledServer profiled_server(const ServingSettings& settings, const DeviceDescription& device) {
  ProfiledServer server{.settings = settings,
                        .limits = {.context_length = device.context_length,
                                   .page_capacity = device.num_pages * device.page_size,
                                   .vocabulary_size = device.vocabulary_size},
                        .page_size = device.page_size,
                        .num_pages = device.num_pages,
                        .num_host_pages = device.num_host_pages,
                        .recompute_cost = {}};
  ServingSettings& in_force = server.settings;
  in_force.max_batch_tokens = std::min(settings.max_batch_tokens, device.max_batch_tokens);
  in_force.max_batch_sequences = std::min(settings.max_batch_sequences, device.num_slots);
  in_force.prefill_chunk = std::min(settings.prefill_chunk, in_force.max_batch_tokens);
  return server;
}

// Sections of which a simulation knows nothing, but that of their flags that are in serving_table(), and
// threads that share cores with the computation.
bool stands_on(const OptionEntry& entry) {
  if (entry.flag.empty()) return false;
  const auto settings = serving_table();
  if (std::any_of(settings.begin(), settings.end(), [&](const auto& s) { return s.flag == entry.flag; }))
    return false;
  constexpr std::array<std::string_view, 5> kSections = {"model.", "device.", "worker.", "cuda.", "cache."};
  return entry.key == "server.io_threads" || entry.key == "server.io_cpus" ||
         entry.key == "supervisor.actor_threads" ||
         std::any_of(kSections.begin(), kSections.end(),
                     [&](std::string_view section) { return entry.key.starts_with(section); });
}

// As the server takes it where it is left open. device: its summary.
std::string measured_text(const Options& options, const OptionEntry& entry, const std::string& device) {
  if (entry.key == "device.kind" && options.device == "auto")
    return device.starts_with("cuda") ? "cuda" : "cpu";
  if (entry.key == "device.activations" && options.activations == "auto")
    return device.find(in_words(Activations::kBelow8Bits)) == std::string::npos ? "exact" : "q8 below 8 bits";
  if (entry.key == "worker.count") return std::to_string(std::max<std::uint64_t>(options.num_workers, 1));
  const std::string text = option_text(options, entry);
  if (entry.key != "model.dir") return text;
  const auto path = std::filesystem::path(text).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

// What measured_text() says of it may be the default by chance.
bool is_open(const Options& options, const OptionEntry& entry) {
  if (entry.key == "device.kind") return options.device == "auto";
  return entry.key != "device.activations" || options.activations == "auto";
}

std::vector<ProfiledFlag> measured_flags(const Options& options, const std::string& device) {
  std::vector<ProfiledFlag> flags;
  for (const OptionEntry& entry : option_table()) {
    if (!stands_on(entry)) continue;
    const std::string text = measured_text(options, entry, device);
    flags.push_back(
        {.name = std::string(entry.flag),
         .value = text,
         .is_default = text == measured_text(Options{}, entry, device) && is_open(options, entry)});
  }
  return flags;
}

// The disk tier that the server would have, and what a page takes to come from it.
void measure_disk(const Options& options, const LoadedModel& model, ProfiledServer& server) {
  const std::uint32_t num_pages = num_disk_pages(options, model);
  const auto directory = num_pages > 0 ? open_state_directory(options) : nullptr;
  if (!directory) return;
  server.disk.per_page = measure_read_time(directory->descriptor(), model.host_pages->page_bytes());
  server.num_disk_pages = num_pages;
}

double median_spread(std::vector<CostSample> samples) {
  std::sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) { return a.spread < b.spread; });
  return samples[samples.size() / 2].spread;
}

void print_summary(const CostProfile& profile, const std::vector<CostSample>& samples) {
  const FitQuality fit = assess_fit(profile.iteration, samples);
  if (profile.residuals.empty())
    std::printf("%zu batches measured; between rounds the middle half differs by %.1f %% (median)\n",
                samples.size(), 100 * median_spread(samples));
  else
    std::printf(
        "%zu served batches of %u to %u tokens; over what is fitted: median %.2f, p90 %.2f, p99 %.2f\n",
        samples.size(), batch_sizes(samples).fewest, batch_sizes(samples).most,
        residual_at(profile.residuals, 0.5), residual_at(profile.residuals, 0.9),
        residual_at(profile.residuals, 0.99));
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

void require_fit(const std::vector<CostSample>& samples) {
  if (const auto problem = samples_problem(samples); !problem.empty())
    throw std::runtime_error("profile: the times can't be fitted, and no file is written: " + problem);
}

void save(const CostProfile& profile, const std::vector<CostSample>& samples, const std::string& path) {
  if (const auto problem = profile_problem(profile); !problem.empty())
    throw std::runtime_error("profile: no file is written, as it could not be read: " + problem);
  write_file(path, profile_json(profile, samples));
}

// Recurrent cells, each for itself; what the engine adds is not measured.
int profile_cells(const LoadedModel& model, const UnfoldingRule& rule, const ProfileCommand& command,
                  CostProfile profile) {
  CellProbe probe(model);
  const auto samples = probe.measure(command.num_rounds, [&](std::uint32_t round) {
    std::fprintf(stderr, "round %u of %u\n", round, command.num_rounds);
  });
  profile.serving = profiled_server(engine_options(model.options).serving, probe.description());
  for (const auto& of_cell : samples) require_fit(of_cell);
  profile.cells = profiled_cells(rule, probe.description(), samples);
  profile.iteration = profile.cells->types.front().cost;
  std::vector<CostSample> all;
  for (std::size_t cell = 0; cell < samples.size(); ++cell) {
    all.insert(all.end(), samples[cell].begin(), samples[cell].end());
    const ProfiledCell& type = profile.cells->types[cell];
    const CostSample& largest = samples[cell].back();
    std::printf("%s: %.1f us alone, %.1f us in a batch of %u; %u are nearly as fast a node as any more\n",
                type.name.c_str(), samples[cell].front().nanoseconds / 1e3, largest.nanoseconds / 1e3,
                largest.shape.num_tokens, type.max_batch);
  }
  save(profile, all, command.out);
  std::printf("written to %s\n", command.out.c_str());
  return 0;
}

}  // namespace

int run_profile(const ProfileCommand& command) {
  const auto model = load_first_model(command.options);
  const auto options = engine_options(model.options);
  if (model.served.unfolding() && !command.live.empty())
    throw std::runtime_error("--live: expected a model with KV pages, got one of recurrent cells");
  CostProfile profile;
  profile.model = model.served.name;
  profile.device = model.device_summary;
  profile.hardware = cpu_name() + ", " + std::to_string(std::thread::hardware_concurrency()) + " CPUs";
  profile.measured = present_time();
  profile.flags = measured_flags(command.options, profile.device);

  if (const auto rule = model.served.unfolding())
    return profile_cells(model, *rule, command, std::move(profile));
  std::vector<CostSample> samples;
  if (!command.live.empty()) samples = served_iterations(read_trace_file(command.live));
  const RestoreCosts costs = page_costs(model.options, model, nullptr);
  {
    DeviceProbe probe(model);
    profile.serving = profiled_server(options.serving, probe.description());
    profile.serving.recompute_cost = costs.recompute;
    profile.serving.load_from_host = costs.host;
    measure_disk(model.options, model, profile.serving);
    if (command.live.empty())
      samples = probe.measure(command.num_rounds, [&](std::uint32_t round) {
        std::fprintf(stderr, "round %u of %u\n", round, command.num_rounds);
      });
  }
  require_fit(samples);
  profile.iteration = fit_iteration_cost(samples);
  if (!command.live.empty()) profile.residuals = split_off_residuals(profile.iteration, samples);
  profile.overheads = measure_engine(model, options, profile.iteration, command.num_rounds);
  save(profile, samples, command.out);
  print_summary(profile, samples);
  std::printf("written to %s\n", command.out.c_str());
  return 0;
}

}  // namespace troupe
