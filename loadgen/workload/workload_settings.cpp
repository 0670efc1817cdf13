// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/workload_settings.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include "loadgen/workload/arrival_process.hpp"
#include "loadgen/workload/distribution.hpp"
#include "loadgen/workload/rate_profile.hpp"
#include "loadgen/workload/toml/setting_check.hpp"
#include "loadgen/workload/traces/formats/plan_file.hpp"

namespace troupe::loadgen {
namespace {

using ArrivalKind = ArrivalSettings::Kind;
using Content = ClassSettings::Content;

double markov_rate(const std::vector<MarkovState>& states) {
  double count = 0;
  double duration_s = 0;
  for (const auto& state : states) {
    count += state.rate * state.mean_dwell_s;
    duration_s += state.mean_dwell_s;
  }
  return duration_s > 0 ? count / duration_s : 0;
}

// Nullptr: it has times.
const char* format_without_times(const TraceSettings& trace) {
  if (trace.format == TraceSettings::Format::kShareGpt) return "sharegpt";
  return trace.format == TraceSettings::Format::kAgents ? "agents" : nullptr;
}

void check_prefix(const PrefixSettings& prefix, const std::string& key) {
  if (prefix.count == 0) return;
  expect_at_least(key + ".tokens", 1, prefix.tokens);
  expect_at_least(key + ".zipf_exponent", 0, prefix.zipf_exponent);
  if (prefix.count > 1'000'000)
    refuse_setting(key + ".count", "at most 1000000", std::to_string(prefix.count));
}

void check_trace(const TraceSettings& trace, const std::string& key) {
  if (trace.file.empty()) refuse_setting(key + ".file", "the path of a trace", "none");
  expect_at_least(key + ".from_s", 0, trace.from_s);
  if (!(trace.until_s > trace.from_s))
    refuse_setting(key + ".until_s", "more than from_s " + number_text(trace.from_s),
                   number_text(trace.until_s));
  expect_above_zero(key + ".length_factor", trace.length_factor);
  const bool has_window = trace.from_s > 0 || !std::isinf(trace.until_s);
  if (format_without_times(trace) != nullptr && has_window)
    refuse_setting(key + ".from_s", "no window of time, as this format has no times", "one");
  if (trace.max_context_tokens == 1) refuse_setting(key + ".max_context_tokens", "0 or at least 2", "1");
}

void check_impatience(const ImpatienceSettings& settings, const std::string& key) {
  if (!(settings.share >= 0 && settings.share <= 1))
    refuse_setting(key + ".share", "a share from 0 to 1", number_text(settings.share));
  check(settings.after_s, key + ".after_s");
}

void check_class(const ClassSettings& settings, const std::string& key) {
  expect_above_zero(key + ".share", settings.share);
  expect_at_least(key + ".max_tokens", 1, settings.request_class.max_tokens);
  check(settings.think_time_s, key + ".think_time_s");
  check_impatience(settings.cancelled, key + ".cancelled");
  check_impatience(settings.stalled, key + ".stalled");
  switch (settings.content) {
    case Content::kSynthetic:
      check(settings.prompt_tokens, key + ".prompt_tokens");
      if (settings.first_prompt_tokens) check(*settings.first_prompt_tokens, key + ".first_prompt_tokens");
      check(settings.output_tokens, key + ".output_tokens");
      if (settings.output_ratio) check(*settings.output_ratio, key + ".output_ratio");
      check(settings.num_turns, key + ".turns");
      return check_prefix(settings.prefix, key + ".prefix");
    case Content::kQuestions:
      if (settings.questions_file.empty())
        refuse_setting(key + ".questions", "the path of a file of questions", "none");
      return;
    case Content::kTrace: return check_trace(settings.trace, key + ".trace");
  }
}

void check_trace_times(const WorkloadSettings& settings) {
  const auto& first = settings.classes.front();
  if (settings.classes.size() != 1 || first.content != Content::kTrace)
    refuse_setting("arrivals.kind", "times_s with \"replay\", or one class with a trace", "neither");
  if (const char* format = format_without_times(first.trace))
    refuse_setting("arrivals.kind", "a trace with times for \"replay\"",
                   "one without, \"" + std::string(format) + "\"");
  if (first.repeats) refuse_setting("class[0].repeats", "false where the trace's times are replayed", "true");
}

}  // namespace

DistributionSettings fixed(double value) {
  DistributionSettings settings;
  settings.mean = value;
  return settings;
}

DistributionSettings uniform(double min, double max) {
  DistributionSettings settings;
  settings.kind = DistributionSettings::Kind::kUniform;
  settings.min = min;
  settings.max = max;
  return settings;
}

double mean_rate(const ArrivalSettings& arrivals) {
  switch (arrivals.kind) {
    case ArrivalKind::kConstant:
    case ArrivalKind::kPoisson:
    case ArrivalKind::kGamma: return arrivals.rate;
    case ArrivalKind::kMarkov: return markov_rate(arrivals.states);
    case ArrivalKind::kProfile: {
      const RateProfile profile(arrivals.segments);
      return profile.duration_s() > 0 ? profile.expected_count() / profile.duration_s() : 0;
    }
    case ArrivalKind::kAtOnce:
    case ArrivalKind::kReplay:
    case ArrivalKind::kClosed: break;
  }
  return 0;
}

void set_mean_rate(ArrivalSettings& arrivals, double rate) {
  expect_above_zero("arrivals.rate", rate);
  const double present = mean_rate(arrivals);
  if (!(present > 0))
    refuse_setting("arrivals.kind", "one with a rate (constant, poisson, gamma, markov, a profile)",
                   "one without");
  arrivals.rate = rate;
  for (auto& state : arrivals.states) state.rate *= rate / present;
  for (auto& segment : arrivals.segments) {
    segment.begin_rate *= rate / present;
    segment.end_rate *= rate / present;
  }
}

void check(const WorkloadSettings& settings) {
  check(settings.arrivals);
  if (settings.classes.empty()) refuse_setting("class", "at least one class", "none");
  std::set<std::string> names;
  for (std::size_t i = 0; i < settings.classes.size(); ++i) {
    const auto key = "class[" + std::to_string(i) + "]";
    const auto& name = settings.classes[i].request_class.name;
    check_class(settings.classes[i], key);
    if (!names.insert(name).second)
      refuse_setting(key + ".name", "a name of its own", "another '" + name + "'");
  }
  expect_at_least("workload.duration_s", 0, settings.duration_s);
  if (is_endless(settings))
    refuse_setting("workload", "max_conversations or duration_s above 0, or a trace", "a plan without end");
  if (uses_trace_times(settings)) check_trace_times(settings);
}

bool uses_trace_times(const WorkloadSettings& settings) {
  return settings.arrivals.kind == ArrivalKind::kReplay && settings.arrivals.times_s.empty();
}

bool is_plan_replay(const WorkloadSettings& settings) {
  return settings.classes.size() == 1 && settings.classes.front().content == Content::kTrace &&
         settings.classes.front().trace.format == TraceSettings::Format::kPlan;
}

bool is_endless(const WorkloadSettings& settings) {
  const auto kind = settings.arrivals.kind;
  if (settings.max_conversations > 0 || (settings.duration_s > 0 && kind != ArrivalKind::kAtOnce))
    return false;
  if (kind == ArrivalKind::kProfile) return false;
  if (kind == ArrivalKind::kReplay && !settings.arrivals.times_s.empty()) return false;
  return std::none_of(settings.classes.begin(), settings.classes.end(),
                      [](const auto& c) { return c.content == Content::kTrace && !c.repeats; });
}

std::vector<RequestClass> request_classes(const WorkloadSettings& settings) {
  if (is_plan_replay(settings))
    return read_plan_classes(open_trace_input(settings.classes.front().trace.file));
  std::vector<RequestClass> classes;
  for (const auto& c : settings.classes) classes.push_back(c.request_class);
  return classes;
}

}  // namespace troupe::loadgen
