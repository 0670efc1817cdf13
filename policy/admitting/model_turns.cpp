// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/model_turns.hpp"

#include <algorithm>
#include <numeric>

namespace troupe {
namespace {

constexpr int kFollow = 4;  // a new time counts one part in so many

}  // namespace

ModelTurns::Time ModelTurns::start_tag(const Model& model) const {
  return std::max(virtual_time_, model.finish_tag);
}

std::vector<std::size_t> ModelTurns::order() const {
  std::vector<std::size_t> order(models_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    return start_tag(models_[a]) < start_tag(models_[b]);
  });
  return order;
}

void ModelTurns::submit(std::size_t model) {
  Model& submitting = models_[model];
  virtual_time_ = start_tag(submitting);
  submitting.finish_tag = virtual_time_ + submitting.usual;
  submitting.charged.push_back(submitting.usual);
}

void ModelTurns::finish(std::size_t model, Time time) {
  Model& finishing = models_[model];
  if (!finishing.charged.empty()) {
    finishing.finish_tag += time - finishing.charged.front();
    finishing.charged.erase(finishing.charged.begin());
  }
  finishing.usual = finishing.usual == Time(0) ? time : finishing.usual + (time - finishing.usual) / kFollow;
}

void ModelTurns::forget_submitted() {
  for (Model& model : models_) model.charged.clear();
}

}  // namespace troupe
