# SPDX-License-Identifier: Apache-2.0
"""Numbers with Grafana's units, as people read them; and round numbers for axes."""
import math


def format_value(value, unit, digits=3):
    if value is None:
        return "no data"
    if unit == "percentunit":
        return _plain(value * 100, digits) + " %"
    if unit == "s":
        return _seconds(value, digits)
    if unit == "bytes":
        return _scaled(value, digits, 1024, ["B", "KiB", "MiB", "GiB", "TiB"])
    suffix = {"reqps": "/s"}.get(unit, "")
    if unit == "none":
        return _plain(value, max(digits, 4))
    return (_scaled(value, digits, 1000, ["", "k", "M", "G"]) + " " + suffix).strip()


def _seconds(value, digits):
    size = abs(value)
    if size == 0:
        return "0 s"
    for limit, factor, name in ((1e-3, 1e6, "µs"), (1, 1e3, "ms"), (120, 1, "s"), (math.inf, 1 / 60, "min")):
        if size < limit * 0.9995:
            return f"{_plain(value * factor, digits)} {name}"
    return ""


def _scaled(value, digits, base, names):
    for name in names[:-1]:
        if abs(value) < base * 0.9995:
            return f"{_plain(value, digits)} {name}".strip()
        value /= base
    return f"{_plain(value, digits)} {names[-1]}"


def _plain(value, digits):
    """So many significant digits, but all that are in front of the point."""
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value)) + 1e-9))
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def round_ticks(low, high, count, base=10):
    """About so many round numbers from low to high. Of base 2: for bytes."""
    span = (high - low) / max(count, 1)
    if span <= 0:
        return [low]
    power = base ** math.floor(math.log(span, base))
    steps = [1, 2, 5, 10] if base == 10 else [1, 2]
    step = next(s * power for s in steps if s * power >= span * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]
