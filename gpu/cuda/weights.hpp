// SPDX-License-Identifier: Apache-2.0
// A network's weights in a GPU's memory: matrices and the embedding table in the
// compute type, vectors in f32 and, as biases of products, in the compute type
// too. One piece of memory, whose size is known before it is taken.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/cuda/runtime/memory.hpp"
#include "gpu/model/weights.hpp"
#include "gpu/networks/network.hpp"

namespace troupe::cuda {

struct DeviceWeight {
  const std::byte* data = nullptr;             // on the device, [rows, columns]
  const std::byte* in_compute_type = nullptr;  // the same as data, but for vectors
  DataType type = DataType::kF32;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
};

// Where each weight will lie. Weights of the same tensors share their place
// (tied embeddings).
class WeightLayout {
 public:
  // Throws std::runtime_error for a weight that files have less a number (WeightSpec::added).
  WeightLayout(const Network& network, DataType compute_type);

  struct Entry {
    WeightSpec spec;
    std::size_t offset = 0;       // bytes
    std::size_t copy_offset = 0;  // of a vector in the compute type; as offset for others
    DataType type = DataType::kF32;
    bool is_shared = false;  // another entry has the same place and fills it
  };
  const std::vector<Entry>& entries() const { return entries_; }
  DataType compute_type() const { return compute_type_; }
  std::uint64_t size_bytes() const { return size_bytes_; }

 private:
  std::size_t take(std::size_t size_bytes);

  DataType compute_type_;
  std::vector<Entry> entries_;
  std::uint64_t size_bytes_ = 0;
};

// Immutable when loaded; any thread may look.
class DeviceWeights {
 public:
  // Converts and copies everything through pinned memory, on several threads; the store may
  // go afterwards. Throws std::runtime_error: a tensor is missing, misshapen or was
  // changed; CudaError.
  DeviceWeights(const WeightStore& store, const WeightLayout& layout);

  // Throws std::runtime_error if there is none of the name.
  const DeviceWeight& find(std::string_view name) const;

 private:
  DeviceMemory memory_;
  std::map<std::string, DeviceWeight, std::less<>> weights_;
};

}  // namespace troupe::cuda
