// SPDX-License-Identifier: Apache-2.0
#include "store/encoder_cost_file.hpp"

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "store/number_file.hpp"

namespace troupe {

const char* const kEncoderCostFile = "encoder-costs.sqlite";

namespace {

NumberFile number_file() { return {.name = kEncoderCostFile, .table = "cost", .column = "nanoseconds"}; }

}  // namespace

std::optional<EncoderCosts> read_encoder_costs(const StateDirectory& directory, const std::string& key) {
  const auto numbers = read_numbers(directory, number_file(), key, EncoderCosts::kPoints);
  if (numbers.empty()) return std::nullopt;
  auto costs = EncoderCosts::from_values(std::vector<double>(numbers.begin(), numbers.end()));
  if (!costs) throw std::runtime_error("expected times that do not shrink with length or number");
  return costs;
}

void write_encoder_costs(const StateDirectory& directory, const std::string& key, const EncoderCosts& costs) {
  std::vector<std::int64_t> numbers;
  for (const double value : costs.values()) numbers.push_back(std::llround(value));
  write_numbers(directory, number_file(), key, numbers);
}

}  // namespace troupe
