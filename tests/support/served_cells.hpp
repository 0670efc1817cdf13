// SPDX-License-Identifier: Apache-2.0
// The small random networks of recurrent cells (tests/fixtures/cells) as models that a server can be asked in
// words: with a tokenizer whose token i is "wi" in a tree, and a letter in a chain.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/support/file_text.hpp"

namespace troupe::test {

inline constexpr const char* kCellFixtures = TROUPE_SOURCE_DIR "/tests/fixtures/cells/";

inline nlohmann::json cell_tokenizer(std::size_t size, bool has_words) {
  using nlohmann::json;
  json vocabulary;
  for (std::size_t i = 0; i < size; ++i)
    vocabulary[has_words ? "w" + std::to_string(i) : std::string(1, static_cast<char>('A' + i))] = i;
  return {
      {"version", "1.0"},
      {"added_tokens", json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", nullptr},
      {"post_processor", nullptr},
      {"decoder", {{"type", "Fuse"}}},
      {"model", {{"type", "BPE"}, {"unk_token", nullptr}, {"vocab", vocabulary}, {"merges", json::array()}}}};
}

// The model's directory.
inline std::string write_cell_model(const std::filesystem::path& directory, const std::string& name) {
  const auto path = directory / name;
  std::filesystem::copy(kCellFixtures + name, path);
  const bool is_tree = name.ends_with("tree");
  const auto config = nlohmann::json::parse(file_text(path / "config.json"));
  std::ofstream(path / "tokenizer.json") << cell_tokenizer(config.at("vocab_size"), is_tree).dump();
  return path.string();
}

inline nlohmann::json cell_reference(const std::string& name) {
  return nlohmann::json::parse(file_text(std::string(kCellFixtures) + name + "/reference.json"));
}

inline std::string letters(const nlohmann::json& tokens) {
  std::string text;
  for (const nlohmann::json& token : tokens) text += static_cast<char>('A' + token.get<int>());
  return text;
}

// The tree of a reference, as /v1/classify takes it.
inline nlohmann::json numbered_tree(const nlohmann::json& nodes) {
  nlohmann::json tree = {{"nodes", nlohmann::json::array()}};
  for (const nlohmann::json& node : nodes) {
    nlohmann::json written = {{"children", node.at("children")}};
    if (!node.at("word").is_null()) written["word"] = "w" + std::to_string(node.at("word").get<int>());
    tree["nodes"].push_back(written);
  }
  return tree;
}

}  // namespace troupe::test
