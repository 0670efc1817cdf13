# SPDX-License-Identifier: Apache-2.0
"""The page: panels at their places in Grafana's grid of 24 columns."""
import html
import re
import time

from . import charts
from .units import format_value

COLUMN, UNIT, MARGIN = 58, 34, 8
STYLE = """
body { margin: 0; background: #f2f3f5; color: #22262b; font: 13px "DejaVu Sans", Arial, sans-serif; }
header { padding: 12px 16px 4px; } header h1 { font-size: 18px; margin: 0; } header p { margin: 2px 0; color: #5d646d; }
main { position: relative; margin: 0 4px; }
section { position: absolute; background: #fff; border: 1px solid #dcdfe3; border-radius: 3px; overflow: hidden; }
section h2 { font-size: 12.5px; font-weight: 600; margin: 6px 9px 2px; }
h3 { position: absolute; font-size: 14px; margin: 0; }
.legend { position: absolute; left: 9px; right: 9px; bottom: 5px; font-size: 11.5px; color: #4a5058; white-space: nowrap; overflow: hidden; }
.legend span { margin-right: 14px; } .legend b { display: inline-block; width: 12px; height: 3px; margin: 0 5px 3px 0; }
.stat { font-size: 27px; text-align: center; margin-top: 7px; font-weight: 600; }
.spark { position: absolute; left: 0; bottom: 0; }
.grid { stroke: #e4e6e9; stroke-width: 1; } .tick { font-size: 10.5px; fill: #6a717a; }
"""
STAT_COLOURS = {"green": "#3f8f3c", "orange": "#d9802b", "red": "#b8342f", "blue": "#2f6fb3"}


def draw_page(dashboard, panels, prometheus, variables):
    top = min((panel["gridPos"]["y"] for panel in panels), default=0)
    height = max((panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels), default=0) - top
    drawn = "".join(_panel(panel, top, prometheus, variables) for panel in panels)
    when = [time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at)) for at in (prometheus.start, prometheus.end)]
    return (f'<!doctype html><html><head><meta charset="utf-8"><title>{html.escape(dashboard["title"])}</title>'
            f'<style>{STYLE}</style></head><body style="width:{24 * COLUMN + 2 * MARGIN}px"><header>'
            f'<h1>{html.escape(dashboard["title"])}</h1><p>{html.escape(dashboard.get("description", ""))} '
            f'{when[0]} to {when[1]} UTC.</p></header>'
            f'<main style="height:{height * UNIT + MARGIN}px">{drawn}</main></body></html>\n')


def _panel(panel, top, prometheus, variables):
    grid = panel["gridPos"]
    left, upper = grid["x"] * COLUMN + MARGIN, (grid["y"] - top) * UNIT
    title = html.escape(variables.fill_in(panel.get("title", "")))
    if panel["type"] == "row":
        return f'<h3 style="left:{left + 4}px;top:{upper + 10}px">{title}</h3>'
    width, height = grid["w"] * COLUMN - MARGIN, grid["h"] * UNIT - MARGIN
    series = _series(panel, prometheus, variables)
    draw = {"stat": _stat, "timeseries": _timeseries, "heatmap": _heatmap}.get(panel["type"])
    inside = draw(panel, series, width, height, prometheus) if draw else charts.no_data(width, height - 30)
    about = html.escape(panel.get("description", ""))
    return (f'<section style="left:{left}px;top:{upper}px;width:{width}px;height:{height}px">'
            f'<h2 title="{about}">{title}</h2>{inside}</section>')


def _series(panel, prometheus, variables):
    """[(name, series)] of all of a panel's queries."""
    found = []
    for target in panel.get("targets", []):
        for series in prometheus.query(variables.fill_in(target["expr"])):
            found.append((_name(target.get("legendFormat", ""), series.labels), series))
    return found


def _name(pattern, labels):
    if not pattern:
        return ", ".join(f"{name}={value}" for name, value in sorted(labels.items()))
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda match: labels.get(match[1], ""), pattern)


def _stat(panel, series, width, height, prometheus):
    defaults = panel["fieldConfig"]["defaults"]
    points = series[0][1].points if series else []
    value = points[-1][1] if points else None
    colour = STAT_COLOURS["blue"]
    for step in defaults.get("thresholds", {}).get("steps", []):
        if step["value"] is None or (value is not None and value >= step["value"]):
            colour = STAT_COLOURS.get(step["color"], step["color"])
    spark = charts.sparkline(points, width, int(height * 0.38), (prometheus.start, prometheus.end), colour)
    text = html.escape(format_value(value, defaults.get("unit", "short")))
    return f'<div class="stat" style="color:{colour}">{text}</div><div class="spark">{spark}</div>'


def _timeseries(panel, series, width, height, prometheus):
    lines = [(name, charts.PALETTE[i % len(charts.PALETTE)], one.points) for i, (name, one) in enumerate(series)]
    if not any(points for _, _, points in lines):
        return charts.no_data(width, height - 30)
    unit = panel["fieldConfig"]["defaults"].get("unit", "short")
    chart = charts.line_chart(lines, width, height - 50, (prometheus.start, prometheus.end), panel)
    # A line of legend has no room for all: those that are nothing go last.
    tallest_first = sorted(lines, key=lambda line: -max((value for _, value in line[2]), default=0))
    legend = "".join(f'<span><b style="background:{colour}"></b>{html.escape(name)} '
                     f'{html.escape(format_value(points[-1][1] if points else None, unit))}</span>'
                     for name, colour, points in tallest_first)
    return f'{chart}<div class="legend">{legend}</div>'


def _heatmap(panel, series, width, height, prometheus):
    unit = panel["fieldConfig"]["defaults"].get("unit", "none")
    native = [one.histograms for _, one in series if one.histograms]
    columns = native[0] if native else _columns([one for _, one in series])
    return charts.heatmap(columns, width, height - 30, (prometheus.start, prometheus.end), prometheus.step, unit)


def _columns(series):
    """Cumulative classic buckets, one series a bound, as what is between the bounds."""
    by_time = {}
    for one in series:
        if "le" in one.labels:
            for at, value in one.points:
                by_time.setdefault(at, []).append((float(one.labels["le"]), value))
    columns = []
    for at in sorted(by_time):
        low, below, cells = 0.0, 0.0, []
        for bound, count in sorted(by_time[at]):
            cells.append((low, bound, count - below))
            low, below = bound, count
        columns.append((at, cells))
    return columns
