// SPDX-License-Identifier: Apache-2.0
// What makes a report's figures doubtful, listed before them.
#include <algorithm>
#include <array>
#include <map>

#include "loadgen/report/html_text.hpp"
#include "loadgen/report/report_sections.hpp"

namespace troupe::loadgen {
namespace {

std::string run_name(const StoredRun& run) {
  const auto& name = run.result.name;
  return run.origin.empty() || run.origin == name ? name : run.origin + ": " + name;
}

// Texts that differ in numbers only are of one kind.
std::string without_numbers(const std::string& text) {
  std::string kind;
  for (const char c : text) {
    const bool is_digit = (c >= '0' && c <= '9') || c == '.';
    if (!is_digit)
      kind += c;
    else if (kind.empty() || kind.back() != '#')
      kind += '#';
  }
  return kind;
}

// Texts and the runs they are about, in the order in which they came up.
class Doubts {
 public:
  void add(const std::string& text, const StoredRun& run) {
    const auto kind = without_numbers(text);
    auto found =
        std::find_if(list_.begin(), list_.end(), [&](const auto& doubt) { return doubt.kind == kind; });
    if (found == list_.end()) found = list_.insert(list_.end(), {kind, text, {}, false});
    found->names.push_back(run_name(run));
    found->has_variants = found->has_variants || text != found->text;
  }

  void add(const std::string& text) { list_.push_back({text, text, {}, false}); }  // about none in particular

  std::string html(std::size_t num_runs) const {
    std::string out;
    for (const auto& [kind, text, names, has_variants] : list_) {
      out += "<li>" + html_text(text) + (has_variants ? " (numbers of the first run)" : "");
      if (num_runs > 1 && !names.empty())
        out += " <small>" + html_text(names.size() == num_runs ? "All runs." : listed(names)) + "</small>";
      out += "</li>";
    }
    return out.empty() ? out : "<div class=\"warnings\"><ul>" + out + "</ul></div>";
  }

 private:
  struct Doubt {
    std::string kind, text;
    std::vector<std::string> names;
    bool has_variants;  // other runs say it with other numbers
  };
  std::vector<Doubt> list_;
};

// How many requests of all runs did not end well, and how; empty if all did.
std::string failures_text(std::span<const StoredRun> runs) {
  std::array<std::uint64_t, kNumOutcomes> counts{};
  std::uint64_t num_requests = 0;
  std::uint64_t num_failed = 0;
  for (const auto& run : runs) {
    const auto& total = run.summary.total;
    num_requests += total.num_requests;
    num_failed += total.num_failed();
    for (std::size_t i = 0; i < kNumOutcomes; ++i) counts[i] += total.num_by_outcome[i];
  }
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < kNumOutcomes; ++i) {
    const auto outcome = static_cast<Outcome>(i);
    if (outcome == Outcome::kCompleted || outcome == Outcome::kCancelled || counts[i] == 0) continue;
    std::string name(outcome_name(outcome));
    std::replace(name.begin(), name.end(), '_', ' ');
    parts.push_back(std::to_string(counts[i]) + " " + name);
  }
  if (num_failed == 0) return {};
  return std::to_string(num_failed) + " of " + std::to_string(num_requests) +
         " requests were not completed and are in no latency: " + listed(parts) + ".";
}

// The client's own warning has figures.
bool says_so_itself(const RunResult& result) {
  return std::any_of(result.warnings.begin(), result.warnings.end(),
                     [](const auto& warning) { return warning.starts_with("beyond the honest rate"); });
}

// The commonest error texts of all runs.
std::string errors_text(std::span<const StoredRun> runs) {
  std::map<std::string, std::size_t> counts;
  for (const auto& run : runs) {
    for (const auto& record : run.result.records) {
      if (!record.error.empty()) ++counts[record.error.substr(0, 200)];
    }
  }
  std::vector<std::pair<std::string, std::size_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string out;
  for (std::size_t i = 0; i < sorted.size() && i < kMaxListed; ++i)
    out += "<li>" + std::to_string(sorted[i].second) + " × " + html_text(sorted[i].first) + "</li>";
  return out.empty() ? out : "<details><summary>What went wrong</summary><ul>" + out + "</ul></details>";
}

}  // namespace

std::string warnings_section(std::span<const StoredRun> runs, const std::vector<std::string>& notes) {
  Doubts doubts;
  for (const auto& text : notes) doubts.add(text);
  const auto failures = failures_text(runs);
  for (const auto& run : runs) {
    if (run.result.is_beyond_honest_rate && !says_so_itself(run.result))
      doubts.add("The generator could not keep up: these figures say more of it than of the server.", run);
    if (run.result.is_simulated) doubts.add("Simulated, not measured.", run);
    if (run.result.records.empty()) doubts.add("No request was sent.", run);
    if (run.summary.total.num_failed() > 0) doubts.add(failures, run);
    for (const auto& warning : run.result.warnings) doubts.add(warning, run);
  }
  return doubts.html(runs.size()) + errors_text(runs);
}

}  // namespace troupe::loadgen
