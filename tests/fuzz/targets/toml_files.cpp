// SPDX-License-Identifier: Apache-2.0
// TOML that people write: the server's options and the load generator's experiments.
#include <cmath>
#include <stdexcept>
#include <string_view>

#include "app/options/options.hpp"
#include "loadgen/experiment/experiment.hpp"
#include "tests/fuzz/fuzz_targets.hpp"
#include "tests/fuzz/property.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe::fuzz {
namespace {

// Each value as text is taken again, and means the same.
void check_options(const Options& options) {
  require(!options.models.empty(), "there is no model");
  Options again = options;
  for (const OptionEntry& entry : option_table()) {
    const std::string text = option_text(options, entry);
    require(!set_option(again, entry, text), "an option is refused after it was written");
    require(option_text(again, entry) == text, "an option is another one after it was written");
  }
}

void check_experiment(const loadgen::Experiment& experiment) {
  require(!experiment.servers.empty() && !experiment.loads.empty() && !experiment.seeds.empty(),
          "an experiment has nothing to run");
  for (const double load : experiment.loads)
    require(std::isfinite(load) && load > 0, "a load is no positive number");
  const auto cells = loadgen::cells_of(experiment);
  require(cells.size() == experiment.servers.size() * experiment.loads.size() * experiment.seeds.size(),
          "runs are missing");
  for (const auto& cell : cells)
    require(cell.directory.find('/') == std::string::npos && !cell.directory.starts_with('.'),
            "a run's directory is elsewhere");
}

}  // namespace

void fuzz_server_toml(std::string_view bytes) {
  static const TemporaryDirectory directory;
  const auto path = directory.write("troupe.toml", bytes);
  Options options;
  try {
    options = resolve_options({.file = path, .environment = {}, .flags = {}});
  } catch (const std::runtime_error& error) {
    return require(std::string_view(error.what()).find("troupe.toml") != std::string_view::npos,
                   "a refusal names no file");
  }
  check_options(options);
}

void fuzz_experiment_toml(std::string_view bytes) {
  static const TemporaryDirectory directory;
  const auto path = directory.write("experiment.toml", bytes);
  loadgen::Experiment experiment;
  try {
    experiment = loadgen::read_experiment(path);
  } catch (const std::runtime_error&) {
    return;
  }
  check_experiment(experiment);
}

}  // namespace troupe::fuzz
