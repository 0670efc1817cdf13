// SPDX-License-Identifier: Apache-2.0
// All models of a server: one plan of the memory for all before the first
// allocation, and the CPU's cores shared by them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/loading/model_loading.hpp"

namespace troupe {

// The options of one model alone, of `num_cpus` usable CPUs. In processes of its own it has its
// thread share, pinned to CPUs of its own or to none. The device stays as it is, and the memory
// too: of several models it is divided by load_models(), of one it is its share of --memory.
Options options_of_model(const Options& options, std::size_t model, std::uint64_t num_cpus);

// Throws ConfigurationError: --quantize asks for blocks, and no model is a decoder, whose weights alone are
// made into them. Beside a decoder, models of other kinds are as they are without it.
void check_quantization(const Options& options);

// The model of --length-encoder; nullopt: none is asked for. Throws ConfigurationError: --length-encoder
// names no model of vectors.
std::optional<ModelIndex> find_length_encoder(const Options& options);

// In the order of the options. Before a device is made their store directory must be open in this process,
// or "none": packed weights are kept there. A model that encodes takes what it needs; what is left
// of the memory, and all of the host tier's, is divided among those that generate, by
// their shares. Throws as load_model().
std::vector<LoadedModel> load_models(const Options& options);

// The first of the models, as a server has it that serves no other. Its packed weights are not kept: no
// store directory is open. Throws as load_model().
LoadedModel load_first_model(const Options& options);

// The one whose KV pages go to the disk; null: none has any.
const LoadedModel* first_with_pages(const std::vector<LoadedModel>& models);

// For logs and the label of metrics: "chat+embedder".
std::string joined_names(const std::vector<LoadedModel>& models);

}  // namespace troupe
