// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "loadgen/report/html_text.hpp"
#include "loadgen/report/measure_kind.hpp"
#include "loadgen/report/paired_difference.hpp"
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

// The figure of both, by seed; runs without it, or without a partner of their own, are left
// out. Where no seed is in both, the means are one pair.
PairedDifference difference_of(const PointPair& pair, const MeasureKind& kind) {
  std::vector<std::pair<double, double>> values;
  std::set<const StoredRun*> paired;
  for (const auto* base : pair.base->runs) {
    const auto seed = setting(base->result, kSeedSetting);
    const auto other = std::find_if(pair.other->runs.begin(), pair.other->runs.end(), [&](const auto* run) {
      return setting(run->result, kSeedSetting) == seed && !paired.contains(run);
    });
    if (other == pair.other->runs.end()) continue;
    paired.insert(*other);
    const double of_base = kind.value(base->summary.total), of_other = kind.value((*other)->summary.total);
    if (!std::isnan(of_base) && !std::isnan(of_other)) values.emplace_back(of_base, of_other);
  }
  if (values.empty()) {
    const auto base = spread_of(*pair.base, kind.value), other = spread_of(*pair.other, kind.value);
    if (base.count > 0 && other.count > 0) values.emplace_back(base.mean, other.mean);
  }
  return paired_difference(values);
}

// Without two pairs nothing is called better, worse or the same.
const char* verdict_class(const MeasureKind& kind, const PairedDifference& difference) {
  if (difference.is_finite() && difference.base == difference.other) return "same";
  if (difference.count < 2 || (!difference.is_finite() && !difference.is_known())) return "";
  if (!difference.is_known() || kind.better == Better::kNeither) return "same";
  return (difference.high < 0) == (kind.better == Better::kLower) ? "good" : "bad";
}

std::string thousandths(double value) { return rounded_text(std::round(value * 1000) / 1000); }

std::string ratio_text(double base, double other) {
  if (std::isinf(base)) return "–";
  if (base == other) return "1×";
  if (std::isinf(other)) return "∞";
  if (base == 0) return "–";
  return thousandths(other / base) + "×";
}

// Of the ratio, where both means are known.
std::string interval_text(const PairedDifference& difference) {
  if (difference.count < 2 || difference.base <= 0 || difference.base == difference.other) return {};
  if (!std::isfinite(difference.low) || !std::isfinite(difference.high)) return {};
  return " (" + thousandths(1 + difference.low / difference.base) + " to " +
         thousandths(1 + difference.high / difference.base) + ")";
}

// Empty where no mean is endless.
std::string endless_text(const PairedDifference& difference) {
  if (difference.is_finite()) return {};
  const auto of_all = " of " + std::to_string(difference.count);
  return " endless in " + std::to_string(difference.num_endless_base) + of_all + " → " +
         std::to_string(difference.num_endless_other) + of_all + " seeds:";
}

std::string ratio_cell(const MeasureKind& kind, const PointPair& pair) {
  const auto difference = difference_of(pair, kind);
  if (difference.count == 0) return "<td>–</td>";
  auto ratio = ratio_text(difference.base, difference.other);
  const bool may_be_chance = difference.count > 1 && !difference.is_known();
  if (may_be_chance && difference.is_finite() && difference.base != difference.other) ratio = "≈ " + ratio;
  return std::string("<td><span class=\"") + verdict_class(kind, difference) + "\">" + ratio +
         "</span><small>" + interval_text(difference) + endless_text(difference) + " " +
         html_text(measure_text(kind.unit, difference.base)) + " → " +
         html_text(measure_text(kind.unit, difference.other)) + "</small></td>";
}

bool is_all_zero(const MeasureKind& kind, const std::vector<PointPair>& pairs) {
  const auto has_value = [&](const LoadPoint& point) { return spread_of(point, kind.value).high > 0; };
  return std::none_of(pairs.begin(), pairs.end(),
                      [&](const auto& pair) { return has_value(*pair.base) || has_value(*pair.other); });
}

double completed_share(const LoadPoint& point) {
  return spread_of(point,
                   [](const Measures& measures) {
                     return measures.num_requests > 0 ? static_cast<double>(measures.num_completed) /
                                                            static_cast<double>(measures.num_requests)
                                                      : std::nan("");
                   })
      .mean;
}

// A figure of completed requests compares different requests where other shares were completed.
const char* mark_of(const MeasureKind& kind, const std::vector<PointPair>& pairs) {
  if (!kind.is_of_completed) return "";
  const bool is_marked = std::any_of(pairs.begin(), pairs.end(), [](const auto& pair) {
    return completed_share(*pair.base) != completed_share(*pair.other);
  });
  return is_marked ? " <small>of completed requests, whose shares differ</small>" : "";
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
    out += std::string("<tr><td>") + kind.name + mark_of(kind, pairs) + "</td>";
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
  return "<h2>Comparison</h2><p class=\"soft\">Ratios of means over seeds that both have, and in brackets "
         "the "
         "95 % interval of the differences, seed by seed. “≈”: it includes none, the difference may be "
         "chance." +
         std::string(has_unknown ? " With one seed only, nothing is known of chance." : "") + "</p>" + tables;
}

}  // namespace troupe::loadgen
