// SPDX-License-Identifier: Apache-2.0
#include "loadgen/experiment/experiment.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>

#include "loadgen/workload/toml/setting_check.hpp"
#include "loadgen/workload/toml/table_reader.hpp"
#include "loadgen/workload/toml/workload_toml.hpp"

namespace troupe::loadgen {
namespace {

constexpr std::size_t kMaxCells = 10'000;
constexpr double kMaxUsers = 1e6;

// Refuses what is not in `known`, at the file's top level.
void check_sections(const toml::table& root) {
  TableReader reader(root, "");
  for (const auto* name : {"experiment", "server", "run", "workload", "arrivals", "class"}) reader.find(name);
  reader.refuse_unknown_keys();
}

void read_loads(TableReader& reader, const toml::table& table, Experiment& experiment) {
  std::vector<double> users;
  reader.read("rates", experiment.loads);
  reader.read("users", users);
  experiment.is_by_users = !users.empty();
  if (experiment.loads.empty() == users.empty())
    refuse_at(table.source(), "experiment: expected one of 'rates' and 'users', each a list of numbers");
  if (experiment.is_by_users) experiment.loads = users;
  for (const double load : experiment.loads) {
    const bool is_count = load == std::floor(load) && load >= 1 && load <= kMaxUsers;
    if (experiment.is_by_users && !is_count)
      refuse_at(table.source(), "experiment.users: expected whole numbers from 1, got " + number_text(load));
    if (!(load > 0) || !std::isfinite(load))
      refuse_at(table.source(), "experiment.rates: expected numbers above 0, got " + number_text(load));
  }
}

void read_seeds(TableReader& reader, const toml::table& table, Experiment& experiment) {
  std::vector<double> seeds = {1, 2, 3, 4, 5};
  reader.read("seeds", seeds);
  for (const double seed : seeds) {
    if (seed < 0 || seed != std::floor(seed) || seed > 9e15)
      refuse_at(table.source(), "experiment.seeds: expected whole numbers from 0, got " + number_text(seed));
    experiment.seeds.push_back(static_cast<std::uint64_t>(seed));
  }
  if (seeds.empty()) refuse_at(table.source(), "experiment.seeds: expected at least one");
}

void read_general(const toml::table& root, const std::filesystem::path& file, Experiment& experiment) {
  const auto* node = root.get("experiment");
  if (node == nullptr || !node->is_table())
    throw std::runtime_error(file.string() + ": expected a table [experiment]");
  const auto& table = *node->as_table();
  TableReader reader(table, "experiment");
  experiment.name = file.stem().string();
  reader.read("name", experiment.name);
  reader.read("description", experiment.description);
  reader.read("paper", experiment.paper);
  reader.read("expected", experiment.expected);
  read_loads(reader, table, experiment);
  read_seeds(reader, table, experiment);
  reader.read("baseline_again", experiment.has_baseline_again);
  reader.refuse_unknown_keys();
}

ArrivalSettings read_own_arrivals(const toml::node& arrivals) {
  toml::table root;
  root.insert("arrivals", arrivals);
  return read_workload(root, {}).arrivals;
}

ServerConfiguration read_server(const toml::table& table, const std::string& name) {
  TableReader reader(table, name);
  ServerConfiguration server;
  std::vector<std::string> flags;
  reader.read("name", server.name);
  reader.read("argv", server.argv);
  reader.read("url", server.url);
  reader.read("reset", server.reset);
  reader.read("tells_lengths", server.tells_lengths);
  const bool has_flags = reader.find("flags") != nullptr;
  reader.read("flags", flags);
  if (const auto* arrivals = reader.find("arrivals")) server.arrivals = read_own_arrivals(*arrivals);
  reader.refuse_unknown_keys();
  if (file_name_of(server.name).empty()) refuse_at(table.source(), name + ".name: expected a name");
  if (int{has_flags} + int{!server.argv.empty()} + int{!server.url.empty()} != 1)
    refuse_at(table.source(), name + ": expected one of 'flags', 'argv' and 'url'");
  if (!server.reset.empty() && (server.url.empty() || !server.reset.starts_with('/')))
    refuse_at(table.source(), name + ".reset: expected a path like /reset_prefix_cache, beside 'url'");
  if (has_flags) {
    server.argv = {"{troupe}", "serve", "--port", "{port}"};
    server.argv.insert(server.argv.end(), flags.begin(), flags.end());
  }
  if (!server.argv.empty() && std::none_of(server.argv.begin(), server.argv.end(), [](const auto& word) {
        return word.find("{port}") != std::string::npos;
      }))
    refuse_at(table.source(), name + ".argv: expected {port} somewhere: each run gets a free one");
  return server;
}

void read_servers(const toml::table& root, const std::filesystem::path& file, Experiment& experiment) {
  std::set<std::string> names;
  const auto tables = tables_of(root.get("server"), "server");
  if (tables.empty()) throw std::runtime_error(file.string() + ": expected at least one [[server]]");
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const auto name = "server[" + std::to_string(i) + "]";
    experiment.servers.push_back(read_server(*tables[i], name));
    if (!names.insert(file_name_of(experiment.servers.back().name)).second)
      refuse_at(tables[i]->source(),
                name + ".name: '" + experiment.servers.back().name + "' is there already");
  }
  if (!experiment.has_baseline_again) return;
  experiment.servers.push_back(experiment.servers.front());
  experiment.servers.back().name += ", again";
}

}  // namespace

