// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/csv_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace troupe::loadgen {
namespace {

constexpr double kMaxCount = 1e9;

// Fields may be quoted, with "" for a quote; a line is a row.
void split(std::string_view line, std::vector<std::string>& fields) {
  fields.assign(1, "");
  bool is_quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && is_quoted && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[++i];
    } else if (c == '"') {
      is_quoted = !is_quoted;
    } else if (c == ',' && !is_quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

// For messages: garbage is not always short.
std::string shortened(std::string_view text) {
  constexpr std::size_t kMaxBytes = 40;
  return "'" + std::string(text.substr(0, kMaxBytes)) + (text.size() > kMaxBytes ? "…'" : "'");
}

}  // namespace

CsvReader::CsvReader(TraceInput input, std::vector<std::string> columns)
    : input_(std::move(input)), columns_(std::move(columns)) {
  if (!input_.next_line(line_))
    input_.fail("expected a line with the columns " + joined(columns_) + ", got an empty file");
  split(line_, fields_);
  num_fields_ = fields_.size();
  std::vector<std::string> missing;
  for (const auto& column : columns_) {
    const auto found = std::find(fields_.begin(), fields_.end(), column);
    if (found == fields_.end()) missing.push_back(column);
    positions_.push_back(static_cast<std::size_t>(found - fields_.begin()));
  }
  if (!missing.empty())
    input_.fail("expected the columns " + joined(columns_) + ", got " + shortened(line_) + " without " +
                joined(missing));
}

bool CsvReader::next_row() {
  if (!input_.next_line(line_)) return false;
  split(line_, fields_);
  if (fields_.size() != num_fields_)
    input_.fail("expected " + std::to_string(num_fields_) + " values, got " + std::to_string(fields_.size()) +
                " in " + shortened(line_));
  return true;
}

std::string_view CsvReader::text(std::size_t column) const { return fields_[positions_[column]]; }

std::uint32_t CsvReader::count(std::size_t column) const {
  const auto field = text(column);
  double value = 0;  // some files write counts as 12.0
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc{} || end != field.data() + field.size() || value != std::floor(value) ||
      !(value >= 0 && value <= kMaxCount))
    fail(column, "a whole number from 0 to 1000000000");
  return static_cast<std::uint32_t>(value);
}

void CsvReader::fail(std::size_t column, const std::string& expected) const {
  input_.fail("column '" + columns_[column] + "': expected " + expected + ", got " + shortened(text(column)));
}

}  // namespace troupe::loadgen
