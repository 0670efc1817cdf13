// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <fstream>
#include <stdexcept>

#include "app/commands.hpp"
#include "app/trace/timeline.hpp"
#include "app/trace/trace_file.hpp"
#include "app/trace/trace_summary.hpp"
#include "app/trace/traced_request.hpp"

namespace troupe {
namespace {

void write_timeline(const Timeline& timeline, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  file << timeline.json;
  file.close();
  if (!file) throw std::runtime_error(path + ": the timeline can't be written there");
  std::printf(
      "%s: %zu worker tracks, %zu lanes of requests, %zu arrows; open it at https://ui.perfetto.dev\n",
      path.c_str(), timeline.num_workers, timeline.num_lanes, timeline.num_arrows);
  if (timeline.num_arrows_left_out > 0)
    std::printf("%zu more arrows are left out\n", timeline.num_arrows_left_out);
}

}  // namespace

int run_trace(const TraceCommand& command) {
  const TraceFile file = read_trace_file(command.file);
  for (const auto& warning : file.warnings) std::fprintf(stderr, "troupe: warning: %s\n", warning.c_str());
  const TracedRun run = group_spans(file);
  std::fputs(summarize_run(run).c_str(), stdout);
  if (!command.timeline.empty()) write_timeline(make_timeline(run), command.timeline);
  return 0;
}

}  // namespace troupe
