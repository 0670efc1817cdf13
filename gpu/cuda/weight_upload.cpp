// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/weight_upload.hpp"

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gpu/cpu/kernels/number_formats.hpp"
#include "gpu/cuda/runtime/cuda_check.hpp"

namespace troupe::cuda {
namespace {

constexpr std::size_t kHalfBytes = std::size_t{8} << 20;

void convert_to_f16(DataType source_type, const void* source, std::byte* target, std::size_t count) {
  std::vector<float> values(count);
  convert_to_f32(source_type, source, values.data(), count);
  for (std::size_t i = 0; i < count; ++i) {
    const __half value = __float2half_rn(values[i]);
    std::memcpy(target + i * sizeof value, &value, sizeof value);
  }
}

// `target` is aligned.
void convert(DataType source_type, const std::byte* source, std::size_t count, DataType target_type,
             std::byte* target) {
  const std::size_t source_bytes = count * size_of(source_type);
  if (source_type == target_type) {
    std::memcpy(target, source, source_bytes);
    return;
  }
  // A safetensors header of odd length leaves its data misaligned.
  std::vector<std::byte> aligned;
  if (reinterpret_cast<std::uintptr_t>(source) % size_of(source_type) != 0) {
    aligned.assign(source, source + source_bytes);
    source = aligned.data();
  }
  switch (target_type) {
    case DataType::kBF16:
      return convert_to_bf16(source_type, source, reinterpret_cast<std::uint16_t*>(target), count);
    case DataType::kF16: return convert_to_f16(source_type, source, target, count);
    default: return convert_to_f32(source_type, source, reinterpret_cast<float*>(target), count);
  }
}

}  // namespace

WeightUpload::WeightUpload() {
  for (Half& half : halves_) half.memory = PinnedMemory(kHalfBytes);
}

void WeightUpload::copy(DataType source_type, const std::byte* source, std::size_t num_elements,
                        DataType target_type, std::byte* target) {
  const std::size_t element = size_of(target_type);
  while (num_elements > 0) {
    const bool goes_on = num_bytes_ > 0 && target == target_ + num_bytes_;
    if (!goes_on || num_bytes_ + element > kHalfBytes) flush();
    if (num_bytes_ == 0) target_ = target;
    const std::size_t count = std::min(num_elements, (kHalfBytes - num_bytes_) / element);
    convert(source_type, source, count, target_type, halves_[current_].memory.get() + num_bytes_);
    num_bytes_ += count * element;
    source += count * size_of(source_type);
    target += count * element;
    num_elements -= count;
  }
}

void WeightUpload::flush() {
  if (num_bytes_ == 0) return;
  CUDA_CHECK(cudaMemcpyAsync(target_, halves_[current_].memory.get(), num_bytes_, cudaMemcpyHostToDevice,
                             stream_.handle()));
  halves_[current_].is_free.record(stream_);
  current_ = 1 - current_;
  halves_[current_].is_free.synchronize();
  num_bytes_ = 0;
}

void WeightUpload::finish() {
  flush();
  stream_.synchronize();
}

}  // namespace troupe::cuda
