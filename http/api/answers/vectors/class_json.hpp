// SPDX-License-Identifier: Apache-2.0
// Labels that a classifier gives texts, or the nodes of a tree, as JSON, one element after
// the other: a few bytes of a tree are a node, so an answer may be long. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "http/api/served_model_info.hpp"

namespace troupe {

// Numbers for each label. A view: vectors and model outlive it.
struct ClassView {
  std::span<const float> vectors;  // [num_vectors(), size]; finite
  const ServedModelInfo* model = nullptr;
  std::uint32_t size = 0;
  bool activates = true;
  bool are_inputs = false;  // else nodes of a tree

  std::size_t num_vectors() const { return size == 0 ? 0 : vectors.size() / size; }
};

// A classifier's numbers for one input, activated if the request says so: they add up to
// 1, or stand each for itself where there is one label or labels are independent.
std::vector<float> probabilities_of(std::span<const float> numbers, const ServedModelInfo& model,
                                    bool activates);

// Between 0 and 1.
float sigmoid(float x);

// "label":…,"probs":[…]
void append_label(std::string& out, const ServedModelInfo& model, std::span<const float> vector,
                  bool activates);

// {"index":…,"label":…,"probs":[…],"num_classes":…}, of a node label and probs alone
void append_class(std::string& out, const ClassView& view, std::size_t index);

}  // namespace troupe
