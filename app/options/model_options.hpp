// SPDX-License-Identifier: Apache-2.0
// Options of one model, of which a server may have several: a [[model]] each in the
// file, or a --model each on the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policy/setting.hpp"

namespace troupe {

struct ModelOptions {
  std::string dir = {};       // or a GGUF file
  std::string name = {};      // empty: the name of the directory, or of the file without .gguf
  double memory_share = 0;    // of a device's memory; 0: as much as each of the others of what is left
  std::uint64_t threads = 0;  // of its workers, which are processes; 0: see thread_shares()
  // As in [scheduler], for this model alone; 0: as there.
  std::uint32_t max_batch_sequences = 0, max_waiting = 0;

  bool operator==(const ModelOptions&) const = default;
};

// Keys of [[model]], as "model.dir"; those with a flag are also [model]'s.
std::span<const Setting<ModelOptions>> model_table();

// The name clients call it by.
std::string served_name(const ModelOptions& model);

// In the order of the models; at most 1 in all if find_problem() finds none.
std::vector<double> memory_shares(const std::vector<ModelOptions>& models);

// Compute threads of a model whose workers are processes of its own.
struct ThreadShare {
  std::uint64_t threads = 0;    // of all its workers together, at least 1
  std::uint64_t first_cpu = 0;  // of the model's own, among the usable ones
  bool has_cores = false;       // false: there are fewer cores than threads of all models
  bool operator==(const ThreadShare&) const = default;
};

// In the order of the models. threads: of a model that does not say it; 0: such models divide
// the CPUs that the others leave.
std::vector<ThreadShare> thread_shares(const std::vector<ModelOptions>& models, std::uint64_t threads,
                                       std::uint64_t num_cpus);

// The reason why these models can't be served together; nullopt: they can.
std::optional<std::string> find_problem(const std::vector<ModelOptions>& models);

}  // namespace troupe
