// SPDX-License-Identifier: Apache-2.0
// Prometheus' text format, and what changed between two readings of it.

const SAMPLE = /^([a-z_]+)(?:\{([^}]*)\})? (\S+)$/;
const LABEL = /([a-z_]+)="((?:[^"\\]|\\.)*)"/g;

// One reading of troupe's own metrics; histograms have their sums and counts only.
export class Reading {
  constructor(text, time) {
    this.time = time;  // seconds
    this.samples = new Map();
    for (const line of text.split("\n")) {
      const found = line.startsWith("troupe_") ? SAMPLE.exec(line) : null;
      if (!found || found[1].endsWith("_bucket")) continue;
      const labels = Object.fromEntries([...(found[2] ?? "").matchAll(LABEL)].map(([, name, value]) => [name, value]));
      if (!this.samples.has(found[1])) this.samples.set(found[1], []);
      this.samples.get(found[1]).push({ labels, value: Number(found[3]) });
    }
  }

  // The sum of the samples that have these labels. name: without "troupe_".
  value(name, labels = {}) {
    return this.matching(name, labels).reduce((sum, sample) => sum + sample.value, 0);
  }

  // The values that a label has, in their order.
  values(name, label) {
    return [...new Set(this.matching(name, {}).map((sample) => sample.labels[label]).filter((value) => value !== undefined))]
      .sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
  }

  matching(name, labels) {
    return (this.samples.get(`troupe_${name}`) ?? [])
      .filter((sample) => Object.entries(labels).every(([label, value]) => sample.labels[label] === value));
  }
}

// A second, of a counter. Zero across a restart of the server.
export function rate(before, after, name, labels = {}) {
  if (!before || after.time <= before.time) return 0;
  return Math.max(0, after.value(name, labels) - before.value(name, labels)) / (after.time - before.time);
}

// The mean of a histogram's values that came between; null if there are none.
export function mean(before, after, name) {
  if (!before) return null;
  const count = after.value(`${name}_count`) - before.value(`${name}_count`);
  return count > 0 ? (after.value(`${name}_sum`) - before.value(`${name}_sum`)) / count : null;
}
