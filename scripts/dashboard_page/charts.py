# SPDX-License-Identifier: Apache-2.0
"""The insides of panels as SVG: lines, stacks, heatmaps, sparklines."""
import html
import math
import time

from .units import format_value, round_ticks

PALETTE = ["#3f8f3c", "#d9a406", "#2f6fb3", "#d9652b", "#b8342f", "#7a52a3", "#1f8a8a", "#8a6d3b", "#c2508f", "#5b6670"]
LEFT, TOP, BOTTOM, RIGHT = 62, 8, 22, 10


class Frame:
    """Where a chart's times and values lie in pixels, with its axes."""

    def __init__(self, width, height, times, values):
        self.width, self.height = width, height
        self.start, self.end = times
        self.low, self.high = values

    def x(self, at):
        return LEFT + (at - self.start) / (self.end - self.start) * (self.width - LEFT - RIGHT)

    def y(self, value):
        share = (value - self.low) / (self.high - self.low)
        return self.height - BOTTOM - share * (self.height - TOP - BOTTOM)

    def axes(self, labels):
        """labels: [(value, text)] of the vertical axis."""
        parts = []
        for value, text in labels:
            y = self.y(value)
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{self.width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{html.escape(text)}</text>')
        seconds = self.end - self.start
        step = next((s for s in (10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600)
                     if seconds / s * 62 <= self.width - LEFT - RIGHT), 86400)
        pattern = "%H:%M:%S" if step < 60 else "%H:%M"
        for at in range(math.ceil(self.start / step) * step, math.ceil(self.end), step):
            if LEFT + 14 < self.x(at) < self.width - 26:
                label = time.strftime(pattern, time.gmtime(at))
                parts.append(f'<text class="tick" x="{self.x(at):.1f}" y="{self.height - 6}" text-anchor="middle">{label}</text>')
        return "".join(parts)


def line_chart(series, width, height, times, panel):
    """series: [(name, colour, [(time, value)])]"""
    defaults = panel["fieldConfig"]["defaults"]
    custom = defaults.get("custom", {})
    is_stacked = custom.get("stacking", {}).get("mode") == "normal"
    bands = _stack(series) if is_stacked else [(n, c, [(t, 0, v) for t, v in points]) for n, c, points in series]
    highest = max((top for _, _, points in bands for _, _, top in points), default=0)
    high = defaults.get("max", highest * 1.08) or 1
    frame = Frame(width, height, times, (min(defaults.get("min", 0), 0), high))
    unit = defaults.get("unit", "short")
    ticks = round_ticks(frame.low, frame.high, max(2, (height - TOP - BOTTOM) // 34), 2 if unit == "bytes" else 10)
    parts = [frame.axes([(value, format_value(value, unit)) for value in ticks])]
    opacity = custom.get("fillOpacity", 0) / 100
    gap = 3 * (times[1] - times[0]) / 240 + 1
    for _, colour, points in reversed(bands):
        for run in _runs(points, gap):
            tops = [f"{frame.x(at):.1f},{frame.y(min(top, high)):.1f}" for at, _, top in run]
            if opacity:
                bottoms = [f"{frame.x(at):.1f},{frame.y(min(low, high)):.1f}" for at, low, _ in reversed(run)]
                parts.append(f'<polygon fill="{colour}" fill-opacity="{opacity}" points="{" ".join(tops + bottoms)}"/>')
            parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{" ".join(tops)}"/>')
    return _svg(width, height, parts)


def heatmap(columns, width, height, times, step, unit):
    """columns: [(time, [(lower, upper, count)])], buckets in ascending order."""
    columns = _coarser(columns, (height - TOP - BOTTOM) // 12)
    edges = sorted({edge for _, cells in columns for low, high, _ in cells for edge in (low, high)})
    used = {i for _, cells in columns for low, high, count in cells if count > 0 for i in (low, high)}
    edges = [edge for edge in edges if used and min(used) <= edge <= max(used)]
    if len(edges) < 2:
        return _svg(width, height, [_no_data(width, height)])
    frame = Frame(width, height, times, (0, len(edges) - 1))
    place = {edge: i for i, edge in enumerate(edges)}
    every = max(1, len(edges) // max(2, (height - TOP - BOTTOM) // 18))
    labels = [(i, _edge(edge, unit)) for i, edge in enumerate(edges) if i % every == 0]
    most = max(count for _, cells in columns for _, _, count in cells)
    parts = []
    for at, cells in columns:
        left, right = max(frame.x(at - step), LEFT), frame.x(at)
        for low, high, count in cells:
            if count <= 0 or low not in place or high not in place:
                continue
            top, bottom = frame.y(place[high]), frame.y(place[low])
            parts.append(f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(right - left, 0.8):.1f}" '
                         f'height="{bottom - top:.1f}" fill="{_heat((count / most) ** 0.5)}"/>')
    return _svg(width, height, parts + [frame.axes(labels)])


def _coarser(columns, num_rows):
    """Native histograms have more buckets than a panel has rows: as many as fit, alike on a logarithmic scale."""
    filled = [cell for _, cells in columns for cell in cells if cell[2] > 0 and cell[1] > 0]
    if len({cell[:2] for cell in filled}) <= num_rows:
        return columns
    low = min(max(lower, upper / 2) for lower, upper, _ in filled)
    high = max(upper for _, upper, _ in filled)
    ratio = (high / low) ** (1 / num_rows)
    coarse = []
    for at, cells in columns:
        rows = {}
        for lower, upper, count in cells:
            if count > 0:
                middle = math.sqrt(max(lower, low) * max(upper, low))
                row = min(int(math.log(middle / low) / math.log(ratio)), num_rows - 1)
                rows[row] = rows.get(row, 0) + count
        coarse.append((at, [(low * ratio ** row, low * ratio ** (row + 1), rows.get(row, 0)) for row in range(num_rows)]))
    return coarse


def sparkline(points, width, height, times, colour):
    if len(points) < 2:
        return ""
    highest = max(value for _, value in points) or 1
    span = times[1] - times[0]
    line = [f"{(at - times[0]) / span * width:.1f},{height - value / highest * height * 0.9:.1f}" for at, value in points]
    ends = [f"{(points[-1][0] - times[0]) / span * width:.1f},{height}", f"{(points[0][0] - times[0]) / span * width:.1f},{height}"]
    return (f'<svg width="{width}" height="{height}"><polygon fill="{colour}" fill-opacity="0.15" '
            f'points="{" ".join(line + ends)}"/><polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{" ".join(line)}"/></svg>')


def no_data(width, height):
    return _svg(width, height, [_no_data(width, height)])


def _no_data(width, height):
    return f'<text class="tick" x="{width / 2}" y="{height / 2}" text-anchor="middle">no data</text>'


def _svg(width, height, parts):
    return f'<svg width="{width}" height="{height}">{"".join(parts)}</svg>'


def _stack(series):
    """Each on top of those before it, at the times it has."""
    below, bands = {}, []
    for name, colour, points in series:
        band = []
        for at, value in points:
            low = below.get(at, 0)
            below[at] = low + value
            band.append((at, low, low + value))
        bands.append((name, colour, band))
    return bands


def _runs(points, gap):
    """Cut where nothing was measured for a while."""
    run = []
    for point in points:
        if run and point[0] - run[-1][0] > gap:
            yield run
            run = []
        run.append(point)
    if run:
        yield run


def _edge(edge, unit):
    return "∞" if edge == float("inf") else format_value(edge, unit)


def _heat(share):
    """From pale yellow to dark red."""
    stops = [(255, 247, 214), (253, 196, 97), (234, 112, 52), (180, 34, 38), (96, 8, 40)]
    at = min(max(share, 0), 1) * (len(stops) - 1)
    low = min(int(at), len(stops) - 2)
    mixed = [round(a + (b - a) * (at - low)) for a, b in zip(stops[low], stops[low + 1])]
    return "#%02x%02x%02x" % tuple(mixed)
