// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "loadgen/report/html_text.hpp"
#include "loadgen/report/measure_kind.hpp"
#include "loadgen/report/report_sections.hpp"

namespace troupe::loadgen {
namespace {

using Better = MeasureKind::Better;

struct PointPair {
  const LoadPoint* base;
  const LoadPoint* other;
};

// The points at the same load; of two lone points that differ, those two.
std::vector<PointPair> pairs_of(const RunLine& base, const RunLine& other) {
  std::vector<PointPair> pairs;
  for (const auto& point : other.points) {
    const auto found = std::find_if(base.points.begin(), base.points.end(), [&](const auto& candidate) {
      return std::abs(candidate.load - point.load) <= 1e-9 * std::abs(point.load);
    });
    if (found != base.points.end()) pairs.push_back({&*found, &point});
  }
  if (pairs.empty() && base.points.size() == 1 && other.points.size() == 1)
    pairs.push_back({&base.points.front(), &other.points.front()});
  return pairs;
}

// Where the ranges over the seeds overlap, a difference may be chance.
bool is_within_spread(const Spread& base, const Spread& other) {
  return base.low <= other.high && other.low <= base.high;
}

bool has_spread(const Spread& base, const Spread& other) { return base.count > 1 && other.count > 1; }

// Without a spread nothing is called better or worse.
const char* verdict_class(const MeasureKind& kind, const Spread& base, const Spread& other) {
  if (base.mean == other.mean) return "same";
  if (!has_spread(base, other)) return "";
  if (is_within_spread(base, other) || kind.better == Better::kNeither) return "same";
  return (other.mean < base.mean) == (kind.better == Better::kLower) ? "good" : "bad";
}

std::string ratio_text(double base, double other) {
  if (base == other) return "1×";
  if (base == 0) return "–";
  return rounded_text(std::round(other / base * 1000) / 1000) + "×";
}

std::string ratio_cell(const MeasureKind& kind, const PointPair& pair) {
  const auto base = spread_of(*pair.base, kind.value);
  const auto other = spread_of(*pair.other, kind.value);
  if (base.count == 0 || other.count == 0) return "<td>–</td>";
  auto ratio = ratio_text(base.mean, other.mean);
  if (has_spread(base, other) && is_within_spread(base, other)) ratio = "≈ " + ratio;
  return std::string("<td><span class=\"") + verdict_class(kind, base, other) + "\">" + ratio +
         "</span><small>" + html_text(measure_text(kind.unit, base.mean)) + " → " +
         html_text(measure_text(kind.unit, other.mean)) + "</small></td>";
}

bool is_all_zero(const MeasureKind& kind, const std::vector<PointPair>& pairs) {
  const auto has_value = [&](const LoadPoint& point) { return spread_of(point, kind.value).high > 0; };
  return std::none_of(pairs.begin(), pairs.end(),
                      [&](const auto& pair) { return has_value(*pair.base) || has_value(*pair.other); });
}

std::string comparison_table(const RunGroups& groups, const RunLine& base, const RunLine& other) {
  const auto pairs = pairs_of(base, other);
  if (pairs.empty()) return {};
  std::string out = "<h3>" + html_text(other.name) + " <small>against " + html_text(base.name) +
                    "</small></h3><div class=\"scroll\"><table><thead><tr><th></th>";
  for (const auto& pair : pairs) {
    auto text = load_text(groups, pair.base->load);
    if (pair.base->load != pair.other->load) text += " → " + load_text(groups, pair.other->load);
    out += "<th>" + html_text(text) + "</th>";
  }
  out += "</tr></thead><tbody>";
  for (const auto& kind : measure_kinds()) {
    if (kind.unit == MeasureKind::Unit::kCount || is_all_zero(kind, pairs)) continue;
    out += std::string("<tr><td>") + kind.name + "</td>";
    for (const auto& pair : pairs) out += ratio_cell(kind, pair);
    out += "</tr>";
  }
  return out + "</tbody></table></div>";
}

bool has_one_seed(const RunLine& line) {
  return std::any_of(line.points.begin(), line.points.end(),
                     [](const auto& point) { return point.runs.size() < 2; });
}

}  // namespace

std::string comparison_section(const RunGroups& groups) {
  if (groups.lines.size() < 2) return {};
  std::string tables;
  for (std::size_t i = 1; i < groups.lines.size(); ++i)
    tables += comparison_table(groups, groups.lines.front(), groups.lines[i]);
  if (tables.empty()) return {};
  const bool has_unknown = std::any_of(groups.lines.begin(), groups.lines.end(), has_one_seed);
  return "<h2>Comparison</h2><p class=\"soft\">Ratios of means over seeds. “≈”: the ranges over the seeds "
         "overlap, "
         "the difference may be chance." +
         std::string(has_unknown ? " Where there is one seed only, the spread is not known." : "") + "</p>" +
         tables;
}

}  // namespace troupe::loadgen
