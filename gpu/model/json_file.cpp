// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/json_file.hpp"

#include <array>
#include <fstream>
#include <set>
#include <stdexcept>
#include <vector>

namespace troupe {
namespace {

constexpr int kMaxDepth = 64;

// Watches the parser's events and remembers the first rule that was broken.
class DocumentRules {
 public:
  bool operator()(int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (!broken_.empty()) return false;
    switch (event) {
      case Event::object_start:
        if (depth > kMaxDepth) broken_ = "is nested deeper than 64 levels";
        keys_.emplace_back();
        break;
      case Event::array_start:
        if (depth > kMaxDepth) broken_ = "is nested deeper than 64 levels";
        break;
      case Event::object_end: keys_.pop_back(); break;
      case Event::key:
        if (const auto& key = value.get_ref<const std::string&>(); !keys_.back().insert(key).second) {
          broken_ = "has the key \"" + key.substr(0, 64) + "\" twice";
        }
        break;
      default: break;
    }
    return broken_.empty();
  }

  const std::string& broken() const { return broken_; }

 private:
  std::vector<std::set<std::string>> keys_;
  std::string broken_;
};

}  // namespace

std::string read_small_file(const std::filesystem::path& path, std::size_t max_bytes) {
  std::error_code failure;
  const auto status = std::filesystem::status(path, failure);
  if (!std::filesystem::exists(status)) throw std::runtime_error(path.string() + ": is missing");
  if (!std::filesystem::is_regular_file(status)) {
    throw std::runtime_error(path.string() + ": is not a regular file");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path.string() + ": cannot be opened");
  std::string text;
  std::array<char, 65536> block{};
  while (file.read(block.data(), block.size()), file.gcount() > 0) {
    text.append(block.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > max_bytes) {
      throw std::runtime_error(path.string() + ": is larger than the " + std::to_string(max_bytes) +
                               " bytes allowed");
    }
  }
  if (file.bad()) throw std::runtime_error(path.string() + ": cannot be read");
  return text;
}

nlohmann::json read_json_file(const std::filesystem::path& path, std::size_t max_bytes) {
  const std::string text = read_small_file(path, max_bytes);
  DocumentRules rules;
  try {
    // The parser copies its callback, so it gets a reference to one that stays.
    auto document =
        nlohmann::json::parse(text, [&rules](int depth, nlohmann::json::parse_event_t event,
                                             nlohmann::json& value) { return rules(depth, event, value); });
    if (!rules.broken().empty()) throw std::runtime_error(path.string() + ": " + rules.broken());
    return document;
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(path.string() + ": is not valid JSON (" + error.what() + ")");
  }
}

}  // namespace troupe
