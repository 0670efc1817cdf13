// SPDX-License-Identifier: Apache-2.0
// A network's weights as the CPU backend wants them: matrices packed once, in the
// blocks of a file that has them; vectors in f32, tables (embeddings) as in the file.
// Read-only after loading, shared by successive devices, so restarting a worker packs
// nothing again. A later process maps what was packed (kept_weights.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/block_format.hpp"
#include "gpu/cpu/kernels/matmul/onednn_matmul.hpp"
#include "gpu/cpu/kernels/matmul/packed_matrix.hpp"
#include "gpu/cpu/thread_pool.hpp"
#include "gpu/model/weights.hpp"
#include "gpu/networks/network.hpp"

namespace troupe {

struct CpuMatrix {
  std::vector<PackedMatrix> parts;     // stacked by outputs, each in a format of its own
  std::optional<OnednnMatrix> onednn;  // for many rows, where determinism was given up

  std::size_t num_outputs() const;
  std::size_t num_inputs() const { return parts.front().num_inputs(); }
};

struct CpuTable {
  std::span<const std::byte> rows;  // [num_rows, columns]
  BlockFormat format = BlockFormat::kF32;
  const PackedMatrix* head = nullptr;  // has the rows of a table in blocks that is tied to it

  std::size_t num_elements() const;
  // A row of a table in blocks.
  void open_row(std::size_t row, std::span<float> values) const;
};

struct CpuWeightSettings {
  DataType compute_type = DataType::kF32;  // kF32 or kBF16
  bool with_onednn = false;                // keeps a second copy of every plain matrix that is not quantized
  Quantization quantization = Quantization::kKeep;
};

struct PackingOptions {
  // Opened of a matrix beside what is packed, but at least those of a panel of outputs.
  std::size_t elements_at_once = std::size_t{1} << 24;
  // Told of each weight that is packed: its elements. May be empty.
  std::function<void(std::uint64_t)> report = {};
};

class CpuWeights {
 public:
  // Copies and packs everything, and gives the memory of the mapped sources back as it goes; the
  // store may go afterwards. Throws std::runtime_error if a tensor is missing, misshapen or was changed.
  CpuWeights(const WeightStore& store, const Network& network, CpuWeightSettings settings,
             ThreadPool& threads, const PackingOptions& options = {});
  // For the same store, network and settings, as another object had them: packed is its segments(), each
  // from a multiple of kSegmentAlignment on. Reads nothing of the store but its headers; owner keeps the
  // bytes alive. Throws std::runtime_error: there are more bytes or fewer.
  CpuWeights(const WeightStore& store, const Network& network, CpuWeightSettings settings,
             std::span<const std::byte> packed, std::shared_ptr<const void> owner);
  // Views of weights lie in other members.
  CpuWeights(const CpuWeights&) = delete;
  CpuWeights& operator=(const CpuWeights&) = delete;

  static constexpr std::size_t kSegmentAlignment = 64;
  // All that was packed or copied but for oneDNN's copies.
  const std::vector<std::span<const std::byte>>& segments() const { return segments_; }
  bool is_packed_before() const { return owner_ != nullptr; }

  const CpuWeightSettings& settings() const { return settings_; }
  // Null if there is no such weight of this kind.
  const CpuMatrix* find_matrix(std::string_view name) const;
  const std::vector<float>* find_vector(std::string_view name) const;
  const CpuTable* find_table(std::string_view name) const;

 private:
  void load_matrix(const WeightSpec& spec, const std::vector<WeightView>& views, std::size_t elements_at_once,
                   ThreadPool& threads);
  void add_vector(const WeightSpec& spec, std::vector<float> values);
  void add_tied(const WeightStore& store, const std::vector<WeightSpec>& specs);

  CpuWeightSettings settings_;
  std::map<std::string, CpuMatrix, std::less<>> matrices_;
  std::map<std::string, std::vector<float>, std::less<>> vectors_;
  std::map<std::string, CpuTable, std::less<>> tables_;
  std::vector<std::vector<std::byte>> table_rows_;  // of tables_, but for those of the owner
  std::vector<std::span<const std::byte>> segments_;
  std::shared_ptr<const void> owner_;  // null: everything is in the members above
};

// The blocks that matrices of CpuWeights will have.
std::set<BlockFormat> cpu_block_formats(const WeightStore& store, const Network& network,
                                        CpuWeightSettings settings);
// "Q4_K, Q6_K" of a file, "q8" or "q4" made at load; empty: none.
std::string in_words(const std::set<BlockFormat>& formats, Quantization quantization);

// Elements of all weights.
std::uint64_t num_weight_elements(const Network& network);

// Bytes that CpuWeights will occupy, without loading anything.
std::uint64_t cpu_weight_bytes(const WeightStore& store, const Network& network, CpuWeightSettings settings);

}  // namespace troupe
