// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "loadgen/commands/command_table.hpp"
#include "loadgen/commands/commands.hpp"
#include "loadgen/commands/flag_parsing.hpp"
#include "loadgen/experiment/sweep.hpp"

namespace troupe::loadgen {
namespace {

namespace fs = std::filesystem;

// The nearest directory above the experiment that holds models/, else the
// current one.
fs::path find_root(const fs::path& file) {
  for (auto at = fs::absolute(file).parent_path(); at.has_relative_path(); at = at.parent_path()) {
    if (fs::is_directory(at / "models")) return at;
  }
  return fs::current_path();
}

// Installed beside us, or built beside us, or wherever PATH says.
fs::path find_troupe() {
  std::error_code error;
  const auto self = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    for (const auto& candidate :
         {self.parent_path() / "troupe", self.parent_path().parent_path() / "app" / "troupe"}) {
      if (fs::is_regular_file(candidate)) return candidate;
    }
  }
  return "troupe";
}

void print_outcome(const SweepOutcome& outcome, const fs::path& out) {
  std::printf("%zu runs done, %zu were there already, %zu failed%s\n", outcome.num_run, outcome.num_skipped,
              outcome.failures.size(), outcome.was_interrupted ? "; interrupted, --resume goes on" : "");
  std::printf("%s\n%s\n", (out / "summary.csv").c_str(), (out / "report.html").c_str());
}

}  // namespace

int sweep_command(const std::vector<std::string>& arguments) {
  SweepSettings settings;
  std::string file, out, troupe, root, profile;
  CLI::App app("All runs of an experiment: server configurations, loads, seeds", "troupe-loadgen sweep");
  app.add_option("EXPERIMENT", file, "TOML file; examples are in configs/experiments/")->required();
  app.add_option("--out", out, "directory of the results (default: results/NAME)");
  app.add_option("--only", settings.only, "run only the server configuration of this name");
  app.add_flag("--resume", settings.resumes, "skip runs that have results, repeat those that failed");
  app.add_option("--profile", profile,
                 "simulate each run too, with these costs; as `troupe profile` measured them");
  app.add_flag("--only-simulate", settings.only_simulates,
               "with --profile, which is of one worker: start no server");
  app.add_option("--troupe", troupe, "the server's program, {troupe} (default: the one beside this program)");
  app.add_option("--root", root, "what {root} stands for (default: where models/ is, above the experiment)");
  if (const auto status = parse_flags(app, arguments)) return *status;
  const auto experiment = read_experiment(file);
  settings.file = file;
  settings.profile = profile;
  settings.out = out.empty() ? fs::path("results") / file_name_of(experiment.name) : fs::path(out);
  settings.troupe = troupe.empty() ? find_troupe() : fs::path(troupe);
  settings.root = root.empty() ? find_root(file) : fs::path(root);
  const auto outcome = run_sweep(experiment, settings, stderr);
  print_outcome(outcome, settings.out);
  return outcome.failures.empty() && !outcome.was_interrupted ? kSuccess : kTooManyErrors;
}

}  // namespace troupe::loadgen
