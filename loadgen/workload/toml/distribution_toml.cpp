// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/toml/distribution_toml.hpp"

namespace troupe::loadgen {
namespace {

using Kind = DistributionSettings::Kind;

void read_table(TableReader& reader, const std::filesystem::path& directory, DistributionSettings& settings) {
  const auto kind = reader.read_choice(
      "kind", {"fixed", "uniform", "normal", "lognormal", "exponential", "quantiles"}, "fixed");
  if (kind == "fixed") return reader.read("value", settings.mean);
  reader.read("min", settings.min);
  reader.read("max", settings.max);
  if (kind == "uniform") {
    settings.kind = Kind::kUniform;
  } else if (kind == "exponential") {
    settings.kind = Kind::kExponential;
    reader.read("mean", settings.mean);
  } else if (kind == "quantiles") {
    settings.kind = Kind::kQuantiles;
    reader.read("values", settings.quantiles);
    reader.read("file", settings.file);
    reader.read("key", settings.key);
    settings.file = resolved(directory, settings.file);
  } else {
    settings.kind = kind == "normal" ? Kind::kNormal : Kind::kLogNormal;
    reader.read("mean", settings.mean);
    reader.read("stddev", settings.stddev);
    if (kind == "normal") return;
    reader.read("median", settings.median);
    reader.read("sigma", settings.sigma);
  }
}

}  // namespace

void read_distribution(TableReader& parent, std::string_view key, const std::filesystem::path& directory,
                       DistributionSettings& settings) {
  const auto* node = parent.find(key);
  if (node == nullptr) return;
  settings = {};
  if (node->is_number()) return parent.read(key, settings.mean);
  if (!node->is_table()) parent.refuse(*node, key, "a number or a table with a kind");
  TableReader reader(*node->as_table(), parent.name_of(key));
  read_table(reader, directory, settings);
  reader.refuse_unknown_keys();
}

std::string resolved(const std::filesystem::path& directory, const std::string& file) {
  return file.empty() ? file : (directory / file).lexically_normal().string();
}

}  // namespace troupe::loadgen
