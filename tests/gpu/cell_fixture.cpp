// SPDX-License-Identifier: Apache-2.0
#include "cell_fixture.hpp"

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "tests/support/file_text.hpp"
#include "tests/support/source_file.hpp"

namespace troupe {
namespace {

using nlohmann::json;

GraphRequest request_of(const UnfoldingRule& rule, const json& example) {
  if (rule.kind == UnfoldingKind::kTree) return {.graph = tree_of(example.at("nodes"))};
  const auto prompt = example.at("prompt").get<std::vector<std::int32_t>>();
  CellGraph graph = rule.kind == UnfoldingKind::kChain
                        ? unfold_chain(prompt)
                        : unfold_encode_decode(prompt, {.source_end = rule.source_end,
                                                        .decoder_start = rule.decoder_start,
                                                        .attends = rule.attends});
  return {.graph = std::make_shared<const CellGraph>(std::move(graph)),
          .num_prompt = static_cast<std::uint32_t>(prompt.size()),
          .num_new = static_cast<std::uint32_t>(example.at("greedy").size())};
}

}  // namespace

CellFixture::CellFixture(const std::string& name)
    : directory(test::source_file("tests/fixtures/cells") / name),
      reference(json::parse(test::file_text(directory / "reference.json"))) {}

std::vector<GraphRequest> CellFixture::requests(const Network& network) const {
  std::vector<GraphRequest> all;
  for (const json& example : reference) all.push_back(request_of(*network.unfolding(), example));
  return all;
}

std::vector<double> CellFixture::numbers(std::size_t example) const {
  std::vector<double> numbers;
  for (const json& logits : reference.at(example).at("logits"))
    for (const json& number : logits.is_array() ? logits : json::array({logits})) numbers.push_back(number);
  return numbers;
}

std::shared_ptr<const CellGraph> tree_of(const json& nodes) {
  auto graph = std::make_shared<CellGraph>();
  for (const json& node : nodes) {
    CellGraph::Node cell{.cell = 1, .is_result = true};
    if (!node.at("word").is_null()) cell = {.cell = 0, .token = node.at("word"), .is_result = true};
    graph->add(cell, node.at("children").get<std::vector<CellGraph::NodeIndex>>());
  }
  graph->finish();
  return graph;
}

double largest_difference(const std::vector<float>& numbers, const std::vector<double>& expected) {
  REQUIRE(numbers.size() == expected.size());
  double largest = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    largest = std::max(largest, std::abs(numbers[i] - expected[i]) / std::max(1.0, std::abs(expected[i])));
  return largest;
}

}  // namespace troupe
