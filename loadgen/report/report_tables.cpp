// SPDX-License-Identifier: Apache-2.0
// The tables of a report.
#include <algorithm>

#include "loadgen/report/html_text.hpp"
#include "loadgen/report/measure_kind.hpp"
#include "loadgen/report/report_sections.hpp"
#include "loadgen/seconds.hpp"

namespace troupe::loadgen {
namespace {

std::string cell(const std::string& html, const char* attributes = "") {
  return std::string("<td") + attributes + ">" + html + "</td>";
}

std::string heading(const std::string& html) { return "<th>" + html + "</th>"; }

// ---- settings

struct SettingRow {
  std::string name;
  std::vector<std::vector<std::string>> values;  // for each line, the different ones
};

std::vector<SettingRow> setting_rows(const RunGroups& groups) {
  std::vector<SettingRow> rows;
  for (std::size_t line = 0; line < groups.lines.size(); ++line) {
    for (const auto& point : groups.lines[line].points) {
      for (const auto* run : point.runs) {
        for (const auto& [name, value] : run->result.settings) {
          auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.name == name; });
          if (row == rows.end()) row = rows.insert(rows.end(), {name, {}});
          row->values.resize(groups.lines.size());
          auto& values = row->values[line];
          if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
        }
      }
    }
  }
  return rows;
}

// ---- overview

std::string overview_cells(const std::vector<const Measures*>& seeds) {
  std::string out;
  for (const auto& kind : measure_kinds()) {
    std::vector<double> values;
    for (const auto* measures : seeds) values.push_back(kind.value(*measures));
    const auto spread = spread_of(values);
    std::string hint;
    if (spread.count > 1)
      hint = " title=\"" +
             html_text(measure_text(kind.unit, spread.low) + " to " + measure_text(kind.unit, spread.high) +
                       " over " + std::to_string(spread.count) + " seeds") +
             "\"";
    out += cell(html_text(measure_text(kind.unit, spread.mean)), hint.c_str());
  }
  return out;
}

std::string overview_rows(const RunGroups& groups, const RunLine& line, const LoadPoint& point) {
  std::vector<const Measures*> seeds;
  for (const auto* run : point.runs) seeds.push_back(&run->summary.total);
  std::string out = "<tr>" + cell(html_text(line.name)) + cell(html_text(load_text(groups, point.load))) +
                    overview_cells(seeds) + "</tr>";
  const auto num_classes = point.runs.front()->summary.classes.size();
  for (std::size_t i = 0; num_classes > 1 && i < num_classes; ++i) {
    seeds.clear();
    for (const auto* run : point.runs) {
      if (i < run->summary.classes.size()) seeds.push_back(&run->summary.classes[i]);
    }
    out += "<tr class=\"class\">" + cell(html_text(seeds.front()->name)) + cell("") + overview_cells(seeds) +
           "</tr>";
  }
  return out;
}

// ---- percentiles of a run

std::string statistics_row(const char* name, const LatencyStatistics& statistics) {
  if (statistics.count == 0 && statistics.max != kEndless) return {};
  std::string out = std::string("<tr>") + cell(name);
  out += cell(statistics.count > 0 ? duration_text(in_seconds(statistics.mean)) : "–");
  for (const auto time :
       {statistics.p50, statistics.p90, statistics.p95, statistics.p98, statistics.p99, statistics.max})
    out += cell(duration_text(in_seconds(time)));
  return out + cell(rounded_text(static_cast<double>(statistics.count))) + "</tr>";
}

std::string measures_table(const Measures& measures) {
  const auto& latencies = measures.latencies;
  return "<div class=\"scroll\"><table><thead><tr><th></th><th>mean</th><th>p50</th><th>p90</th><th>p95</th>"
         "<th>p98</th>"
         "<th>p99</th><th>max</th><th>count</th></tr></thead><tbody>" +
         statistics_row("time to first token", latencies.time_to_first_token) +
         statistics_row("time per output token", latencies.time_per_output_token) +
         statistics_row("inter-token latency", latencies.inter_token_latency) +
         statistics_row("normalized latency", latencies.normalized_latency) +
         statistics_row("end to end", latencies.end_to_end) +
         statistics_row("client delay", latencies.client_delay) +
         statistics_row("server queue", latencies.server_queue) + "</tbody></table></div>";
}

