// SPDX-License-Identifier: Apache-2.0
// docs/observability.md says what to do about each alert. Its metrics: scripts/metrics-table.
#include <doctest/doctest.h>

#include <cctype>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>

#include "tests/support/file_text.hpp"

using namespace troupe;

namespace {

const std::filesystem::path kRoot = TROUPE_SOURCE_DIR;

}  // namespace

TEST_CASE("documentation: every alert has a paragraph that says what to do") {
  const std::string text = test::file_text(kRoot / "docs/observability.md");
  std::set<std::string> anchors;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("### ")) continue;
    for (char& c : line) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    anchors.insert(line.substr(4));
  }
  const std::string alerts = test::file_text(kRoot / "configs/prometheus/alerts.yml");
  const std::string mark = "runbook: docs/observability.md#";
  int num_alerts = 0;
  for (auto at = alerts.find(mark); at != std::string::npos; at = alerts.find(mark, at + 1), ++num_alerts) {
    const auto begin = at + mark.size();
    const auto anchor = alerts.substr(begin, alerts.find('\n', begin) - begin);
    CHECK_MESSAGE(anchors.contains(anchor), anchor);
  }
  CHECK(num_alerts == 11);
}
