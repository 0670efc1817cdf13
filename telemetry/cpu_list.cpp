// SPDX-License-Identifier: Apache-2.0
#include "telemetry/cpu_list.hpp"

#include <sched.h>

#include <cerrno>
#include <charconv>
#include <set>
#include <system_error>

namespace troupe {
namespace {

constexpr pid_t kThisThread = 0;

std::optional<std::int32_t> parse_cpu(std::string_view text) {
  std::int32_t cpu = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cpu);
  if (error != std::errc{} || end != text.data() + text.size() || cpu < 0 || cpu >= CPU_SETSIZE) return {};
  return cpu;
}

bool set_cpus(const std::vector<std::int32_t>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const std::int32_t cpu : cpus) CPU_SET(cpu, &set);
  return ::sched_setaffinity(kThisThread, sizeof set, &set) == 0;
}

}  // namespace

std::optional<std::vector<std::int32_t>> parse_cpu_list(std::string_view text) {
  std::set<std::int32_t> cpus;
  for (bool is_last = false; !is_last;) {
    const auto comma = text.find(',');
    is_last = comma == std::string_view::npos;
    const auto range = text.substr(0, comma);
    const auto dash = range.find('-');
    const auto first = parse_cpu(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_cpu(range.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    for (std::int32_t cpu = *first; cpu <= *last; ++cpu) cpus.insert(cpu);
    if (!is_last) text.remove_prefix(comma + 1);
  }
  return std::vector(cpus.begin(), cpus.end());
}

std::string cpu_list_text(const std::vector<std::int32_t>& cpus) {
  std::string text;
  for (const std::int32_t cpu : cpus) text += (text.empty() ? "" : ",") + std::to_string(cpu);
  return text;
}

std::vector<std::int32_t> cpus_of_thread() {
  std::vector<std::int32_t> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(kThisThread, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

void keep_thread_to(const std::vector<std::int32_t>& cpus) {
  if (!set_cpus(cpus))
    throw std::system_error(errno, std::generic_category(), "a thread can't be kept to its CPUs");
}

ThreadOnCpus::ThreadOnCpus(const std::vector<std::int32_t>& cpus) {
  if (cpus.empty()) return;
  before_ = cpus_of_thread();
  keep_thread_to(cpus);
}

ThreadOnCpus::~ThreadOnCpus() {
  if (!before_.empty()) set_cpus(before_);
}

}  // namespace troupe