std::string counts_line(const Measures& m) {
  return "<p>" + rounded_text(static_cast<double>(m.num_completed)) + " of " +
         rounded_text(static_cast<double>(m.num_requests)) + " requests completed; " +
         rounded_text(m.request_throughput) + "/s, " + rounded_text(m.output_throughput) +
         " output tokens/s, " + rounded_text(m.total_throughput) + " tokens/s with prompts; " +
         percent_text(m.good_share()) + " within their objectives; " + percent_text(m.cached_share()) +
         " of prompt tokens cached" +
         (m.num_checked > 0 ? "; " + std::to_string(m.num_wrong) + " of " + std::to_string(m.num_checked) +
                                  " checked answers wrong"
                            : "") +
         ".</p>";
}

std::string card(const std::string& value, const std::string& label) {
  return "<div class=\"card\"><b>" + html_text(value) + "</b><span>" + html_text(label) + "</span></div>";
}

}  // namespace

std::string listed(const std::vector<std::string>& texts) {
  std::string out;
  for (std::size_t i = 0; i < texts.size() && i < kMaxListed; ++i) out += (i > 0 ? ", " : "") + texts[i];
  return texts.size() > kMaxListed ? out + ", … (" + std::to_string(texts.size()) + ")" : out;
}

std::string load_text(const RunGroups& groups, double load) {
  if (groups.is_by_users) return rounded_text(load) + (load == 1 ? " user" : " users");
  if (load <= 0) return "–";
  return rounded_text(load) + (groups.has_turns ? " conversations/s" : " requests/s");
}

std::string headline_section(const Summary& summary) {
  const auto& total = summary.total;
  const auto& latencies = total.latencies;
  std::string out = "<div class=\"cards\">";
  out += card(rounded_text(total.request_throughput) + "/s",
              "requests completed, of " + rounded_text(total.offered_rate) + "/s offered");
  out += card(rounded_text(total.output_throughput), "output tokens a second");
  out += card(percent_text(total.good_share()), "of requests within their objectives");
  out += card(duration_text(in_seconds(latencies.time_to_first_token.p50)),
              "to the first token; p99 " + duration_text(in_seconds(latencies.time_to_first_token.p99)));
  out += card(duration_text(in_seconds(latencies.time_per_output_token.p50)),
              "per output token; p99 " + duration_text(in_seconds(latencies.time_per_output_token.p99)));
  out += card(duration_text(in_seconds(latencies.end_to_end.p50)),
              "end to end; p99 " + duration_text(in_seconds(latencies.end_to_end.p99)));
  return out + "</div>";
}

std::string settings_section(const RunGroups& groups) {
  const auto rows = setting_rows(groups);
  if (rows.empty()) return {};
  std::string out = "<h2>Settings</h2><div class=\"scroll\"><table class=\"settings\"><thead><tr><th></th>";
  const bool has_columns = groups.lines.size() > 1;
  for (const auto& line : groups.lines) out += heading(has_columns ? html_text(line.name) : "");
  out += "</tr></thead><tbody>";
  for (const auto& row : rows) {
    auto values = row.values;
    values.resize(groups.lines.size());
    const bool differs =
        std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) != values.end();
    out += std::string(differs ? "<tr class=\"differs\">" : "<tr>") + cell(html_text(row.name));
    if (differs) {
      for (const auto& value : values) out += cell(html_text(listed(value)));
    } else {
      out += cell(html_text(listed(values.front())),
                  (" colspan=\"" + std::to_string(values.size()) + "\"").c_str());
    }
    out += "</tr>";
  }
  return out + "</tbody></table></div>";
}

std::string overview_section(const RunGroups& groups) {
  std::string out =
      "<h2>Figures</h2><div class=\"scroll\"><table><thead><tr><th>configuration</th><th>load</th>";
  for (const auto& kind : measure_kinds()) out += heading(kind.name);
  out += "</tr></thead><tbody>";
  for (const auto& line : groups.lines) {
    for (const auto& point : line.points) out += overview_rows(groups, line, point);
  }
  return out +
         "</tbody></table></div><p class=\"soft\">Means over seeds; point at a figure for the range. "
         "Latencies "
         "count from the intended send time and are of completed requests only.</p>";
}

std::string run_table(const StoredRun& run) {
  std::string out = counts_line(run.summary.total) + measures_table(run.summary.total);
  if (run.summary.classes.size() < 2) return out;
  for (const auto& measures : run.summary.classes)
    out += "<h3>" + html_text(measures.name) + "</h3>" + counts_line(measures) + measures_table(measures);
  return out;
}

}  // namespace troupe::loadgen
