// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>

#include "loadgen/commands/command_table.hpp"
#include "loadgen/commands/commands.hpp"
#include "loadgen/commands/flag_parsing.hpp"
#include "loadgen/experiment/experiment.hpp"
#include "loadgen/report/report.hpp"
#include "loadgen/result/atomic_file.hpp"

namespace troupe::loadgen {
namespace {

namespace fs = std::filesystem;

// The last parts of the paths that tell them all apart: "a/run", "b/run".
std::vector<std::string> short_names(const std::vector<std::string>& directories) {
  std::vector<std::string> names;
  for (int num_parts = 1; num_parts < 100; ++num_parts) {
    names.clear();
    for (const auto& directory : directories) {
      auto path = fs::absolute(directory).lexically_normal();
      if (!path.has_filename()) path = path.parent_path();
      fs::path name;
      for (int i = 0; i < num_parts && path.has_relative_path(); ++i, path = path.parent_path())
        name = name.empty() ? path.filename() : path.filename() / name;
      names.push_back(name.string());
    }
    auto sorted = names;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end()) return names;
  }
  throw std::runtime_error("the same directory was given twice");
}

std::vector<StoredRun> read_all(const std::vector<std::string>& directories) {
  const auto names = short_names(directories);
  std::vector<StoredRun> runs;
  for (std::size_t i = 0; i < directories.size(); ++i) {
    auto read = read_runs(directories[i], directories.size() > 1 ? names[i] : "");
    std::move(read.begin(), read.end(), std::back_inserter(runs));
  }
  return runs;
}

std::string default_title(const std::vector<std::string>& directories, const std::vector<StoredRun>& runs) {
  if (runs.size() == 1 && !runs.front().result.name.empty()) return runs.front().result.name;
  std::string title;
  for (const auto& name : short_names(directories)) title += (title.empty() ? "" : " and ") + name;
  return title;
}

}  // namespace

int report_command(const std::vector<std::string>& arguments) {
  std::vector<std::string> directories;
  std::string out;
  ReportText text;
  CLI::App app("One self-contained HTML page of stored runs", "troupe-loadgen report");
  app.add_option("DIR", directories, "a run's or a sweep's directory; two or more are overlaid")->required();
  app.add_option("--out", out, "the page to write (default: report.html in the first directory)");
  app.add_option("--title", text.title, "its title (default: the run's or the directories' names)");
  if (const auto status = parse_flags(app, arguments)) return *status;
  const auto runs = read_all(directories);
  const auto title = text.title;
  const auto experiment = fs::path(directories.front()) / "experiment.toml";
  if (directories.size() == 1 && fs::exists(experiment)) text = read_report_text(experiment);
  if (!title.empty()) text.title = title;
  if (text.title.empty()) text.title = default_title(directories, runs);
  const fs::path file = out.empty() ? fs::path(directories.front()) / "report.html" : fs::path(out);
  write_file_atomically(file, report_html(runs, text));
  std::printf("%zu %s, %s\n", runs.size(), runs.size() == 1 ? "run" : "runs", file.c_str());
  return kSuccess;
}

}  // namespace troupe::loadgen
