// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "loadgen/commands/command_table.hpp"
#include "loadgen/commands/commands.hpp"
#include "loadgen/commands/flag_parsing.hpp"
#include "loadgen/commands/workload_flags.hpp"
#include "loadgen/result/atomic_file.hpp"
#include "loadgen/workload/plan_summary.hpp"
#include "loadgen/workload/traces/formats/plan_file.hpp"

namespace troupe::loadgen {
namespace {

struct PlanFlags {
  WorkloadFlags workload;
  std::uint64_t seed = 1;
  std::string out;
};

void add_flags(CLI::App& app, PlanFlags& flags) {
  add_workload_flags(app, flags.workload);
  app.add_option("--seed", flags.seed, "of the plan")->default_str("1");
  app.add_option("--out", flags.out, "a file to save the plan to, as JSON lines (trace format \"plan\")");
}

// How many conversations fit the duration of a closed loop is the server's doing.
void refuse_endless(WorkloadSettings workload) {
  if (workload.arrivals.kind != ArrivalSettings::Kind::kClosed) return;
  workload.duration_s = 0;
  if (is_endless(workload)) throw std::runtime_error("a closed loop has a plan only with --conversations N");
}

// Writes a plan piece by piece: it may be larger than memory.
class SavedPlan {
 public:
  SavedPlan(const std::string& path, const std::vector<RequestClass>& classes)
      : file_(path), writer_(lines_, classes) {}

  void add(const PlannedConversation& conversation) {
    writer_.write(conversation);
    flush();
  }

  void finish() {
    flush();
    file_.commit();
  }

 private:
  void flush() {
    file_.write(lines_.view());
    lines_.str("");
  }

  AtomicFile file_;
  std::ostringstream lines_;
  PlanWriter writer_;
};

}  // namespace

int plan_command(const std::vector<std::string>& arguments) {
  PlanFlags flags;
  CLI::App app("What a workload is going to send", "troupe-loadgen plan");
  add_flags(app, flags);
  if (const auto status = parse_flags(app, arguments)) return *status;
  const auto workload = workload_of(flags.workload);
  refuse_endless(workload);
  const auto source = make_source(workload, flags.seed);
  const auto classes = request_classes(workload);
  PlanSummary summary(classes);
  std::optional<SavedPlan> saved;
  if (!flags.out.empty()) saved.emplace(flags.out, classes);
  PlannedConversation conversation;
  while (source->next(conversation)) {
    summary.add(conversation);
    if (saved) saved->add(conversation);
  }
  if (saved) saved->finish();
  std::cout << workload.name << ", seed " << flags.seed << ": ";
  summary.print(std::cout);
  for (const auto& warning : source->warnings()) std::cout << "note: " << warning << '\n';
  return kSuccess;
}

}  // namespace troupe::loadgen
