// SPDX-License-Identifier: Apache-2.0
#include "telemetry/metrics/process_metrics.hpp"

#include <prometheus/metric_family.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace troupe {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily family(std::string name, std::string help, MetricType type, double value) {
  MetricFamily made{.name = std::move(name), .help = std::move(help), .type = type, .metric = {{}}};
  (type == MetricType::Counter ? made.metric[0].counter.value : made.metric[0].gauge.value) = value;
  return made;
}

struct ProcessStat {
  double cpu_ticks = 0, num_threads = 0, start_ticks = 0, virtual_bytes = 0, resident_pages = 0;
};

// proc(5), fields 14, 15, 20, 22, 23 and 24; the second, the name, may hold
// anything and ends with the last parenthesis.
std::optional<ProcessStat> read_stat() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  double user = 0, system = 0;
  ProcessStat stat;
  fields >> user >> system;
  for (int field = 16; field < 20; ++field) fields >> skipped;
  fields >> stat.num_threads >> skipped >> stat.start_ticks >> stat.virtual_bytes >> stat.resident_pages;
  if (!fields) return std::nullopt;
  stat.cpu_ticks = user + system;
  return stat;
}

// When the machine was started, in Unix time.
std::optional<double> boot_time() {
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("btime ")) return std::stod(line.substr(6));
  return std::nullopt;
}

std::optional<double> num_open_files() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (error) return std::nullopt;
  return static_cast<double>(std::distance(begin(files), end(files)));
}

}  // namespace

std::vector<MetricFamily> process_metrics() {
  std::vector<MetricFamily> families;
  const auto add = [&](std::string name, std::string help, MetricType type, double value) {
    families.push_back(family(std::move(name), std::move(help), type, value));
  };
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  if (const auto stat = read_stat()) {
    add("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", MetricType::Counter,
        stat->cpu_ticks / ticks);
    add("process_resident_memory_bytes", "Resident memory size in bytes.", MetricType::Gauge,
        stat->resident_pages * static_cast<double>(::sysconf(_SC_PAGESIZE)));
    add("process_virtual_memory_bytes", "Virtual memory size in bytes.", MetricType::Gauge,
        stat->virtual_bytes);
    add("process_threads", "Number of threads.", MetricType::Gauge, stat->num_threads);
    if (const auto boot = boot_time())
      add("process_start_time_seconds", "Start time of the process since unix epoch in seconds.",
          MetricType::Gauge, *boot + stat->start_ticks / ticks);
  }
  if (const auto files = num_open_files())
    add("process_open_fds", "Number of open file descriptors.", MetricType::Gauge, *files);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0)
    add("process_max_fds", "Maximum number of open file descriptors.", MetricType::Gauge,
        static_cast<double>(limit.rlim_cur));
  return families;
}

}  // namespace troupe
