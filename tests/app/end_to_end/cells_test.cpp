// SPDX-License-Identifier: Apache-2.0
// The real server with networks of recurrent cells, asked over HTTP: published ones answer as
// their references do, small random ones as PyTorch does with the same weights.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/file_text.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/served_cells.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/test_data.hpp"

using namespace troupe;
using namespace troupe::test;
using nlohmann::json;

namespace {

class CellServer {
 public:
  explicit CellServer(std::vector<std::string> more_flags = {}) : server_(flags(std::move(more_flags))) {}

  HttpAnswer post(const std::string& path, const json& body, const std::string& more_headers = "") const {
    return http_post(server_.port(), path, body.dump(), more_headers);
  }
  json answer(const std::string& path, const json& body) const {
    const auto given = post(path, body);
    REQUIRE_MESSAGE(given.status == 200, given.body);
    return json::parse(given.body);
  }
  std::string refusal(const json& input, const std::string& model = "binary_tree") const {
    const auto given = post("/v1/classify", {{"model", model}, {"input", input}});
    CHECK(given.status == 400);
    return json::parse(given.body).at("error").at("message");
  }

 private:
  std::vector<std::string> flags(std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--log-level", "warning", "--device", "cpu", "--memory", "256MiB"});
    for (const char* name : {"lstm", "binary_tree", "child_sum_tree"})
      flags.insert(flags.end(), {"--model", write_cell_model(directory_.path(), name)});
    return flags;
  }

  TemporaryDirectory directory_;
  ServerProcess server_;
};

// The tree of a reference as brackets; words are labelled, too.
std::string brackets(const json& nodes, std::size_t node) {
  const json& about = nodes[node];
  if (about.at("children").empty()) return "(2 w" + std::to_string(about.at("word").get<int>()) + ")";
  std::string text = "(3";
  for (const json& child : about.at("children")) text += " " + brackets(nodes, child);
  return text + ")";
}

void check_numbers(const json& given, const json& expected) {
  REQUIRE(given.size() == expected.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    const double difference = std::abs(given[i].get<double>() - expected[i].get<double>());
    CHECK(difference < 3e-6 * std::max(1.0, std::abs(expected[i].get<double>())));
  }
}

std::string streamed_text(const CellServer& server, json body) {
  body["stream"] = true;
  std::string text;
  for (const auto& payload : sse_payloads(server.post("/v1/completions", body).body))
    if (payload != "[DONE]")
      for (const json& choice : json::parse(payload).value("choices", json::array()))
        text += choice.at("text").get<std::string>();
  return text;
}

}  // namespace

TEST_CASE("cells over HTTP: an LSTM's completions are PyTorch's, streamed or not, many at once or alone") {
  const CellServer server;
  std::vector<std::future<std::string>> streams;
  const json reference = cell_reference("lstm");
  for (int i = 0; i < 12; ++i)
    streams.push_back(std::async(std::launch::async, [&, i] {
      return streamed_text(server, {{"model", "lstm"},
                                    {"prompt", letters(reference[i % reference.size()].at("prompt"))},
                                    {"temperature", 0},
                                    {"max_tokens", 24}});
    }));
  for (std::size_t i = 0; i < streams.size(); ++i)
    CHECK(streams[i].get() == letters(reference[i % reference.size()].at("greedy")));
  const json whole = server.answer("/v1/completions", {{"model", "lstm"},
                                                       {"prompt", reference[1].at("prompt")},
                                                       {"temperature", 0},
                                                       {"max_tokens", 24},
                                                       {"logprobs", 2}});
  CHECK(whole.at("choices")[0].at("text") == letters(reference[1].at("greedy")));
  CHECK(whole.at("choices")[0].at("logprobs").at("tokens").size() == 24);
  CHECK(whole.at("usage").at("completion_tokens") == 24);
  // What cells do not do is refused by name.
  const auto scored =
      server.post("/v1/completions", {{"model", "lstm"}, {"prompt", "AB"}, {"echo", true}, {"logprobs", 1}});
  CHECK(scored.status == 400);
  CHECK(scored.body.find("no log-probabilities of a prompt") != std::string::npos);
}

