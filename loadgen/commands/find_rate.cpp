// SPDX-License-Identifier: Apache-2.0
#include "loadgen/commands/find_rate.hpp"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <utility>
#include <vector>

#include "loadgen/client/http/http_exchange.hpp"
#include "loadgen/client/live_run.hpp"
#include "loadgen/client/live_status.hpp"
#include "loadgen/commands/command_table.hpp"
#include "loadgen/report/html_text.hpp"
#include "loadgen/result/result_file.hpp"
#include "loadgen/seconds.hpp"
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

  std::variant<RateTrial, Unjudged> operator()(double rate) {
    set_mean_rate(workload_.arrivals, rate);
    LiveRun run;
    try {
      run = play();
    } catch (const ServerUnreachable&) {
      if (num_trials_ == 0) throw;
      return Unjudged::kServerGone;
    }
    const auto summary = summarize(run.result);
    if (!out_.empty()) write_result(out_ / ("rate-" + number_text(rate)), run.result, summary);
    if (run.was_interrupted) return Unjudged::kInterrupted;
    if (run.was_given_up) return Unjudged::kServerGone;
    auto outcome = judge_rate(rate, objectives_, run.result, summary);
    if (const auto* trial = std::get_if<RateTrial>(&outcome)) print(*trial, summary.total);
    options_.calibrates = false;  // once is enough
    options_.seed += 1;
    num_trials_ += 1;
    return outcome;
  }

 private:
  LiveRun play() {
    auto settings = live_settings(options_, workload_);
    settings.load.stops_on_signals = true;
    StatusPrinter printer(stderr);
    auto run = run_live(settings, [&](const LiveStatus& status) { printer.print(status); });
    printer.finish();
    return run;
  }

  void print(const RateTrial& trial, const Measures& total) const {
    std::printf("%s/s, seed %llu:", rounded_text(trial.rate).c_str(),
                static_cast<unsigned long long>(options_.seed));
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
  std::size_t num_trials_ = 0;
};

using Latency = PercentileObjective::Latency;

// Of a request that was not completed, this figure is endless.
bool has_failed_in_it(const PercentileObjective& objective, const RunResult& result) {
  return objective.figure != PercentileObjective::Figure::kMean && objective.latency != Latency::kItl &&
         setting(result, kPercentilesSetting) != kOfCompleted;
}

bool is_longer_if_late(const PercentileObjective& objective) {
  return objective.latency == Latency::kTtft || objective.latency == Latency::kEndToEnd;
}

}  // namespace

std::variant<RateTrial, Unjudged> judge_rate(double rate, const std::vector<PercentileObjective>& objectives,
                                             const RunResult& result, const Summary& summary) {
  const bool has_failed = summary.total.num_failed() > 0;
  if (summary.total.num_requests == 0) return Unjudged::kNotMeasured;
  RateTrial trial{.rate = rate, .measured = {}, .is_met = true};
  for (const auto& objective : objectives) {
    const bool is_empty = objective.statistics(summary.total).count == 0;
    if (is_empty && !has_failed) return Unjudged::kNotMeasured;
    const bool is_endless = has_failed && (is_empty || !has_failed_in_it(objective, result));
    trial.measured.push_back(is_endless ? kEndless : objective.measured(summary.total));
    trial.is_met = trial.is_met && trial.measured.back() <= objective.limit;
  }
  const bool is_lower_bound = std::all_of(objectives.begin(), objectives.end(), is_longer_if_late);
  if (result.is_beyond_honest_rate && !(trial.is_met && is_lower_bound)) return Unjudged::kGeneratorLate;
  return trial;
}

int find_rate(const RateSearchFlags& flags, RunOptions options, WorkloadSettings workload,
              const std::filesystem::path& out) {
  const double begin = mean_rate(workload.arrivals);
  if (!(begin > 0))
    throw std::runtime_error("--find-rate: expected arrivals with a rate, where the search begins");
  LiveTrials trials(flags, std::move(options), std::move(workload), out);
  const auto answer = find_highest_rate([&](double rate) { return trials(rate); }, begin, flags.precision);
  if (answer.highest)
    std::printf("highest rate that meets them: %s/s; lowest that does not: %s\n",
                rounded_text(answer.highest->rate).c_str(),
                answer.missed ? (rounded_text(answer.missed->rate) + "/s").c_str() : "not found");
  else
    std::printf("no rate that was tried meets the objectives\n");
  if (answer.cut_short)
    std::printf("not within --precision, because %s\n", std::string(reason_text(*answer.cut_short)).c_str());
  if (answer.cut_short == Unjudged::kServerGone) return kServerUnreachable;
  return answer.highest && !answer.cut_short ? kSuccess : kTooManyErrors;
}

}  // namespace troupe::loadgen
