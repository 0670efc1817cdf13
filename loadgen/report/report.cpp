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

// The palette is Okabe and Ito's, which the colour-blind can tell apart, with
// lighter shades for dark mode.
std::string report_style() {
  return R"(<style>
:root{color-scheme:light dark;--paper:#fff;--ink:#1c2430;--soft:#5b6675;--rule:#dfe4ea;--card:#f6f8fa;
--good:#087a55;--bad:#b3261e;--warn:#8a5a00;--warn-card:#fff6e0;
--c0:#0072b2;--c1:#d55e00;--c2:#00875f;--c3:#b65a94;--c4:#b58900;--c5:#3a9bd6;--c6:#6b5b95;--c7:#6f6f6f}
@media(prefers-color-scheme:dark){:root{--paper:#12161c;--ink:#e4e9f0;--soft:#9aa6b5;--rule:#2b333e;--card:#1a2029;
--good:#4cc38a;--bad:#ff8a80;--warn:#f1c15b;--warn-card:#2b2412;
--c0:#5cb3ec;--c1:#ff9a52;--c2:#3ecf9a;--c3:#e59cc8;--c4:#e6c34a;--c5:#9bd5f7;--c6:#b6a6e3;--c7:#b0b0b0}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1240px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .3rem;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:2.4rem 0 .8rem;padding-bottom:.3rem;border-bottom:1px solid var(--rule)}
h3{font-size:1rem;margin:1.4rem 0 .5rem}
p{margin:.3rem 0;max-width:75ch;overflow-wrap:anywhere}.soft,small{color:var(--soft)}
.warnings{background:var(--warn-card);border-left:4px solid var(--warn);border-radius:4px;padding:.6rem 1rem;margin:1.2rem 0}
.warnings ul{margin:.2rem 0;padding-left:1.1rem}.warnings li{overflow-wrap:anywhere}
.cards{display:grid;gap:12px;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));margin:1.4rem 0}
.card{background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:.7rem .9rem}
.card b{display:block;font-size:1.45rem;line-height:1.25;font-variant-numeric:tabular-nums}
.card span{color:var(--soft);font-size:.83rem}
.grid{display:grid;gap:18px;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr))}
figure{margin:0;background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:.7rem .8rem .4rem;min-width:0}
figcaption b{display:block;font-size:.95rem}figcaption small{display:block}
.legend{display:flex;flex-wrap:wrap;gap:.1rem .9rem;font-size:.8rem;color:var(--soft);margin:.25rem 0;overflow-wrap:anywhere}
.legend svg{width:22px;height:8px;margin-right:5px;vertical-align:middle}
svg.plot{display:block;overflow:visible;width:100%;height:auto;margin-top:.3rem}
svg text{fill:var(--soft);font-size:11.5px}.tx{text-anchor:middle}.ty{text-anchor:end}
path.grid{stroke:var(--rule);fill:none}path.axis{stroke:var(--soft);fill:none}
path.line,path.whisker{fill:none;stroke-width:2;stroke-linejoin:round}path.whisker{stroke-width:1.2}
path.d{stroke-dasharray:6 4}circle.dot{stroke:var(--card);stroke-width:1}path.heat{fill:var(--c0)}
.s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}
.s4{stroke:var(--c4)}.s5{stroke:var(--c5)}.s6{stroke:var(--c6)}.s7{stroke:var(--c7)}
circle.s0{fill:var(--c0)}circle.s1{fill:var(--c1)}circle.s2{fill:var(--c2)}circle.s3{fill:var(--c3)}
circle.s4{fill:var(--c4)}circle.s5{fill:var(--c5)}circle.s6{fill:var(--c6)}circle.s7{fill:var(--c7)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .65rem;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}
th{color:var(--soft);font-weight:600}th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:var(--paper)}
thead th{vertical-align:bottom;white-space:normal;min-width:5.2em}
td small{display:block}tr.class td{color:var(--soft)}tr.class td:first-child{padding-left:1.6rem}
table.settings td{text-align:left;white-space:normal;overflow-wrap:anywhere;max-width:34rem}table.settings th{text-align:left}
tr.differs td{background:var(--card);font-weight:600}
.good{color:var(--good);font-weight:600}.bad{color:var(--bad);font-weight:600}.same{color:var(--soft)}
details{border:1px solid var(--rule);border-radius:8px;padding:.5rem .9rem;margin:.7rem 0}
summary{cursor:pointer;font-weight:600}details[open]>summary{margin-bottom:.6rem}
@media(max-width:520px){main{padding:16px 12px 40px}h1{font-size:1.35rem}th,td{padding:.25rem .45rem}
svg text{font-size:13px}figure{padding:.5rem .4rem .3rem}figcaption,.legend{padding-left:.3rem}}
@media print{details{break-inside:avoid}figure{break-inside:avoid}}
</style>
)";
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
