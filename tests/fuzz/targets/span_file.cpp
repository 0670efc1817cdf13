// SPDX-License-Identifier: Apache-2.0
// A file of OTLP spans for `troupe trace`: read or refused; what is read can be
// summarized, and its timeline is JSON.
#include <stdexcept>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "app/trace/timeline.hpp"
#include "app/trace/trace_file.hpp"
#include "app/trace/trace_summary.hpp"
#include "app/trace/traced_request.hpp"
#include "tests/fuzz/fuzz_targets.hpp"
#include "tests/fuzz/property.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe::fuzz {

void fuzz_span_file(std::string_view bytes) {
  static const TemporaryDirectory directory;
  const auto path = directory.write("trace.jsonl", bytes);
  TraceFile file;
  try {
    file = read_trace_file(path);
  } catch (const std::runtime_error& error) {
    return require(std::string_view(error.what()).starts_with(path.string()), "a refusal names no file");
  }
  for (const TraceSpan& span : file.spans)
    require(span.start >= 0 && span.start <= span.end, "a span ends before it begins");
  const TracedRun run = group_spans(file);
  require(!summarize_run(run).empty(), "a summary is empty");
  require(nlohmann::json::accept(make_timeline(run).json), "a timeline is no JSON");
}

}  // namespace troupe::fuzz
