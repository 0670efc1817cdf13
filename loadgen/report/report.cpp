// SPDX-License-Identifier: Apache-2.0
#include "loadgen/report/report.hpp"

#include "loadgen/report/html_text.hpp"
#include "loadgen/report/report_sections.hpp"

namespace troupe::loadgen {
namespace {

std::string paragraph(const std::string& text, const char* prefix = "") {
  return text.empty() ? std::string() : "<p>" + std::string(prefix) + html_text(text) + "</p>";
}

std::string plural(std::size_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// "12 runs of 2 servers, 3 seeds each, 10,482 requests."
std::string size_line(std::span<const StoredRun> runs, const RunGroups& groups) {
  std::size_t num_requests = 0;
  for (const auto& run : runs) num_requests += run.result.records.size();
  auto line = plural(runs.size(), "run");
  if (groups.lines.size() > 1) line += " of " + plural(groups.lines.size(), "configuration");
  return "<p class=\"soft\">" + line + ", " + rounded_text(static_cast<double>(num_requests)) +
         " requests.</p>";
}

std::string run_tables(std::span<const StoredRun> runs) {
  std::string out = "<h2>Every run</h2>";
  for (const auto& run : runs) {
    const auto name = run.origin.empty() || run.origin == run.result.name
                          ? run.result.name
                          : run.origin + ": " + run.result.name;
    out += std::string("<details") + (runs.size() == 1 ? " open" : "") + "><summary>" + html_text(name) +
           "</summary>" + run_table(run) + "</details>";
  }
  return out;
}

}  // namespace

std::string report_html(std::span<const StoredRun> runs, const ReportText& text) {
  const auto groups = group_runs(runs);
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';style-src 'unsafe-inline'\">"
      "<title>" +
      html_text(text.title) + "</title>" + report_style() + "</head><body><main>";
  out += "<h1>" + html_text(text.title) + "</h1>" + paragraph(text.description) +
         paragraph(text.paper, "Paper: ") + paragraph(text.expected, "Expected: ") + size_line(runs, groups);
  out += warnings_section(runs, text.notes);
  if (runs.size() == 1) out += headline_section(runs.front().summary);
  out += curves_section(groups);
  out += comparison_section(groups);
  out += overview_section(groups);
  out += details_section(groups);
  out += run_tables(runs);
  out += settings_section(groups);
  return out + "</main></body></html>\n";
}

}  // namespace troupe::loadgen