Experiment read_experiment(const std::filesystem::path& file) {
  const auto root = parse_toml_file(file);
  check_sections(root);
  Experiment experiment;
  read_general(root, file, experiment);
  read_servers(root, file, experiment);
  read_run_options(root, experiment.options);
  experiment.workload = read_workload(root, file.parent_path());
  const auto num_cells = experiment.servers.size() * experiment.loads.size() * experiment.seeds.size();
  if (num_cells > kMaxCells)
    throw std::runtime_error(file.string() + ": expected at most " + std::to_string(kMaxCells) +
                             " runs, got " + std::to_string(num_cells));
  // Whatever is wrong with a load is found before the first hour is spent.
  for (const auto& cell : cells_of(experiment)) check(workload_of(experiment, cell));
  return experiment;
}

ReportText read_report_text(const std::filesystem::path& file) {
  const auto root = parse_toml_file(file);
  Experiment experiment;
  read_general(root, file, experiment);
  return {.title = experiment.name,
          .description = experiment.description,
          .paper = experiment.paper,
          .expected = experiment.expected,
          .notes = {}};
}

std::vector<Cell> cells_of(const Experiment& experiment) {
  std::vector<Cell> cells;
  for (const auto seed : experiment.seeds) {
    for (const double load : experiment.loads) {
      for (std::size_t server = 0; server < experiment.servers.size(); ++server) {
        std::array<char, 8> number{};
        std::snprintf(number.data(), number.size(), "%03zu", (cells.size() + 1) % 100'000);
        const auto name = std::string(number.data()) + "-" + file_name_of(experiment.servers[server].name) +
                          "-" + number_text(load) + (experiment.is_by_users ? "users" : "") + "-seed" +
                          std::to_string(seed);
        cells.push_back({.server = server, .load = load, .seed = seed, .directory = name});
      }
    }
  }
  return cells;
}

WorkloadSettings workload_of(const Experiment& experiment, const Cell& cell) {
  auto workload = experiment.workload;
  if (const auto& arrivals = experiment.servers[cell.server].arrivals) workload.arrivals = *arrivals;
  if (experiment.is_by_users) {
    workload.arrivals.kind = ArrivalSettings::Kind::kClosed;
    workload.arrivals.users = static_cast<std::uint32_t>(cell.load);
  } else {
    set_mean_rate(workload.arrivals, cell.load);
  }
  return workload;
}

std::string file_name_of(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool stays = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '-' || c == '_';
    out += stays ? c : '-';
  }
  while (out.starts_with('.')) out.erase(0, 1);  // neither hidden nor a way up
  return out;
}

}  // namespace troupe::loadgen
