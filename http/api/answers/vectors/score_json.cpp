// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/vectors/score_json.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>

#include "http/json/json_text.hpp"

namespace troupe {
namespace {

constexpr std::size_t kDocumentsAUnit = 100;  // Cohere's search unit: a query and so many

float sigmoid(float x) { return static_cast<float>(1.0 / (1.0 + std::exp(-double{x}))); }

float cosine(std::span<const float> a, std::span<const float> b) {
  double product = 0, of_a = 0, of_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    product += double{a[i]} * b[i];
    of_a += double{a[i]} * a[i];
    of_b += double{b[i]} * b[i];
  }
  if (of_a == 0 || of_b == 0) return 0;
  return static_cast<float>(std::clamp(product / std::sqrt(of_a * of_b), -1.0, 1.0));
}

std::vector<float> softmax(std::span<const float> numbers) {
  const float highest = *std::max_element(numbers.begin(), numbers.end());
  double sum = 0;
  for (const float x : numbers) sum += std::exp(double{x} - highest);
  std::vector<float> shares;
  for (const float x : numbers) shares.push_back(static_cast<float>(std::exp(double{x} - highest) / sum));
  return shares;
}

std::span<const float> vector_at(const Embedded& answer, std::size_t index) {
  return std::span<const float>(answer.vectors).subspan(index * answer.size, answer.size);
}

void append_usage_member(std::string& out, const Embedded& answer) {
  out += ",\"usage\":{\"prompt_tokens\":";
  append_json_integer(out, answer.prompt_tokens);
  out += ",\"total_tokens\":";
  append_json_integer(out, answer.prompt_tokens);
  out += '}';
}

void begin_list(std::string& out, const ApiEmbeddingRequest& request, const ServedModelInfo& model) {
  out += "{\"id\":";
  append_json_string(out, request.id);
  out += ",\"object\":\"list\",\"created\":";
  append_json_integer(out, request.created);
  out += ",\"model\":";
  append_json_string(out, model.name);
  out += ",\"data\":[";
}

std::size_t largest(std::span<const float> numbers) {
  return static_cast<std::size_t>(std::max_element(numbers.begin(), numbers.end()) - numbers.begin());
}

// The label is that of the largest number as it was before it was squeezed into 0 to 1, where large
// ones are equal.
void append_label(std::string& out, const ServedModelInfo& model, std::span<const float> vector,
                  bool activates) {
  const std::size_t best = largest(vector);
  out += "\"label\":";
  append_json_string(out, best < model.labels.size() ? std::string_view(model.labels[best]) : "");
  out += ",\"probs\":[";
  const std::vector<float> numbers = probabilities_of(vector, model, activates);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) out += ',';
    append_json_float(out, numbers[i]);
  }
  out += ']';
}

// Vectors [first, first + num_nodes) of the answer are those of a tree's nodes, in its order.
void append_nodes(std::string& out, const ApiEmbeddingRequest& request, const ServedModelInfo& model,
                  const Embedded& answer, std::size_t first, std::size_t num_nodes) {
  out += ",\"nodes\":[";
  for (std::size_t node = 0; node < num_nodes; ++node) {
    out += node > 0 ? ",{" : "{";
    append_label(out, model, vector_at(answer, first + node), request.activates);
    out += '}';
  }
  out += ']';
}

// Scores as the model gives them.
std::vector<float> raw_scores(const ApiEmbeddingRequest& request, const Embedded& answer) {
  const std::size_t num_vectors = answer.size == 0 ? 0 : answer.vectors.size() / answer.size;
  std::vector<float> scores;
  for (std::size_t i = request.num_first; i < num_vectors; ++i) {
    const auto vector = vector_at(answer, i);
    if (request.num_first == 0) {
      scores.push_back(vector[0]);
    } else {
      scores.push_back(cosine(vector_at(answer, request.num_first == 1 ? 0 : i - request.num_first), vector));
    }
  }
  return scores;
}

