// SPDX-License-Identifier: Apache-2.0
#include "loadgen/experiment/sweep.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include "loadgen/client/http/http_exchange.hpp"
#include "loadgen/client/live_run.hpp"
#include "loadgen/client/live_status.hpp"
#include "loadgen/client/server/server_process.hpp"
#include "loadgen/experiment/serving_flags.hpp"
#include "loadgen/report/html_text.hpp"
#include "loadgen/result/atomic_file.hpp"
#include "loadgen/result/result_file.hpp"
#include "loadgen/result/summary_csv.hpp"
#include "loadgen/seconds.hpp"
#include "loadgen/simulator/cost_profile_file.hpp"
#include "loadgen/simulator/simulation_plan.hpp"
#include "loadgen/workload/random_source.hpp"
#include "telemetry/nearest_name.hpp"

namespace troupe::loadgen {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExperimentFile = "experiment.toml";
constexpr const char* kFailureFile = "failure.txt";
constexpr std::chrono::seconds kStopGrace{10};

std::string contents_of(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error(path.string() + ": cannot be read");
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Overwrites the setting of that name, or adds it.
void note(RunResult& result, std::string_view name, const std::string& value) {
  const auto found = std::find_if(result.settings.begin(), result.settings.end(),
                                  [&](const auto& setting) { return setting.first == name; });
  if (found != result.settings.end())
    found->second = value;
  else
    result.settings.emplace_back(name, value);
}

std::string command_text(const ServerConfiguration& server) {
  std::string text;
  for (const auto& word : server.argv) text += (text.empty() ? "" : " ") + word;
  return text;
}

// No run before had it, of this sweep or another.
std::uint64_t unseen_seed(std::uint64_t seed) {
  return mixed(seed, static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()));
}

void reset_caches(const ClientSettings& client, const std::string& path) {
  const auto reply = http_exchange(client.server, {.path = path, .api_key = client.api_key, .json = "{}"});
  if (reply.status >= 300)
    throw std::runtime_error("POST " + client.server.url() + path +
                             ": expected its caches reset, got status " + std::to_string(reply.status));
}

// Peers are not simulated.
bool is_ours(const ServerConfiguration& server) {
  return !server.argv.empty() && server.argv.front() == "{troupe}";
}

class Sweep {
 public:
  Sweep(const Experiment& experiment, const SweepSettings& settings, std::FILE* progress)
      : experiment_(experiment), settings_(settings), progress_(progress), cells_(cells_of(experiment)) {}

  SweepOutcome run() {
    check_only();
    if (settings_.only_simulates && settings_.profile.empty())
      throw std::runtime_error("--only-simulate: expected --profile beside it");
    if (!settings_.profile.empty()) {
      profile_ = read_cost_profile(settings_.profile);
      check_simulation();
    }
    prepare_output();
    for (std::size_t i = 0; i < cells_.size() && !outcome_.was_interrupted; ++i) {
      if (!is_wanted(cells_[i])) continue;
      if (!settings_.only_simulates) run_or_skip(cells_[i]);
      if (profile_ && is_ours(server_of(cells_[i])) && !outcome_.was_interrupted) simulate_or_skip(cells_[i]);
    }
    finish();
    return std::move(outcome_);
  }

 private:
  const ServerConfiguration& server_of(const Cell& cell) const { return experiment_.servers[cell.server]; }
  static std::string simulated_directory(const Cell& cell) { return cell.directory + "-simulated"; }
  fs::path directory_of(const Cell& cell) const { return settings_.out / "cells" / cell.directory; }
  const char* load_unit(const Cell& cell) const {
    if (!experiment_.is_by_users) return "/s";
    return cell.load == 1 ? " user" : " users";
  }
  bool is_wanted(const Cell& cell) const {
    return settings_.only.empty() || server_of(cell).name == settings_.only;
  }

