// SPDX-License-Identifier: Apache-2.0
#include "app/trace/trace_summary.hpp"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <map>
#include <vector>

#include "telemetry/tracing/semantic_conventions.hpp"

namespace troupe {
namespace {

constexpr std::size_t kNumSlowest = 5;
constexpr std::array kPhases = {semconv::kEncode,  semconv::kQueue,  semconv::kAdmit,    semconv::kLoad,
                                semconv::kPrefill, semconv::kDecode, semconv::kSuspended};

[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...) {
  std::array<char, 256> text{};
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  return text.data();
}

double milliseconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-6; }

struct Breakdown {
  std::array<double, kPhases.size()> phases{};
  double total = 0;

  double other() const {
    double rest = total;
    for (const double time : phases) rest -= time;
    return std::max(rest, 0.0);
  }
};

Breakdown breakdown_of(const TracedRequest& request) {
  Breakdown breakdown;
  breakdown.total = milliseconds(request.root->end - request.root->start);
  for (const auto* span : request.phases)
    for (std::size_t i = 0; i < kPhases.size(); ++i)
      if (span->name == kPhases[i]) breakdown.phases[i] += milliseconds(span->end - span->start);
  return breakdown;
}

std::string row(const std::string& name, const Breakdown& breakdown) {
  std::string line = formatted("  %-34s %10.2f", name.c_str(), breakdown.total);
  for (const double time : breakdown.phases) line += formatted(" %9.2f", time);
  return line + formatted(" %9.2f\n", breakdown.other());
}

std::string header(const char* name) {
  std::string line = formatted("  %-34s %10s", name, "total ms");
  for (const auto phase : kPhases) line += formatted(" %9s", std::string(phase).c_str());
  return line + formatted(" %9s\n", "other");
}

std::string endings(const TracedRun& run) {
  std::map<std::string, int> counts;
  for (const auto& request : run.requests) {
    const std::string error = request.root->text(std::string(semconv::kErrorType));
    counts[error.empty() ? "well" : error] += 1;
  }
  std::string line;
  for (const auto& [ending, count] : counts)
    line += (line.empty() ? "" : ", ") + std::to_string(count) + " " + ending;
  return line;
}

std::string iterations(const TracedRun& run) {
  if (run.iterations.empty()) return "no iterations\n";
  double tokens = 0;
  double sequences = 0;
  double network = 0;
  for (const auto* span : run.iterations) {
    tokens += span->number(std::string(semconv::kBatchTokens));
    sequences += span->number(std::string(semconv::kBatchSequences));
    network += span->number(std::string(semconv::kNetworkSeconds));
  }
  const auto count = static_cast<double>(run.iterations.size());
  return formatted("%zu iterations: on average %.1f tokens, %.1f sequences, %.3f ms on the device\n",
                   run.iterations.size(), tokens / count, sequences / count, network / count * 1000);
}

std::string requests(const TracedRun& run) {
  Breakdown mean;
  std::vector<std::pair<Breakdown, const TracedRequest*>> all;
  for (const auto& request : run.requests) {
    all.emplace_back(breakdown_of(request), &request);
    const auto count = static_cast<double>(run.requests.size());
    mean.total += all.back().first.total / count;
    for (std::size_t i = 0; i < kPhases.size(); ++i) mean.phases[i] += all.back().first.phases[i] / count;
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.first.total > b.first.total; });
  if (all.size() > kNumSlowest) all.resize(kNumSlowest);
  std::string text = header("requests") + row("mean", mean);
  for (const auto& [breakdown, request] : all) text += row(request->root->trace_id, breakdown);
  return text;
}

}  // namespace

std::string summarize_run(const TracedRun& run) {
  std::string text = std::to_string(run.requests.size()) + " requests";
  if (!run.requests.empty()) text += " (" + endings(run) + ")";
  text += ", " + iterations(run);
  if (run.num_others > 0) text += std::to_string(run.num_others) + " other spans are left out\n";
  if (!run.requests.empty()) text += requests(run);
  return text;
}

}  // namespace troupe