TEST_CASE("cells over HTTP: each node of a tree gets PyTorch's numbers, however the tree is written") {
  const CellServer server;
  for (const std::string name : {"binary_tree", "child_sum_tree"}) {
    CAPTURE(name);
    const json reference = cell_reference(name);
    json inputs = json::array();
    for (const json& example : reference) inputs.push_back(numbered_tree(example.at("nodes")));
    const json answer =
        server.answer("/v1/classify", {{"model", name}, {"input", inputs}, {"softmax", false}});
    for (std::size_t i = 0; i < reference.size(); ++i) {
      const json& given = answer.at("data")[i];
      const json& expected = reference[i].at("logits");
      REQUIRE(given.at("nodes").size() == expected.size());
      for (std::size_t node = 0; node < expected.size(); ++node)
        check_numbers(given.at("nodes")[node].at("probs"), expected[node]);
      CHECK(given.at("probs") == given.at("nodes").back().at("probs"));  // the root is the last here
    }
  }
  const json nodes = cell_reference("binary_tree")[2].at("nodes");
  const json expected =
      server.answer("/v1/classify", {{"model", "binary_tree"}, {"input", numbered_tree(nodes)}});
  const json written = server.answer(
      "/v1/classify", {{"model", "binary_tree"}, {"input", "(" + brackets(nodes, nodes.size() - 1) + ")"}});
  CHECK(written.at("data")[0].at("label") == expected.at("data")[0].at("label"));
  CHECK(written.at("data")[0].at("probs") == expected.at("data")[0].at("probs"));
  CHECK(written.at("data")[0].at("nodes").size() == nodes.size());
  CHECK(written.at("usage").at("prompt_tokens") == nodes.size());
}

// Each a few bytes of the request.
std::string unary_nodes(std::size_t num_nodes) {
  std::string tree;
  for (std::size_t i = 0; i + 1 < num_nodes; ++i) tree += "(3";
  return tree + "(2 w1" + std::string(num_nodes, ')');
}

TEST_CASE("cells over HTTP: all nodes of a request are bounded, and counted as tokens") {
  const CellServer server;
  const json answer = server.answer("/v1/classify", {{"model", "binary_tree"}, {"input", unary_nodes(3000)}});
  CHECK(answer.at("data")[0].at("nodes").size() == 3000);
  CHECK(answer.at("usage").at("prompt_tokens") == 3000);
  CHECK(server.refusal(json::array({unary_nodes(40000), unary_nodes(40000)})) ==
        "The trees of one request have at most 65536 nodes; with this one they have 80000.");
}

TEST_CASE("cells over HTTP: the inputs of a request are held against its tenant's tokens in flight") {
  const TemporaryDirectory keys;
  std::ofstream(keys.path() / "keys") << "alice sk-1 max_tokens=40\n";
  const CellServer server({"--api-keys-file", (keys.path() / "keys").string()});
  const auto ask = [&](const json& input) {
    return server.post("/v1/classify", {{"model", "binary_tree"}, {"input", input}},
                       "Authorization: Bearer sk-1\r\n");
  };
  CHECK(ask(unary_nodes(30)).status == 200);
  const auto refused = ask(json::array({unary_nodes(30), unary_nodes(30)}));
  CHECK(refused.status == 400);
  CHECK(json::parse(refused.body).at("error").at("param") == "input[1]");
}

TEST_CASE("cells over HTTP: what is no tree for the model is refused by node and reason") {
  const CellServer server;
  CHECK(server.refusal("(1 (2 w1) (3 w2)") == "The input is no tree: 1 brackets are not closed.");
  CHECK(server.refusal("(1 (2 w1) (3 cat))") ==
        "Node 2 of the tree has the word \"cat\", which is not in the vocabulary of the model binary_tree.");
  CHECK(server.refusal("(1 (2 w1) (2 w2) (2 w3))") ==
        "Node 0 of the tree has 3 children, but this model's have exactly 2.");
  CHECK(server.refusal(
            {{"nodes", {{{"children", {1, 2}}}, {{"word", "w1"}}, {{"children", {3}}}, {{"children", {2}}}}}},
            "child_sum_tree") == "The input is no tree: node 2 is a child of node 0 and of node 3.");
  CHECK(server.refusal({{"nodes", {{{"word", "w1"}}, {{"children", {2}}}, {{"children", {1}}}}}},
                       "child_sum_tree") ==
        "The input is no tree: it has a cycle: the root 0 does not reach node 1.");
  std::string many;
  for (int i = 0; i < 100000; ++i) many += "(1 ";
  CHECK(server.refusal(many) == "The input is no tree: it has more than 65536 nodes.");
  CHECK(server.refusal(7).find("a tree: brackets in a string, or an object") != std::string::npos);
  // A tree in which every inner node has another as a child.
  const auto deep = [](int num_inner) {
    std::string text;
    for (int i = 0; i < num_inner; ++i) text += "(1 ";
    text += "(2 w1)";
    for (int i = 0; i < num_inner; ++i) text += " (2 w2))";
    return text;
  };
  const json answer = server.answer("/v1/classify", {{"model", "binary_tree"}, {"input", deep(1500)}});
  CHECK(answer.at("data")[0].at("nodes").size() == 3001);
  CHECK(server.refusal(deep(3000)) == "The graph needs 3001 rows of state at once, the device has 2048.");
}

