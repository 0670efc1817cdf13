// SPDX-License-Identifier: Apache-2.0
#include "loadgen/simulator/simulation_plan.hpp"

#include <memory>
#include <optional>
#include <utility>

#include "loadgen/result/result_file.hpp"
#include "loadgen/result/run_replay.hpp"
#include "loadgen/result/summary.hpp"
#include "loadgen/seconds.hpp"
#include "loadgen/workload/distribution.hpp"
#include "loadgen/workload/toml/setting_check.hpp"

namespace troupe::loadgen {
namespace {

// What is simulated, planned or replayed.
struct Traffic {
  std::unique_ptr<ConversationSource> source;
  std::vector<RequestClass> classes;
  std::string name;
  double rate = 0;
  std::uint32_t num_users = 0;
  std::chrono::nanoseconds duration{0};
  std::optional<MeasuredWindow> window;  // of a replayed run
};

Traffic replayed_traffic(const std::filesystem::path& directory) {
  const RunResult run = read_result(directory);
  return {.source = std::make_unique<ConversationList>(conversations_of(run)),
          .classes = run.classes,
          .name = "replay of " + run.name,
          .rate = run.offered_rate,
          .window = measured_window(run)};
}

Traffic planned_traffic(const WorkloadSettings& workload, std::uint64_t seed) {
  const bool is_closed = workload.arrivals.kind == ArrivalSettings::Kind::kClosed;
  return {.source = make_source(workload, seed),
          .classes = request_classes(workload),
          .name = workload.name,
          .rate = mean_rate(workload.arrivals),
          .num_users = is_closed ? workload.arrivals.users : 0,
          .duration = seconds_to_nanoseconds(workload.duration_s),
          .window = std::nullopt};
}

std::string default_name(const Traffic& traffic, const SimulationPlan& plan) {
  std::string name = traffic.name;
  if (traffic.num_users > 0) {
    name += "-" + std::to_string(traffic.num_users) + "users";
  } else if (traffic.rate > 0) {
    name += "-" + number_text(traffic.rate) + "rps";
  }
  return name + "-seed" + std::to_string(plan.seed) + "-simulated";
}

// "2 of llama on h100, 1 of llama on h200".
std::string kinds_text(const SimulationPlan& plan) {
  std::string text;
  for (const WorkerKind& kind : plan.kinds)
    text += (text.empty() ? "" : ", ") + std::to_string(kind.count) + " of " + kind.profile.model + " on " +
            kind.profile.device;
  return text;
}

void note_settings(RunResult& result, const SimulationPlan& plan, const Traffic& traffic) {
  const std::string workers =
      plan.num_workers() == 1 ? "1 worker" : std::to_string(plan.num_workers()) + " workers";
  const CostProfile& first = plan.kinds.front().profile;
  result.settings = {{std::string(kServerSetting), "simulated, " + workers},
                     {"dispatch", std::string(plan.dispatch ? name_of(*plan.dispatch) : kAffinity)},
                     {"model", first.model},
                     {"device", first.device},
                     {"hardware", first.hardware},
                     {"profile", plan.profile_file + ", measured " + first.measured},
                     {"workload", traffic.name}};
  if (plan.kinds.size() > 1) result.settings.emplace_back("kinds of workers", kinds_text(plan));
  if (plan.losses.mean_time.count() > 0)
    result.settings.emplace_back(
        "losses of a worker", "one in " + number_text(in_seconds(plan.losses.mean_time)) + " s, back after " +
                                  number_text(in_seconds(plan.losses.restart_time)) + " s");
  if (plan.state_strength)
    result.settings.emplace_back("strength of states", number_text(*plan.state_strength));
  if (plan.encoder_strength)
    result.settings.emplace_back("strength of vectors", number_text(*plan.encoder_strength));
  if (traffic.num_users > 0)
    result.settings.emplace_back(std::string(kUsersSetting), std::to_string(traffic.num_users));
  result.settings.emplace_back(std::string(kSeedSetting), std::to_string(plan.seed));
  result.settings.emplace_back("troupe-loadgen", TROUPE_VERSION);
}

}  // namespace

std::uint32_t SimulationPlan::num_workers() const {
  std::uint32_t count = 0;
  for (const WorkerKind& kind : kinds) count += kind.count;
  return count;
}

Simulation run_simulation(const SimulationPlan& plan) {
  const Traffic traffic =
      plan.replayed.empty() ? planned_traffic(plan.workload, plan.seed) : replayed_traffic(plan.replayed);
  SimulationSettings settings;
  settings.dispatch = plan.dispatch;
  settings.losses = plan.losses;
  settings.seed = plan.seed;
  settings.num_users = traffic.num_users;
  settings.duration = traffic.duration;
  settings.records_gaps = plan.records_gaps;
  settings.state_strength = plan.state_strength;
  settings.encoder_strength = plan.encoder_strength;
  if (!plan.samples) settings.sample_interval = {};
  Simulation simulation = simulate(plan.kinds, *traffic.source, traffic.classes, settings);

  RunResult& result = simulation.result;
  result.name = plan.name.empty() ? default_name(traffic, plan) : plan.name;
  result.offered_rate = traffic.rate;
  note_settings(result, plan, traffic);
  for (auto& warning : traffic.source->warnings()) result.warnings.push_back(std::move(warning));
  if (traffic.window) {
    result.measured_from = traffic.window->from;
    result.measured_until = traffic.window->until;
    return simulation;
  }
  const bool lasts_as_long_as_told = traffic.duration.count() > 0 && plan.workload.max_conversations == 0;
  result.measured_from = seconds_to_nanoseconds(plan.warmup_s);
  result.measured_until =
      (lasts_as_long_as_told ? traffic.duration : result.duration) - seconds_to_nanoseconds(plan.cooldown_s);
  return simulation;
}

}  // namespace troupe::loadgen
