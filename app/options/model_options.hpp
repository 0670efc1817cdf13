// SPDX-License-Identifier: Apache-2.0
// Options of one model, of which a server may have several: a [[model]] each in the
// file, or a --model each on the command line.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policy/setting.hpp"

namespace troupe {

struct ModelOptions {
  std::string dir = {};     // or a GGUF file
  std::string name = {};    // empty: the name of the directory, or of the file without .gguf
  double memory_share = 0;  // of a device's memory; 0: as much as each of the others of what is left
};

// Keys of [[model]], as "model.dir"; those with a flag are also [model]'s.
std::span<const Setting<ModelOptions>> model_table();

// The name clients call it by.
std::string served_name(const ModelOptions& model);

// In the order of the models; at most 1 in all if find_problem() finds none.
std::vector<double> memory_shares(const std::vector<ModelOptions>& models);

// The reason why these models can't be served together; nullopt: they can.
std::optional<std::string> find_problem(const std::vector<ModelOptions>& models);

}  // namespace troupe
