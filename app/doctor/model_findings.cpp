// SPDX-License-Identifier: Apache-2.0
#include <exception>

#include "app/doctor/findings.hpp"
#include "app/loading/model_set.hpp"
#include "gpu/cpu/cpu_model.hpp"

namespace troupe {
namespace {

Finding model_finding(const LoadedModel& model) {
  Finding finding{.about = "model",
                  .text = model.served.name + ": " + model.device_summary + ", context of " +
                          std::to_string(model.context_length) + " tokens"};
  if (model.planned_bytes > 0) finding.text += ", " + shown_bytes(model.planned_bytes) + " planned";
  if (model.served.kind == ModelKind::kGenerative && !model.served.chat_template) {
    finding.grade = Grade::kWarning;
    finding.text += "; it has no chat template that can be used, so only /v1/completions is served";
    finding.advice = "take the model's instruct version";
  }
  return finding;
}

// --memory may promise more than there is.
Finding plan_finding(const std::vector<LoadedModel>& models) {
  std::uint64_t planned = 0;
  for (const auto& model : models)
    if (!model.options.device.starts_with("cuda")) planned += model.planned_bytes;
  const std::uint64_t available = available_memory_bytes();
  Finding finding{.about = "memory plan",
                  .text = shown_bytes(planned) + " for models and their KV, of " + shown_bytes(available)};
  if (planned <= available) return finding;
  finding.grade = Grade::kWarning;
  finding.text += ": more than is free now";
  finding.advice =
      "end what takes the rest, or --memory " + std::to_string((available / 4 * 3) >> 20) + "MiB";
  return finding;
}

}  // namespace

// Loads them as serve does, but for the weights, which come with the first device.
Findings model_findings(const Options& options) {
  try {
    const auto models = load_models(options);
    Findings findings;
    for (const auto& model : models) findings.push_back(model_finding(model));
    findings.push_back(plan_finding(models));
    return findings;
  } catch (const std::exception& error) {
    return {{.grade = Grade::kProblem,
             .about = "model",
             .text = error.what(),
             .advice = "`troupe inspect` says what the model holds and needs"}};
  }
}

}  // namespace troupe
