// SPDX-License-Identifier: Apache-2.0
// Quantiles of measured lengths, from JSON in either of two shapes: a list of
// values at equal distances (101 of them: the percentiles), or an object like
// {"p0": 1, "p50": 48, "p99.9": 480, "max": 512}.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::loadgen {

// At equal distances from rank 0 to rank 1, at least two, none decreasing.
// `key` leads to them through nested objects: "azure_conv.input". Throws
// std::runtime_error that names the file and the keys that are there.
std::vector<double> read_quantile_grid(const std::filesystem::path& file, const std::string& key);

// The value at `rank` in [0, 1], interpolated linearly.
double value_at(const std::vector<double>& quantiles, double rank);

}  // namespace troupe::loadgen
