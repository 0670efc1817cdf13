// SPDX-License-Identifier: Apache-2.0
#include "app/costs/page_costs.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>

#include "app/costs/page_cost_file.hpp"
#include "app/costs/page_cost_probe.hpp"
#include "app/loading/hardware.hpp"
#include "gpu/pages/kv_layout.hpp"
#include "policy/costs/page_timing.hpp"
#include "store/read_time.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

// Most of it goes into measuring more than once.
constexpr std::chrono::milliseconds kTimeLimit{100};

bool uses_disk(const Options& options, const LoadedModel& model) {
  return model.host_pages && options.cache_disk_space > 0;
}

// The weights themselves do not matter, their shapes do.
std::string key_of(const Options& options, const LoadedModel& model) {
  const ModelConfig& config = model.config;
  std::string key = std::string(TROUPE_VERSION) + "; " + cpu_name() + "; " + model.device_summary + "; " +
                    model.computation + "; " + config.architecture;
  for (const std::uint64_t number :
       {std::uint64_t{config.hidden_size}, std::uint64_t{config.intermediate_size},
        std::uint64_t{config.num_layers}, std::uint64_t{config.num_heads}, std::uint64_t{config.num_kv_heads},
        std::uint64_t{config.head_dim}, std::uint64_t{model.context_length},
        std::uint64_t{model.options.serving.max_batch_tokens}, std::uint64_t{model.host_pages ? 1U : 0U},
        std::uint64_t{uses_disk(options, model) ? 1U : 0U}, options.cache_link_bandwidth,
        options.cache_link_latency_us, std::uint64_t{options.pin_threads ? 1U : 0U}})
    key += " " + std::to_string(number);
  return key;
}

double microseconds(double nanoseconds) { return nanoseconds / 1000; }

void log_costs(const char* what, const RestoreCosts& costs, std::uint32_t deepest, double seconds) {
  log(LogLevel::kInfo, what,
      {{"first_page_us", microseconds(costs.recompute.of_page(0))},
       {"last_page_us", microseconds(costs.recompute.of_page(deepest))},
       {"pages_in_front", deepest},
       {"load_from_host_us", microseconds(costs.host.per_page)},
       {"load_from_disk_us", microseconds(costs.disk.per_page)},
       {"seconds", seconds}});
}

// A cost that hardly differs from page to page would only blur their order by
// time.
RestoreCosts for_use(RestoreCosts costs, std::uint32_t deepest) {
  if (dearest_over_cheapest(costs.recompute, deepest) >= kFlatBelow) return costs;
  log(LogLevel::kInfo, "all KV pages cost about the same to compute: the longest unused go first");
  costs.recompute = flattened(costs.recompute, deepest);
  return costs;
}

// nullopt: there are none, or not for this key.
std::optional<RestoreCosts> kept_costs(const StateDirectory& directory, const std::string& key) {
  try {
    return read_page_costs(directory.descriptor(), key);
  } catch (const std::runtime_error& error) {
    log(LogLevel::kInfo, "costs of KV pages are measured anew",
        {{"file", directory.path().string() + "/" + kPageCostFile}, {"reason", error.what()}});
    return std::nullopt;
  }
}

// A page from the disk goes through the host.
LoadCost disk_cost(const StateDirectory& directory, std::uint64_t page_bytes, const LoadCost& host) {
  try {
    const double read = measure_read_time(directory.descriptor(), page_bytes);
    return {.fixed = host.fixed, .per_page = read + host.per_page};
  } catch (const std::runtime_error& error) {
    log(LogLevel::kWarning, "the disk's speed can't be measured, KV is loaded from it whatever it takes",
        {{"reason", error.what()}});
    return {};
  }
}

void keep(const StateDirectory& directory, const std::string& key, const RestoreCosts& costs,
          bool is_steady) {
  if (!is_steady) {
    log(LogLevel::kInfo, "the machine was busy: costs of KV pages are measured again at the next start");
    return;
  }
  try {
    write_page_costs(directory.descriptor(), key, costs);
  } catch (const std::runtime_error& error) {
    log(LogLevel::kWarning, "costs of KV pages can't be kept for the next start", {{"reason", error.what()}});
  }
}

}  // namespace

RestoreCosts page_costs(const Options& options, const LoadedModel& model, const StateDirectory* directory) {
  RestoreCosts estimated{.recompute = model.served.recompute_cost, .host = {}, .disk = {}};
  if (!options.serving.keeps_prefixes() || !options.cache_measure || !model.served.network) return estimated;
  const auto deepest =
      static_cast<std::uint32_t>(std::max<std::size_t>(model.context_length / kKvPageTokens, 1) - 1);
  const std::string key = key_of(options, model);
  const auto begin = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  if (const auto known = directory ? kept_costs(*directory, key) : std::nullopt) {
    log_costs("costs of KV pages, as measured before", *known, deepest, seconds());
    return for_use(*known, deepest);
  }
  try {
    auto [costs, is_steady] = measure_page_costs(model, kTimeLimit);
    if (directory && uses_disk(options, model))
      costs.disk = disk_cost(*directory, model.host_pages->page_bytes(), costs.host);
    log_costs("costs of KV pages measured", costs, deepest, seconds());
    if (directory) keep(*directory, key, costs, is_steady);
    return for_use(costs, deepest);
  } catch (const std::exception& error) {
    log(LogLevel::kWarning, "costs of KV pages can't be measured, the network's shape has to do",
        {{"reason", error.what()}});
    return estimated;
  }
}

}  // namespace troupe