std::vector<float> activated(const ApiEmbeddingRequest& request, std::vector<float> scores) {
  if (request.num_first == 0 && request.activates)
    std::transform(scores.begin(), scores.end(), scores.begin(), sigmoid);
  return scores;
}

}  // namespace

std::vector<float> scores_of(const ApiEmbeddingRequest& request, const Embedded& answer) {
  return activated(request, raw_scores(request, answer));
}

std::vector<float> probabilities_of(std::span<const float> numbers, const ServedModelInfo& model,
                                    bool activates) {
  if (activates && numbers.size() > 1 && !model.has_independent_labels) return softmax(numbers);
  std::vector<float> result(numbers.begin(), numbers.end());
  if (activates) std::transform(result.begin(), result.end(), result.begin(), sigmoid);
  return result;
}

void append_classes(AnswerJson& json, const ApiEmbeddingRequest& request, const ServedModelInfo& model,
                    const Embedded& answer) {
  begin_list(json.out(), request, model);
  std::string& out = json.out();
  const bool are_trees = !answer.trees.empty();
  const std::size_t num_vectors = answer.size == 0 ? 0 : answer.vectors.size() / answer.size;
  const std::size_t num_inputs = are_trees ? answer.trees.size() : num_vectors;
  std::size_t first = 0;  // vector of the input
  for (std::size_t i = 0; i < num_inputs; ++i) {
    const Embedded::Tree tree = are_trees ? answer.trees[i] : Embedded::Tree{.num_nodes = 1};
    out += i > 0 ? ",{\"index\":" : "{\"index\":";
    append_json_integer(out, static_cast<std::int64_t>(i));
    out += ',';
    append_label(out, model, vector_at(answer, first + tree.root), request.activates);
    out += ",\"num_classes\":";
    append_json_integer(out, static_cast<std::int64_t>(answer.size));
    if (are_trees) append_nodes(out, request, model, answer, first, tree.num_nodes);
    out += '}';
    first += tree.num_nodes;
  }
  out += ']';
  append_usage_member(out, answer);
  out += '}';
}

void append_scores(AnswerJson& json, const ApiEmbeddingRequest& request, const ServedModelInfo& model,
                   const Embedded& answer) {
  std::string& out = json.out();
  begin_list(out, request, model);
  const auto scores = scores_of(request, answer);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    out += i > 0 ? ",{\"index\":" : "{\"index\":";
    append_json_integer(out, static_cast<std::int64_t>(i));
    out += ",\"object\":\"score\",\"score\":";
    append_json_float(out, scores[i]);
    out += '}';
  }
  out += ']';
  append_usage_member(out, answer);
  out += '}';
}

void append_ranks(AnswerJson& json, const ApiEmbeddingRequest& request, const ServedModelInfo& model,
                  const Embedded& answer) {
  std::string& out = json.out();
  const auto raw = raw_scores(request, answer);
  const auto scores = activated(request, raw);
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return raw[a] > raw[b]; });
  if (request.top_n > 0 && request.top_n < order.size()) order.resize(request.top_n);
  out += "{\"id\":";
  append_json_string(out, request.id);
  out += ",\"model\":";
  append_json_string(out, model.name);
  out += ",\"results\":[";
  for (std::size_t i = 0; i < order.size(); ++i) {
    out += i > 0 ? ",{\"index\":" : "{\"index\":";
    append_json_integer(out, static_cast<std::int64_t>(order[i]));
    if (order[i] < request.documents.size()) {
      out += ",\"document\":{\"text\":";
      json.text(request.documents[order[i]]);
      out += '}';
    }
    out += ",\"relevance_score\":";
    append_json_float(out, scores[order[i]]);
    out += '}';
  }
  out += ']';
  append_usage_member(out, answer);
  out += ",\"meta\":{\"api_version\":{\"version\":\"2\"},\"billed_units\":{\"search_units\":";
  append_json_integer(out,
                      static_cast<std::int64_t>((scores.size() + kDocumentsAUnit - 1) / kDocumentsAUnit));
  out += "}}}";
}

}  // namespace troupe
