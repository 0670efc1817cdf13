# SPDX-License-Identifier: Apache-2.0
"""Range queries of Prometheus' HTTP API."""
import json
import math
import urllib.error
import urllib.parse
import urllib.request


class PrometheusError(Exception):
    """What went wrong, in words for the user."""


class Series:
    """One line of a graph: labels, and values by time. Values that are no numbers are left out."""

    def __init__(self, labels, points, histograms):
        self.labels = labels
        self.points = points          # [(time, value)]
        self.histograms = histograms  # [(time, [(lower, upper, count)])], of native histograms

    def last(self):
        return self.points[-1][1] if self.points else None


class Prometheus:
    def __init__(self, address, start, end, step):
        self.address, self.start, self.end, self.step = address.rstrip("/"), start, end, step

    def query(self, expression):
        """The series of an expression, over the range."""
        parameters = {"query": expression, "start": self.start, "end": self.end, "step": self.step}
        result = self._get("/api/v1/query_range?" + urllib.parse.urlencode(parameters))["result"]
        return [Series(one["metric"], _numbers(one.get("values", [])), _histograms(one.get("histograms", [])))
                for one in result]

    def _get(self, target):
        try:
            with urllib.request.urlopen(self.address + target, timeout=60) as answer:
                body = json.load(answer)
        except urllib.error.HTTPError as error:
            raise PrometheusError(f"{error}: {_reason(error)}") from error
        except (OSError, ValueError) as error:
            raise PrometheusError(f"no answer from a Prometheus: {error}") from error
        return body["data"]


def _reason(error):
    try:
        return json.load(error).get("error", "")
    except ValueError:
        return "not a Prometheus"


def _numbers(values):
    points = [(at, float(value)) for at, value in values]
    return [(at, value) for at, value in points if math.isfinite(value)]


def _histograms(values):
    return [(at, [(float(low), float(high), float(count)) for _, low, high, count in value.get("buckets", [])])
            for at, value in values]
