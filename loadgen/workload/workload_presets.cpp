// SPDX-License-Identifier: Apache-2.0
// Workloads by name.
#include <array>
#include <stdexcept>
#include <utility>

#include "loadgen/workload/workload_settings.hpp"
#include "telemetry/shipped_path.hpp"

namespace troupe::loadgen {
namespace {

DistributionSettings log_normal(double median, double sigma, double min, double max) {
  DistributionSettings settings;
  settings.kind = DistributionSettings::Kind::kLogNormal;
  settings.median = median;
  settings.sigma = sigma;
  settings.min = min;
  settings.max = max;
  return settings;
}

// As in vLLM's random data set: exactly so many in and out.
WorkloadSettings fixed_128_128() {
  WorkloadSettings settings;
  settings.classes.front().request_class.ignore_eos = true;
  settings.classes.front().request_class.name = "fixed";
  return settings;
}

// Median and spread of the logarithms of Azure's conversation trace of 2023
// (AzureLLMInferenceTrace_conv.csv: 760 and 0.99 in, 151 and 0.86 out).
WorkloadSettings chat() {
  WorkloadSettings settings;
  auto& c = settings.classes.front();
  c.request_class.name = "chat";
  c.request_class.ignore_eos = true;
  c.prompt_tokens = log_normal(760, 0.99, 2, 14050);
  c.output_tokens = log_normal(151, 0.86, 7, 1000);
  return settings;
}

// Short questions, longer answers, a few turns: the sessions of the paper's
// chat data have 5.56 turns, 37.8 tokens in and 204.6 out a turn on average.
WorkloadSettings sharegpt_like() {
  WorkloadSettings settings;
  auto& c = settings.classes.front();
  c.request_class.name = "sharegpt-like";
  c.request_class.ignore_eos = true;
  c.prompt_tokens = log_normal(23, 1, 4, 1024);
  c.output_tokens = log_normal(149, 0.8, 4, 1024);
  c.num_turns = log_normal(4.5, 0.65, 1, 40);
  c.think_time_s = log_normal(5, 1, 0.5, 120);
  return settings;
}

WorkloadSettings questions() {
  WorkloadSettings settings;
  auto& c = settings.classes.front();
  c.request_class.name = "questions";
  c.request_class.max_tokens = 800;
  c.content = ClassSettings::Content::kQuestions;
  c.questions_file = shipped_path("models/demo/held_out_questions.json").string();
  return settings;
}

struct Preset {
  const char* name;
  WorkloadSettings (*make)();
};

constexpr std::array<Preset, 4> kPresets{{{"chat", chat},
                                          {"questions", questions},
                                          {"sharegpt-like", sharegpt_like},
                                          {"fixed-128-128", fixed_128_128}}};

}  // namespace

WorkloadSettings preset(std::string_view name) {
  for (const auto& [known, make] : kPresets) {
    if (name != known) continue;
    auto settings = make();
    settings.name = known;
    return settings;
  }
  std::string expected;
  for (const auto& known : preset_names()) expected += (expected.empty() ? "one of " : ", ") + known;
  throw std::runtime_error("workload.preset: expected " + expected + ", got '" + std::string(name) + "'");
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& known : kPresets) names.emplace_back(known.name);
  return names;
}

}  // namespace troupe::loadgen
