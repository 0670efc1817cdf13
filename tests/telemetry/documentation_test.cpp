// SPDX-License-Identifier: Apache-2.0
// docs/observability.md names what the server exports, and nothing else.
#include "telemetry/metrics.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/file_text.hpp"

using namespace troupe;

namespace {

const std::filesystem::path kRoot = TROUPE_SOURCE_DIR;

// What stands in `backquotes`.
std::set<std::string> backquoted(const std::string& cell) {
  std::set<std::string> words;
  for (std::size_t open = cell.find('`'); open != std::string::npos;) {
    const std::size_t close = cell.find('`', open + 1);
    words.insert(cell.substr(open + 1, close - open - 1));
    open = cell.find('`', close + 1);
  }
  return words;
}

struct Described {
  std::string type;
  std::set<std::string> labels;
  bool operator==(const Described&) const = default;
};

// Rows of five cells whose first is a metric.
struct Documentation {
  std::map<std::string, Described> ours;
  std::set<std::string> theirs;  // everywhere in the text
};

Documentation documentation() {
  Documentation found;
  const std::string text = test::file_text(kRoot / "docs/observability.md");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `")) continue;
    std::vector<std::string> cells;
    std::istringstream row(line.substr(1));
    for (std::string cell; std::getline(row, cell, '|');) cells.push_back(cell.substr(1, cell.size() - 2));
    REQUIRE_MESSAGE(cells.size() == 5, line);
    CHECK_MESSAGE(!cells[3].empty(), line);
    found.ours[*backquoted(cells[0]).begin()] = {cells[1], backquoted(cells[2])};
    for (const auto& name : backquoted(cells[4])) found.theirs.insert(name);
  }
  return found;
}

std::string family_of(const std::string& sample, const std::map<std::string, Described>& families) {
  for (const std::string ending : {"", "_bucket", "_sum", "_count"})
    if (sample.ends_with(ending) && families.contains(sample.substr(0, sample.size() - ending.size())))
      return sample.substr(0, sample.size() - ending.size());
  return {};
}

std::set<std::string> label_names(const std::string& labels) {
  std::set<std::string> names;
  std::size_t begin = 0;
  for (std::size_t equals = labels.find("=\""); equals != std::string::npos;
       equals = labels.find("=\"", begin)) {
    names.insert(labels.substr(begin, equals - begin));
    begin = labels.find('"', equals + 2) + 2;
  }
  names.erase("le");
  names.erase("model_name");  // all have it
  return names;
}

std::map<std::string, Described> exported() {
  std::map<std::string, Described> families;
  const Metrics metrics("demo", {.version = "1"});
  std::istringstream lines(metrics.expose());
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) {
      const auto space = line.find(' ', 7);
      families[line.substr(7, space - 7)].type = line.substr(space + 1);
    } else if (const auto brace = line.find('{'); line[0] != '#' && brace != std::string::npos) {
      const auto labels = line.substr(brace + 1, line.rfind('}') - brace - 1);
      auto& family = families[family_of(line.substr(0, brace), families)];
      for (const auto& name : label_names(labels)) family.labels.insert(name);
    }
  }
  return families;
}

}  // namespace

TEST_CASE("documentation: the tables have every metric, with its type and labels, and no other") {
  const Documentation described = documentation();
  std::set<std::string> theirs;
  for (const auto& [name, family] : exported()) {
    if (name.starts_with("vllm:")) {
      theirs.insert(name);
      continue;
    }
    REQUIRE_MESSAGE(described.ours.contains(name), name << " is not described");
    CHECK_MESSAGE(described.ours.at(name).type == family.type, name);
    CHECK_MESSAGE(described.ours.at(name).labels == family.labels, name);
  }
  const auto all = exported();
  for (const auto& [name, family] : described.ours)
    CHECK_MESSAGE(all.contains(name), name << " is not exported");
  for (const auto& name : described.theirs) CHECK_MESSAGE(theirs.contains(name), name << " is not exported");
}

TEST_CASE("documentation: every name of vLLM that is exported is mentioned") {
  const std::string text = test::file_text(kRoot / "docs/observability.md");
  for (const auto& [name, family] : exported())
    if (name.starts_with("vllm:")) CHECK_MESSAGE(text.find("`" + name + "`") != std::string::npos, name);
}

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
