// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/vectors/score_json.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>

#include "http/api/answers/vectors/class_json.hpp"
#include "http/json/json_text.hpp"

namespace troupe {
namespace {

constexpr std::size_t kDocumentsAUnit = 100;  // Cohere's search unit: a query and so many

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
  out += ",\"data\":";
}

// The label of a tree is its root's.
void append_trees(AnswerJson& json, const ClassView& view, const Embedded& answer) {
  std::string& out = json.out();
  std::size_t first = 0;  // vector of the tree
  for (std::size_t i = 0; i < answer.trees.size(); ++i) {
    const Embedded::Tree& tree = answer.trees[i];
    out += i > 0 ? ",{\"index\":" : "[{\"index\":";
    append_json_integer(out, static_cast<std::int64_t>(i));
    out += ',';
    append_label(out, *view.model, vector_at(answer, first + tree.root), view.activates);
    out += ",\"num_classes\":";
    append_json_integer(out, static_cast<std::int64_t>(answer.size));
    out += ",\"nodes\":";
    ClassView nodes = view;
    nodes.vectors = view.vectors.subspan(first * view.size, std::size_t{tree.num_nodes} * view.size);
    json.classes(nodes, answer.vectors.size());
    out += '}';
    first += tree.num_nodes;
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

void append_classes(AnswerJson& json, const ApiEmbeddingRequest& request, const ServedModelInfo& model,
                    const Embedded& answer) {
  begin_list(json.out(), request, model);
  ClassView view{.vectors = answer.vectors,
                 .model = &model,
                 .size = answer.size,
                 .activates = request.activates,
                 .are_inputs = true};
  if (answer.trees.empty()) {
    json.classes(view, answer.vectors.size());
  } else {
    view.are_inputs = false;
    append_trees(json, view, answer);
  }
  append_usage_member(json.out(), answer);
  json.out() += '}';
}

void append_scores(AnswerJson& json, const ApiEmbeddingRequest& request, const ServedModelInfo& model,
                   const Embedded& answer) {
  std::string& out = json.out();
  begin_list(out, request, model);
  out += '[';
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
