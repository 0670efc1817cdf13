// SPDX-License-Identifier: Apache-2.0
// Rows of a CSV file with a header line, its columns found by name: their order
// and further columns don't matter.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/workload/traces/trace_input.hpp"

namespace troupe::loadgen {

class CsvReader {
 public:
  // Reads the header; throws std::runtime_error that names the missing columns
  // and those that are there.
  CsvReader(TraceInput input, std::vector<std::string> columns);

  bool next_row();  // false at the end

  // Cell of the present row; `column` counts in the constructor's list. fail() and,
  // where the value is no count, count() throw std::runtime_error with column
  // and line.
  std::string_view text(std::size_t column) const;
  std::uint32_t count(std::size_t column) const;
  [[noreturn]] void fail(std::size_t column, const std::string& expected) const;

  const TraceInput& input() const { return input_; }

 private:
  TraceInput input_;
  std::vector<std::string> columns_;
  std::vector<std::size_t> positions_;  // in the file, of each of ours
  std::size_t num_fields_ = 0;
  std::string line_;
  std::vector<std::string> fields_;
};

}  // namespace troupe::loadgen
