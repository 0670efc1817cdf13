// SPDX-License-Identifier: Apache-2.0
// GPT-2, OPT, GPT-NeoX (Pythia), GPT-J and Phi-1 to 2: layer norms with biases, a feed-forward of one
// activation, no gate. GPT-2 and OPT add a table of positions to their embeddings; the others rotate part of
// a head, and may let attention and feed-forward of a layer read the same x, GPT-J and Phi the same norm of
// it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/model/model_config.hpp"
#include "gpu/networks/network.hpp"

namespace troupe {

// Modules in files; those of a layer stand behind its prefix. Empty: it has none.
struct GptNames {
  std::string other_prefix = {};  // as in WeightSpec
  std::string embedding = {}, positions = {}, layers = {}, attention_norm = {};
  std::vector<std::string> qkv = {};
  std::string o = {}, feed_forward_norm = {}, up = {}, down = {}, norm = {}, lm_head = {};
  // As in WeightSpec: of the layers' matrices, and of queries, keys and values.
  FileOrder order = FileOrder::kAsRead, qkv_order = FileOrder::kAsRead;  // kAsRead: as order
  std::uint32_t paired_rows = 0;
};

class GptNetwork final : public Network {
 public:
  // Throws std::runtime_error without config.gpt.
  explicit GptNetwork(ModelConfig config, GptNames names = {});

  ModelShapes shapes() const override;
  std::vector<CellType> cells() const override;
  std::vector<WeightSpec> weights() const override;
  std::vector<std::string> layer_prefixes() const override;
  Program build_program(CellId cell, ProgramShape shape, DataType compute_type) const override;

 private:
  ModelConfig config_;
  GptNames names_;
};

}  // namespace troupe
