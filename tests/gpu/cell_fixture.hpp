// SPDX-License-Identifier: Apache-2.0
// Small random networks of recurrent cells and what PyTorch makes of them (scripts/cells/make_reference),
// as requests that graph_runner.hpp runs on a device.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpu/networks/network.hpp"
#include "graph_runner.hpp"

namespace troupe {

inline constexpr const char* kChainFixtures[] = {"lstm",
                                                 "gru",
                                                 "lstm_attention_seq2seq",
                                                 "gru_seq2seq",
                                                 "gru_dot_seq2seq",
                                                 "lstm_additive_seq2seq",
                                                 "gru_additive_seq2seq"};
inline constexpr const char* kTreeFixtures[] = {"binary_tree", "child_sum_tree"};

struct CellFixture {
  explicit CellFixture(const std::string& name);

  std::filesystem::path directory;  // of the model
  nlohmann::json reference;         // an array of examples

  std::vector<GraphRequest> requests(const Network& network) const;
  // Numbers of an example: of the first token's logits, or of all nodes of a tree.
  std::vector<double> numbers(std::size_t example) const;
};

std::shared_ptr<const CellGraph> tree_of(const nlohmann::json& nodes);

// Relative to the expected number, but to 1 if that is less. REQUIREs as many of both.
double largest_difference(const std::vector<float>& numbers, const std::vector<double>& expected);

}  // namespace troupe