  void check_only() const {
    std::vector<std::string> names;
    for (const auto& server : experiment_.servers) names.push_back(server.name);
    if (settings_.only.empty() || std::find(names.begin(), names.end(), settings_.only) != names.end())
      return;
    const auto nearest = nearest_name(settings_.only, names);
    throw std::runtime_error("no server is called '" + settings_.only + "'" +
                             (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
  }

  // Before the first run: what is found later has cost hours.
  void check_simulation() const {
    const std::string& endpoint = experiment_.options.endpoint;
    const bool is_of_trees = profile_->cells && profile_->cells->graphs == GraphKind::kTree;
    if (endpoint == "embeddings" || (endpoint == "classify" && !is_of_trees))
      throw std::runtime_error(
          "run.endpoint: expected chat, completions or responses beside --profile, got '" + endpoint +
          "', which no simulation plays");
    for (const auto& server : experiment_.servers) {
      if (!is_ours(server)) continue;
      try {
        refuse_unsimulated_flags(server.argv, *profile_, settings_.only_simulates);
      } catch (const std::runtime_error& error) {
        throw std::runtime_error("server '" + server.name + "': " + error.what());
      }
    }
  }

  // A directory belongs to one experiment: mixed results would pass as one.
  void prepare_output() const {
    const auto copy = settings_.out / kExperimentFile;
    const auto text = contents_of(settings_.file);
    if (fs::exists(copy)) {
      if (!settings_.resumes)
        throw std::runtime_error(
            settings_.out.string() +
            ": holds a sweep already; --resume goes on with it, --out names another place");
      if (contents_of(copy) != text)
        throw std::runtime_error(settings_.out.string() + ": holds a sweep of another " + kExperimentFile +
                                 " than " + settings_.file.string());
    }
    write_file_atomically(copy, text);
  }

  void print_cell(const Cell& cell) const {
    std::fprintf(progress_, "[%zu/%zu] %s, %s%s, seed %llu\n",
                 static_cast<std::size_t>(&cell - cells_.data()) + 1, cells_.size(),
                 server_of(cell).name.c_str(), rounded_text(cell.load).c_str(), load_unit(cell),
                 static_cast<unsigned long long>(cell.seed));
  }

  void run_or_skip(const Cell& cell) {
    if (skip(cell.directory)) return;
    print_cell(cell);
    try {
      run_cell(cell);
    } catch (const std::exception& error) {
      std::fprintf(progress_, "  failed: %s\n", error.what());
      write_file_atomically(directory_of(cell) / kFailureFile, std::string(error.what()) + "\n");
      outcome_.failures.push_back(cell.directory + ": " + error.what());
    }
    write_csv();
  }

  // Whether that run is there from an earlier time.
  bool skip(const std::string& directory) {
    const auto path = settings_.out / "cells" / directory;
    if (!settings_.resumes || !holds_result(path)) return false;
    const auto result = read_result(path);
    csv_lines_[directory] = summary_csv_line(result, summarize(result));
    ++outcome_.num_skipped;
    return true;
  }

  void simulate_or_skip(const Cell& cell) {
    const auto directory = simulated_directory(cell);
    if (skip(directory)) return;
    SimulationPlan plan;
    plan.kinds = {{.profile = *profile_, .count = workers_of(server_of(cell).argv)}};
    if (plan.kinds.front().count > 1) plan.dispatch = std::nullopt;
    apply_serving_flags(server_of(cell).argv, plan.kinds.front().profile.serving.settings);
    leave_out_unused_disk(server_of(cell).argv, plan.kinds.front().profile.serving);
    plan.profile_file = settings_.profile.string();
    plan.workload = workload_of(experiment_, cell);
    plan.seed = cell.seed;
    plan.warmup_s = experiment_.options.warmup_s;
    plan.cooldown_s = experiment_.options.cooldown_s;
    plan.name = directory.substr(directory.find('-') + 1);
    if (settings_.only_simulates) print_cell(cell);
    try {
      auto result = run_simulation(plan).result;
      label(result, cell);
      const auto summary = summarize(result);
      write_result(settings_.out / "cells" / directory, result, summary);
      csv_lines_[directory] = summary_csv_line(result, summary);
      ++outcome_.num_run;
      print_figures("simulated: ", summary.total);
    } catch (const std::exception& error) {
      std::fprintf(progress_, "  the simulation failed: %s\n", error.what());
      outcome_.failures.push_back(directory + ": " + error.what());
    }
    write_csv();
  }

  void run_cell(const Cell& cell) {
    auto options = experiment_.options;
    options.seed = cell.seed;
    options.name = cell.directory.substr(cell.directory.find('-') + 1);
    options.url = server_of(cell).url;
    options.tells_lengths = options.tells_lengths || server_of(cell).tells_lengths;
    std::optional<ServerProcess> process;
    if (!server_of(cell).argv.empty()) options.url = start(cell, process);
    // A server that stays has seen the words of every run before.
    if (!options.url.empty() && !process) options.prompt_seed = unseen_seed(cell.seed);
    auto live = live_settings(options, workload_of(experiment_, cell));
    if (const auto& path = server_of(cell).reset; !path.empty()) reset_caches(live.load.client, path);
    live.load.stops_on_signals = true;
    StatusPrinter printer(progress_);
    auto run = run_live(live, [&](const LiveStatus& status) { printer.print(status); });
    printer.finish();
    label(run.result, cell);
    if (process) stop(*process, run.result);
    keep(cell, run);
  }

  std::string start(const Cell& cell, std::optional<ServerProcess>& process) const {
    ServerCommand command;
    command.arguments = server_arguments(server_of(cell), settings_);
    command.log_file = directory_of(cell) / "server.log";
    // No run may find what another has left, unless its flags say so.
    command.environment["TROUPE_STORE_DIRECTORY"] = "none";
    fs::create_directories(directory_of(cell));
    fs::remove(directory_of(cell) / kFailureFile);
    process.emplace(command);
    return process->address().url();
  }

  void stop(ServerProcess& process, RunResult& result) const {
    if (process.has_ended()) {
      result.warnings.push_back("the server ended during the run, with status " +
                                std::to_string(process.wait()));
      return;
    }
    const int status = process.stop(kStopGrace);
    if (status != 0)
      result.warnings.push_back("the server ended with status " + std::to_string(status) +
                                " when it was stopped");
  }

  void label(RunResult& result, const Cell& cell) const {
    const auto& server = server_of(cell);
    note(result, kServerSetting, server.name);
    note(result, "experiment", experiment_.name);
    note(result, "server command", server.argv.empty() ? server.url : command_text(server));
    result.offered_rate = experiment_.is_by_users ? 0 : cell.load;
  }

  void keep(const Cell& cell, const LiveRun& run) {
    const auto summary = summarize(run.result);
    if (run.was_interrupted) {
      outcome_.was_interrupted = true;
      write_result(settings_.out / "partial" / cell.directory, run.result, summary);
      return;
    }
    write_result(directory_of(cell), run.result, summary);
    csv_lines_[cell.directory] = summary_csv_line(run.result, summary);
    ++outcome_.num_run;
    print_figures("", summary.total);
  }

  void print_figures(const char* what, const Measures& total) const {
    const auto& first_token = total.latencies.time_to_first_token;
    std::fprintf(
        progress_, "  %s%llu completed, %llu not; %s/s, %s tokens/s, TTFT p50 %s, p99 %s\n", what,
        static_cast<unsigned long long>(total.num_completed),
        static_cast<unsigned long long>(total.num_failed()), rounded_text(total.request_throughput).c_str(),
        rounded_text(total.output_throughput).c_str(), duration_text(in_seconds(first_token.p50)).c_str(),
        duration_text(in_seconds(first_token.p99)).c_str());
  }

  void write_csv() const {
    auto text = summary_csv_header();
    for (const auto& [directory, line] : csv_lines_) text += line;
    write_file_atomically(settings_.out / "summary.csv", text);
  }

  void finish() const {
    write_csv();
    std::vector<StoredRun> runs;
    for (const auto& cell : cells_) {
      for (const auto& directory : {cell.directory, simulated_directory(cell)}) {
        const auto path = settings_.out / "cells" / directory;
        if (holds_result(path)) runs.push_back(read_run(path, ""));
      }
    }
    if (runs.empty()) return;
    auto text = read_report_text(settings_.file);
    for (const auto& failure : outcome_.failures) text.notes.push_back("A run failed. " + failure);
    write_file_atomically(settings_.out / "report.html", report_html(runs, text));
  }

  const Experiment& experiment_;
  const SweepSettings& settings_;
  std::FILE* progress_;
  std::vector<Cell> cells_;
  std::optional<CostProfile> profile_;
  std::map<std::string, std::string> csv_lines_;  // by the run's directory, which is in order
  SweepOutcome outcome_;
};

}  // namespace

SweepOutcome run_sweep(const Experiment& experiment, const SweepSettings& settings, std::FILE* progress) {
  return Sweep(experiment, settings, progress).run();
}

std::vector<std::string> server_arguments(const ServerConfiguration& server, const SweepSettings& settings) {
  auto arguments = server.argv;
  for (auto& word : arguments) {
    for (const auto& [name, path] : {std::pair{std::string("{troupe}"), settings.troupe.string()},
                                     std::pair{std::string("{root}"), settings.root.string()}}) {
      for (auto at = word.find(name); at != std::string::npos; at = word.find(name, at + path.size()))
        word.replace(at, name.size(), path);
    }
  }
  return arguments;
}

}  // namespace troupe::loadgen
