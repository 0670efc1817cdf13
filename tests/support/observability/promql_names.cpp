// SPDX-License-Identifier: Apache-2.0
#include "tests/support/observability/promql_names.hpp"

#include <array>
#include <cctype>
#include <sstream>

namespace troupe::test {
namespace {

// Words that a list of labels follows, and words that stand alone.
constexpr std::array<std::string_view, 6> kBeforeLabels = {"by",       "without",    "on",
                                                           "ignoring", "group_left", "group_right"};
constexpr std::array<std::string_view, 7> kAlone = {"and", "or", "unless", "bool", "offset", "inf", "nan"};

template <std::size_t kSize>
bool is_one_of(const std::array<std::string_view, kSize>& words, std::string_view word) {
  for (const auto known : words)
    if (known == word) return true;
  return false;
}

bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':'; }
bool continues_name(char c) { return begins_name(c) || std::isdigit(static_cast<unsigned char>(c)) != 0; }

// Where the text goes on behind what `opening` at `at` encloses; quotes count.
std::size_t behind(std::string_view text, std::size_t at, char closing) {
  for (++at; at < text.size() && text[at] != closing; ++at) {
    if (text[at] == '\\') ++at;
    if (closing != '"' && at < text.size() && text[at] == '"') at = behind(text, at, '"') - 1;
  }
  return at + 1;
}

std::size_t skip_spaces(std::string_view text, std::size_t at) {
  while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])) != 0) ++at;
  return at;
}

}  // namespace

std::set<std::string> metric_names_in(std::string_view text) {
  std::set<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      at = behind(text, at, '"');
    } else if (c == '{') {
      at = behind(text, at, '}');
    } else if (c == '[') {
      at = behind(text, at, ']');
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '$') {
      for (++at; at < text.size() && (continues_name(text[at]) || text[at] == '.'); ++at) {
      }
    } else if (begins_name(c)) {
      const std::size_t begin = at;
      while (at < text.size() && continues_name(text[at])) ++at;
      const std::string_view word = text.substr(begin, at - begin);
      at = skip_spaces(text, at);
      const bool has_parenthesis = at < text.size() && text[at] == '(';
      if (is_one_of(kBeforeLabels, word)) {
        if (has_parenthesis) at = behind(text, at, ')');
        continue;
      }
      // sum by (label) (…): an aggregation that its labels separate from what it sums.
      const std::size_t word_end = text.find_first_of(" (", at);
      const std::string_view next = text.substr(at, word_end == std::string_view::npos ? 0 : word_end - at);
      const bool is_function = has_parenthesis || next == "by" || next == "without";
      if (!is_function && !is_one_of(kAlone, word)) names.emplace(word);
    } else {
      ++at;
    }
  }
  return names;
}

std::set<std::string> exported_names(std::string_view text_exposition) {
  std::set<std::string> names;
  std::istringstream lines{std::string(text_exposition)};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) {
      names.insert(line.substr(7, line.find(' ', 7) - 7));
    } else if (!line.empty() && line[0] != '#') {
      names.insert(line.substr(0, line.find_first_of("{ ")));
    }
  }
  return names;
}

}  // namespace troupe::test
