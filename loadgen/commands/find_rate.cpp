// SPDX-License-Identifier: Apache-2.0
#include "loadgen/commands/find_rate.hpp"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <utility>
#include <vector>

#include "loadgen/client/live_run.hpp"
#include "loadgen/client/rate_search.hpp"
#include "loadgen/client/status_printer.hpp"
#include "loadgen/commands/command_table.hpp"
#include "loadgen/report/html_text.hpp"
#include "loadgen/result/result_file.hpp"
#include "loadgen/seconds.hpp"
#include "loadgen/simulator/capacity_search.hpp"
#include "loadgen/workload/toml/setting_check.hpp"

namespace troupe::loadgen {
namespace {

class LiveTrials {
 public:
  LiveTrials(const RateSearchFlags& flags, RunOptions options, WorkloadSettings workload,
             std::filesystem::path out)
      : objectives_(parse_objectives(flags.objective)),
        options_(std::move(options)),
        workload_(std::move(workload)),
        out_(std::move(out)) {}

  // nullopt: interrupted, the server is gone, or missed by a generator that was late.
  std::optional<RateTrial> operator()(double rate) {
    set_mean_rate(workload_.arrivals, rate);
    auto settings = live_settings(options_, workload_);
    settings.load.stops_on_signals = true;
    StatusPrinter printer(stderr);
    const auto run = run_live(settings, [&](const LiveStatus& status) { printer.print(status); });
    printer.finish();
    options_.calibrates = false;  // once is enough
    const auto summary = summarize(run.result);
    if (!out_.empty()) write_result(out_ / ("rate-" + number_text(rate)), run.result, summary);
    if (run.was_interrupted || run.was_given_up) return std::nullopt;
    RateTrial trial{.rate = rate, .measured = {}, .is_met = true};
    for (const auto& objective : objectives_) {
      trial.measured.push_back(objective.measured(summary.total));
      trial.is_met = trial.is_met && trial.measured.back() <= objective.limit;
    }
    print(trial, summary.total);
    // A late generator makes latencies longer, never shorter.
    if (trial.is_met || !run.result.is_beyond_honest_rate) return trial;
    std::printf("the generator itself was late: that says nothing of the server\n");
    return std::nullopt;
  }

 private:
  void print(const RateTrial& trial, const Measures& total) const {
    std::printf("%s/s:", rounded_text(trial.rate).c_str());
    for (std::size_t i = 0; i < objectives_.size(); ++i)
      std::printf(" %s %s (at most %s)", objectives_[i].text.c_str(),
                  duration_text(in_seconds(trial.measured[i])).c_str(),
                  duration_text(in_seconds(objectives_[i].limit)).c_str());
    std::printf("; %llu of %llu completed: %s\n", static_cast<unsigned long long>(total.num_completed),
                static_cast<unsigned long long>(total.num_requests), trial.is_met ? "met" : "missed");
    std::fflush(stdout);
  }

  std::vector<PercentileObjective> objectives_;
  RunOptions options_;
  WorkloadSettings workload_;
  std::filesystem::path out_;
};

}  // namespace

int find_rate(const RateSearchFlags& flags, RunOptions options, WorkloadSettings workload,
              const std::filesystem::path& out) {
  const double begin = mean_rate(workload.arrivals);
  if (!(begin > 0))
    throw std::runtime_error("--find-rate: expected arrivals with a rate, where the search begins");
  LiveTrials trials(flags, std::move(options), std::move(workload), out);
  const auto answer = find_highest_rate([&](double rate) { return trials(rate); }, begin, flags.precision);
  if (!answer.highest) {
    std::printf("no rate that was tried meets the objectives\n");
    return kTooManyErrors;
  }
  std::printf("highest rate that meets them: %s/s; lowest that does not: %s\n",
              rounded_text(answer.highest->rate).c_str(),
              answer.missed ? (rounded_text(answer.missed->rate) + "/s").c_str() : "not found");
  return kSuccess;
}

}  // namespace troupe::loadgen
