// SPDX-License-Identifier: Apache-2.0
// A network's weights as the host backend wants them: matrices packed once,
// vectors in f32, tables (embeddings) as in the file. Read-only after loading,
// shared by successive devices, so restarting a worker packs nothing again.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/host/kernels/onednn_matmul.hpp"
#include "gpu/host/kernels/packed_matrix.hpp"
#include "gpu/host/thread_pool.hpp"
#include "gpu/networks/network.hpp"
#include "gpu/weights.hpp"

namespace troupe {

struct HostMatrix {
  PackedMatrix packed;
  std::optional<OnednnMatrix> onednn;  // for many rows, where determinism was given up
};

struct HostTable {
  std::vector<std::byte> rows;  // [num_rows, columns]
  DataType type = DataType::kF32;
};

struct HostWeightSettings {
  DataType compute_type = DataType::kF32;  // kF32 or kBF16
  bool with_onednn = false;                // keeps a second copy of every matrix
};

class HostWeights {
 public:
  // Copies and packs everything; the store may go afterwards. Throws
  // std::runtime_error if a tensor is missing, misshapen or was changed.
  HostWeights(const WeightStore& store, const Network& network, HostWeightSettings settings,
              ThreadPool& threads);

  const HostWeightSettings& settings() const { return settings_; }
  // Null if there is no such weight of this kind.
  const HostMatrix* find_matrix(std::string_view name) const;
  const std::vector<float>* find_vector(std::string_view name) const;
  const HostTable* find_table(std::string_view name) const;

 private:
  void load_matrix(const WeightSpec& spec, const std::vector<WeightView>& views, ThreadPool& threads);

  HostWeightSettings settings_;
  std::map<std::string, HostMatrix, std::less<>> matrices_;
  std::map<std::string, std::vector<float>, std::less<>> vectors_;
  std::map<std::string, HostTable, std::less<>> tables_;
};

// What HostWeights will occupy, without loading anything.
std::uint64_t host_weight_bytes(const WeightStore& store, const Network& network,
                                HostWeightSettings settings);

}  // namespace troupe
