// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/vectors/class_json.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "http/json/json_text.hpp"

namespace troupe {
namespace {

std::vector<float> softmax(std::span<const float> numbers) {
  const float highest = *std::max_element(numbers.begin(), numbers.end());
  double sum = 0;
  for (const float x : numbers) sum += std::exp(double{x} - highest);
  std::vector<float> shares;
  for (const float x : numbers) shares.push_back(static_cast<float>(std::exp(double{x} - highest) / sum));
  return shares;
}

std::size_t largest(std::span<const float> numbers) {
  return static_cast<std::size_t>(std::max_element(numbers.begin(), numbers.end()) - numbers.begin());
}

}  // namespace

float sigmoid(float x) { return static_cast<float>(1.0 / (1.0 + std::exp(-double{x}))); }

std::vector<float> probabilities_of(std::span<const float> numbers, const ServedModelInfo& model,
                                    bool activates) {
  if (activates && numbers.size() > 1 && !model.has_independent_labels) return softmax(numbers);
  std::vector<float> result(numbers.begin(), numbers.end());
  if (activates) std::transform(result.begin(), result.end(), result.begin(), sigmoid);
  return result;
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

void append_class(std::string& out, const ClassView& view, std::size_t index) {
  out += '{';
  if (view.are_inputs) {
    out += "\"index\":";
    append_json_integer(out, static_cast<std::int64_t>(index));
    out += ',';
  }
  append_label(out, *view.model, view.vectors.subspan(index * view.size, view.size), view.activates);
  if (view.are_inputs) {
    out += ",\"num_classes\":";
    append_json_integer(out, static_cast<std::int64_t>(view.size));
  }
  out += '}';
}

}  // namespace troupe
