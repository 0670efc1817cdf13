// SPDX-License-Identifier: Apache-2.0
#include "loadgen/report/stored_run.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "loadgen/result/result_file.hpp"

namespace troupe::loadgen {
namespace {

std::vector<std::filesystem::path> result_directories(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.is_directory() && holds_result(entry.path())) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string line_name(const StoredRun& run) {
  std::string name(setting(run.result, kServerSetting));
  if (name.empty())
    name = run.origin.empty() ? run.result.name : run.origin;
  else if (!run.origin.empty())
    name = run.origin + ": " + name;
  return run.result.is_simulated ? name + " (simulated)" : name;
}

// Nothing where it is no closed loop.
std::optional<double> users_of(const RunResult& result) {
  const auto text = setting(result, kUsersSetting);
  double users = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), users);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return users;
}

template <class List, class Matches, class Make>
auto& find_or_add(List& list, Matches matches, Make make) {
  const auto found = std::find_if(list.begin(), list.end(), matches);
  if (found != list.end()) return *found;
  list.push_back(make());
  return list.back();
}

}  // namespace

StoredRun read_run(const std::filesystem::path& directory, const std::string& origin) {
  StoredRun run{.result = read_result(directory), .summary = {}, .origin = origin};
  run.summary = summarize(run.result);
  return run;
}

std::vector<StoredRun> read_runs(const std::filesystem::path& directory, const std::string& origin) {
  if (!std::filesystem::is_directory(directory))
    throw std::runtime_error(directory.string() + ": expected a directory with results, there is none");
  if (holds_result(directory)) {
    std::vector<StoredRun> runs;
    runs.push_back(read_run(directory, origin));
    return runs;
  }
  std::vector<StoredRun> runs;
  for (const auto& path : result_directories(directory)) runs.push_back(read_run(path, origin));
  if (runs.empty())
    throw std::runtime_error(directory.string() + ": expected " + kResultsFile +
                             " here or in a directory below");
  return runs;
}

bool RunGroups::is_sweep() const {
  return std::any_of(lines.begin(), lines.end(), [](const RunLine& line) { return line.points.size() > 1; });
}

RunGroups group_runs(std::span<const StoredRun> runs) {
  RunGroups groups;
  for (const auto& run : runs) {
    const auto name = line_name(run);
    auto& line = find_or_add(
        groups.lines, [&](const auto& other) { return other.name == name; },
        [&] { return RunLine{.name = name, .points = {}}; });
    const auto users = users_of(run.result);
    if (users) groups.is_by_users = true;
    groups.has_turns =
        groups.has_turns || std::any_of(run.result.records.begin(), run.result.records.end(),
                                        [](const RequestRecord& record) { return record.turn > 0; });
    const double load = users.value_or(run.result.offered_rate);
    auto& point = find_or_add(
        line.points, [&](const auto& other) { return other.load == load; },
        [&] { return LoadPoint{.load = load, .runs = {}}; });
    point.runs.push_back(&run);
  }
  for (auto& line : groups.lines)
    std::sort(line.points.begin(), line.points.end(),
              [](const auto& a, const auto& b) { return a.load < b.load; });
  return groups;
}

Spread spread_of(const std::vector<double>& values) {
  Spread spread{.mean = 0,
                .low = std::numeric_limits<double>::infinity(),
                .high = -std::numeric_limits<double>::infinity(),
                .count = 0};
  for (const double value : values) {
    if (std::isnan(value)) continue;
    spread.mean += value;
    spread.low = std::min(spread.low, value);
    spread.high = std::max(spread.high, value);
    ++spread.count;
  }
  spread.mean = spread.count > 0 ? spread.mean / static_cast<double>(spread.count) : std::nan("");
  return spread;
}

Spread spread_of(const LoadPoint& point, double (*value)(const Measures&)) {
  std::vector<double> values;
  for (const auto* run : point.runs) values.push_back(value(run->summary.total));
  return spread_of(values);
}

}  // namespace troupe::loadgen
