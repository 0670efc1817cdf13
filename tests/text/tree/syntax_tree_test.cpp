// SPDX-License-Identifier: Apache-2.0
#include "text/tree/syntax_tree.hpp"

#include <doctest/doctest.h>

#include <fstream>

#include "tests/support/test_data.hpp"

using namespace troupe;

namespace {

std::string problem_of(const std::string& text) {
  try {
    parse_tree(text);
  } catch (const TreeError& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> words_of(const SyntaxTree& tree) {
  std::vector<std::string> words;
  for (const auto& node : tree.nodes) words.push_back(node.word);
  return words;
}

}  // namespace

TEST_CASE("syntax tree: brackets, with labels, escapes and an empty bracket around them") {
  const SyntaxTree tree = parse_tree("(3 (2 It) (4 (2 -LRB-) (2 1\\/2)))\n");
  CHECK(words_of(tree) == std::vector<std::string>{"", "It", "", "(", "1/2"});
  CHECK(tree.root == 0);
  CHECK(tree.nodes[0].children == std::vector<std::uint32_t>{1, 2});
  CHECK(tree.nodes[2].children == std::vector<std::uint32_t>{3, 4});
  CHECK(tree.children_first() == std::vector<std::uint32_t>{1, 3, 4, 2, 0});
  const SyntaxTree bank = parse_tree("( (S (NP (NN dogs)) (VP bark)))");
  CHECK(words_of(bank) == std::vector<std::string>{"", "", "dogs", "bark"});
  CHECK(bank.nodes[0].children == std::vector<std::uint32_t>{1, 3});
}

TEST_CASE("syntax tree: JSON, nested or by number in any order") {
  const SyntaxTree nested = parse_tree(
      R"({"children": [{"word": "a"}, {"word": "b", "children": [{"word": "c"}, {"word": "d"}]}]})");
  CHECK(words_of(nested) == std::vector<std::string>{"", "a", "b", "c", "d"});
  CHECK(nested.nodes[0].children == std::vector<std::uint32_t>{1, 2});
  CHECK(nested.nodes[2].children == std::vector<std::uint32_t>{3, 4});
  const SyntaxTree numbered =
      parse_tree(R"({"nodes": [{"word": "a"}, {"children": [2, 0]}, {"word": "b"}]})");
  CHECK(numbered.root == 1);
  CHECK(numbered.children_first() == std::vector<std::uint32_t>{2, 0, 1});
}

TEST_CASE("syntax tree: what is none says where and why") {
  const auto problem = [](const std::string& text) {
    const std::string begin = "The input is no tree: ";
    const std::string found = problem_of(text);
    REQUIRE(found.starts_with(begin));
    return found.substr(begin.size());
  };
  CHECK(problem("  ") == "it is empty.");
  CHECK(problem("word") == "\"(\" or \"{\" was expected at byte 0.");
  CHECK(problem("(1 (2 a)") == "1 brackets are not closed.");
  CHECK(problem("(1 a))") == "there is more behind its end at byte 5.");
  CHECK(problem("(1 a) (1 b)") == "there is more behind its end at byte 6.");
  CHECK(problem("()") == "a node has neither a word nor children at byte 0.");
  CHECK(problem("(1 a b)") == "a node has two words at byte 5.");
  CHECK(problem("(1 a (2 b))") == "a node has a word and children at byte 5.");
  CHECK(problem("(1 (2 b) a)") == "a node has children and a word at byte 9.");
  CHECK(problem("(1 " + std::string(257, 'x') + ")") ==
        "the word at byte 3 has 257 bytes, at most 256 are possible.");
  CHECK(problem("{") == "its JSON is malformed.");
  CHECK(problem("{}") == "node 0 has neither a word nor children.");
  CHECK(problem(R"({"children": 1})") == "\"children\" of node 0 is not a list.");
  CHECK(problem(R"({"children": ["a"]})") == "node 1 is not an object.");
  CHECK(problem(R"({"word": ""})") == "\"word\" of node 0 is not a string with a word in it.");
  CHECK(problem(R"({"nodes": []})") == "\"nodes\" is not a list of nodes.");
  CHECK(problem(R"({"nodes": [{"children": [1]}]})") ==
        "a child of node 0 is not the number of a node, which are below 1.");
  CHECK(problem(R"({"nodes": [{"word": "a"}, {"word": "b"}]})") == "nodes 0 and 1 both have no parent.");
  CHECK(problem(R"({"nodes": [{"children": [1]}, {"children": [0]}]})") ==
        "it has a cycle: every node has a parent.");
  CHECK(problem(R"({"nodes": [{"word": "a"}, {"children": [1]}]})") ==
        "it has a cycle: the root 0 does not reach node 1.");
  CHECK(problem(R"({"nodes": [{"children": [2, 2]}, {"children": [0]}, {"word": "a"}]})") ==
        "node 2 is a child of node 0 and of node 0.");
}

TEST_CASE("syntax tree: one as deep as it has nodes is read, one node more is refused") {
  const auto deep = [](std::size_t num_nodes) {
    std::string text;
    for (std::size_t i = 1; i < num_nodes; ++i) text += "(1 ";
    return text + "(1 a)" + std::string(num_nodes - 1, ')');
  };
  CHECK(parse_tree(deep(SyntaxTree::kMaxNodes)).nodes.size() == SyntaxTree::kMaxNodes);
  CHECK(problem_of(deep(SyntaxTree::kMaxNodes + 1)) == "The input is no tree: it has more than 65536 nodes.");
  std::string nested;
  for (int i = 0; i < 100; ++i) nested += R"({"children": [)";
  CHECK(problem_of(nested).find("nested deeper than 64") != std::string::npos);
}

TEST_CASE("syntax tree: every shape of a treebank is read") {
  const auto path = find_test_data("sst");
  if (!path) return;
  for (const auto& file : std::filesystem::directory_iterator(*path)) {
    std::ifstream lines(file.path());
    std::string line;
    for (int i = 0; i < 200 && std::getline(lines, line); ++i) {
      CAPTURE(line);
      const SyntaxTree tree = parse_tree(line);
      for (const auto& node : tree.nodes) REQUIRE(node.word.empty() != node.children.empty());
    }
  }
}
