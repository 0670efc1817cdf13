// SPDX-License-Identifier: Apache-2.0
#include "tests/support/observability/logged_lines.hpp"

#include <doctest/doctest.h>

#include <sstream>

namespace troupe::test {

std::vector<std::string> logged_by(LogFormat format, const std::function<void()>& action) {
  Pipe pipe;
  flush_log(std::chrono::seconds(10));
  const int before = ::dup(STDERR_FILENO);
  ::dup2(pipe.input(), STDERR_FILENO);
  configure_logging(LogLevel::kInfo, format);
  action();
  const bool is_written = flush_log(std::chrono::seconds(10));
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  configure_logging(LogLevel::kInfo, LogFormat::kText);
  REQUIRE(is_written);
  std::vector<std::string> lines;
  std::istringstream text(pipe.read_all());
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

}  // namespace troupe::test
