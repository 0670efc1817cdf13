# SPDX-License-Identifier: Apache-2.0
"""Grafana's variables: $name and ${name} in queries and titles."""
import re


class Variables:
    def __init__(self, dashboard, chosen):
        self.values = {}
        for variable in dashboard.get("templating", {}).get("list", []):
            self.values[variable["name"]] = _default_of(variable)
        self.values.update(chosen)

    def set_intervals(self, step, scrape_interval):
        # As Grafana does: a rate needs some scrapes to look at.
        interval = max(4 * scrape_interval, step + scrape_interval)
        self.values["__rate_interval"] = f"{interval:g}s"
        self.values["__interval"] = f"{step:g}s"

    def fill_in(self, text):
        def value(match):
            return self.values.get(match[1] or match[2], match[0])
        return re.sub(r"\$(?:\{(\w+)\}|(\w+))", value, text)


def _default_of(variable):
    value = variable.get("current", {}).get("value", "")
    if value == "$__all":
        return variable.get("allValue") or ".*"
    return "|".join(value) if isinstance(value, list) else str(value)
