// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <iterator>

#include <nlohmann/json.hpp>

#include "app/commands.hpp"
#include "app/doctor/findings.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

const char* name_of(Grade grade) {
  if (grade == Grade::kOk) return "ok";
  return grade == Grade::kWarning ? "warning" : "problem";
}

bool has_problem(const Findings& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.grade == Grade::kProblem; });
}

std::string json_of(const Findings& findings) {
  nlohmann::ordered_json lines = nlohmann::ordered_json::array();
  for (const auto& finding : findings)
    lines.push_back({{"grade", name_of(finding.grade)},
                     {"about", finding.about},
                     {"text", finding.text},
                     {"advice", finding.advice}});
  const nlohmann::ordered_json report = {{"ok", !has_problem(findings)}, {"findings", std::move(lines)}};
  return report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size() + 1, width), ' ');
  return text;
}

Findings all_findings(const DoctorCommand& command) {
  if (!command.problem.empty())
    return {{.grade = Grade::kProblem,
             .about = "configuration",
             .text = command.problem,
             .advice = "mend it; nothing else was looked at"}};
  Findings all;
  for (const auto find : {machine_findings, service_findings, model_findings})
    std::ranges::move(find(command.options), std::back_inserter(all));
  return all;
}

}  // namespace

std::string report_of(const Findings& findings, bool is_json) {
  if (is_json) return json_of(findings);
  constexpr std::size_t kGradeWidth = 9, kAboutWidth = 15;
  std::string text;
  for (const auto& finding : findings) {
    text += padded(name_of(finding.grade), kGradeWidth) + padded(finding.about, kAboutWidth) + finding.text;
    if (!finding.advice.empty())
      text += "\n" + std::string(kGradeWidth + kAboutWidth, ' ') + "-> " + finding.advice;
    text += "\n";
  }
  return text;
}

int run_doctor(const DoctorCommand& command) {
  configure_logging(LogLevel::kOff, LogFormat::kText);  // what loading has to say is said below
  const Findings findings = all_findings(command);
  std::fputs(report_of(findings, command.is_json).c_str(), stdout);
  return has_problem(findings) ? 1 : 0;
}

}  // namespace troupe