TEST_CASE("cells over HTTP: the published character LSTM and g2p answer as their references") {
  const auto charrnn = find_test_data("weights/charrnn/shakespeare");
  const auto g2p = find_test_data("weights/g2p/g2p_gru.safetensors");
  if (!charrnn || !g2p) return;
  const TemporaryDirectory directory;
  const auto convert = [&](const char* network, const std::filesystem::path& source) {
    const std::string output = (directory.path() / network).string();
    const auto result = run_command({"/usr/bin/env", "python3", TROUPE_SOURCE_DIR "/scripts/cells/convert",
                                     network, source.string(), output});
    REQUIRE_MESSAGE(result.exit_status == 0, result.output);
    return output;
  };
  const ServerProcess server({"--log-level", "warning", "--device", "cpu", "--memory", "256MiB", "--model",
                              convert("charrnn", *charrnn), "--model", convert("g2p", *g2p)});
  const auto completion = [&](const json& body) {
    const auto given = http_post(server.port(), "/v1/completions", body.dump());
    REQUIRE_MESSAGE(given.status == 200, given.body);
    return json::parse(given.body).at("choices")[0];
  };
  const json reference = json::parse(file_text(*charrnn / "reference_numpy.json"));
  CHECK(completion(
            {{"model", "charrnn"}, {"prompt", reference.at("seed")}, {"temperature", 0}, {"max_tokens", 60}})
            .at("text") == reference.at("greedy"));
  const std::pair<const char*, const char*> words[] = {{"scheduler", "S K EH1 JH UW0 L ER0"},
                                                       {"pronounce", "P R AH0 N AW1 N S"},
                                                       {"zyzzyva", "Z IH0 Z V AY1 AH0"},
                                                       {"Quixotic", "K W IH0 K S AA1 T IH0 K"}};
  for (const auto& [word, phonemes] : words) {
    const json choice =
        completion({{"model", "g2p"}, {"prompt", word}, {"temperature", 0}, {"max_tokens", 20}});
    CHECK(choice.at("text") == phonemes);
    CHECK(choice.at("finish_reason") == "stop");
  }
}

// The labels of nodes as brackets have them, in the tree's order.
std::vector<int> labels_in(const std::string& brackets) {
  std::vector<int> labels;
  for (std::size_t i = 0; i + 1 < brackets.size(); ++i)
    if (brackets[i] == '(') labels.push_back(brackets[i + 1] - '0');
  return labels;
}

TEST_CASE("cells over HTTP: the sentiment model labels phrases of sentences that it never saw") {
  const ServerProcess server({"--log-level", "warning", "--device", "cpu", "--memory", "256MiB", "--model",
                              TROUPE_SOURCE_DIR "/models/sentiment"});
  const auto classify = [&](const json& input) {
    const auto given = http_post(server.port(), "/v1/classify", json{{"input", input}}.dump());
    REQUIRE_MESSAGE(given.status == 200, given.body);
    return json::parse(given.body).at("data");
  };
  const char* const names[] = {"very negative", "negative", "neutral", "positive", "very positive"};
  json sentences = json::array();
  std::ifstream file(TROUPE_SOURCE_DIR "/models/sentiment/held_out_trees.txt");
  for (std::string line; std::getline(file, line);) sentences.push_back(line);
  REQUIRE(sentences.size() == 200);
  const json answers = classify(sentences);
  std::size_t num_nodes = 0, num_right = 0, num_right_roots = 0;
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    const auto expected = labels_in(sentences[i]);
    const json& nodes = answers[i].at("nodes");
    REQUIRE(nodes.size() == expected.size());
    num_nodes += nodes.size();
    for (std::size_t node = 0; node < nodes.size(); ++node)
      num_right += nodes[node].at("label") == names[expected[node]] ? 1 : 0;
    num_right_roots += answers[i].at("label") == names[expected.front()] ? 1 : 0;
  }
  CHECK(num_right >= num_nodes * 99 / 100);
  CHECK(num_right_roots >= sentences.size() * 97 / 100);
  // Labels of the input are read over; a word that it does not know is an unknown one.
  const auto label = [&](const std::string& quality) {
    return classify("(0 (0 (0 the) (0 film)) (0 (0 was) " + quality + "))")[0].at("label");
  };
  CHECK(label("(0 bad)") == "negative");
  CHECK(label("(0 (0 not) (0 bad))") == "positive");
  CHECK(label("(0 (0 very) (0 good))") == "very positive");
  CHECK(label("(0 (0 not) (0 (0 very) (0 good)))") == "negative");
  CHECK(classify("(0 (0 the) (0 quixotic))")[0].at("nodes").size() == 3);
}
