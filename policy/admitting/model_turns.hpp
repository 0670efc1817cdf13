// SPDX-License-Identifier: Apache-2.0
// The order in which models that share a worker submit to it: start-time fair queueing
// (Goyal et al., SIGCOMM 1996) with equal weights. A batch is charged when it is
// submitted, with what the model's batches took of late, and corrected when it is done.
// Idleness earns no credit: a model that was idle begins at the virtual time, which is
// the start tag of the batch that was submitted last.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace troupe {

// One instance a worker. Plain calls of one owner.
class ModelTurns {
 public:
  explicit ModelTurns(std::size_t num_models) : models_(num_models) {}

  // All models; ties: the lower index.
  std::vector<std::size_t> order() const;

  void submit(std::size_t model);
  // The oldest batch of the model is done: the device worked on it so long.
  void finish(std::size_t model, std::chrono::nanoseconds time);
  // The time of a batch of the model, of late; 0: not known.
  std::chrono::nanoseconds usual(std::size_t model) const { return models_[model].usual; }
  // The batches in flight are lost.
  void forget_submitted();

 private:
  friend class Fingerprint;
  using Time = std::chrono::nanoseconds;
  struct Model {
    Time finish_tag{0};
    Time usual{0};              // of a batch, followed slowly; 0: not known
    std::vector<Time> charged;  // of batches in flight, oldest first
  };
  Time start_tag(const Model& model) const;

  std::vector<Model> models_;
  Time virtual_time_{0};
};

}  // namespace troupe
