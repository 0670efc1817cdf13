// SPDX-License-Identifier: Apache-2.0
// Rows on their way from a model's file to a GPU: converted into one half of a
// pinned buffer while the other half is copied.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "gpu/cuda/runtime/memory.hpp"
#include "gpu/cuda/runtime/stream.hpp"
#include "gpu/data_type.hpp"

namespace troupe::cuda {

// One thread, with its GPU chosen.
class WeightUpload {
 public:
  WeightUpload();

  // `source`: num_elements of source_type, aligned or not; `target`: on the
  // device, of target_type. Returns when the source may go. Throws CudaError.
  void copy(DataType source_type, const std::byte* source, std::size_t num_elements, DataType target_type,
            std::byte* target);
  void finish();  // waits until all is there

 private:
  struct Half {
    PinnedMemory memory;
    Event is_free;
  };

  void flush();

  Stream stream_;
  std::array<Half, 2> halves_;
  std::size_t current_ = 0;
  // Fill of the current half: one contiguous piece of the device.
  std::size_t num_bytes_ = 0;
  std::byte* target_ = nullptr;
};

}  // namespace troupe::cuda
