// SPDX-License-Identifier: Apache-2.0
// Element types of weights, activations and KV pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe {

enum class DataType : std::uint8_t { kF32, kF16, kBF16, kI32 };

constexpr std::size_t size_of(DataType type) {
  return type == DataType::kF32 || type == DataType::kI32 ? 4 : 2;
}

constexpr std::string_view name_of(DataType type) {
  switch (type) {
    case DataType::kF32: return "f32";
    case DataType::kF16: return "f16";
    case DataType::kBF16: return "bf16";
    case DataType::kI32: return "i32";
  }
  return "?";
}

// Blocks of a decoder's weights in memory: products open them, nothing but weights is
// quantized.
enum class Quantization : std::uint8_t {
  kKeep,  // as the files have them: a GGUF file's, and gpt-oss' MXFP4
  kNone,  // opened
  kQ8,    // made at load: scale times [-127, 127], the values of GGUF's Q8_0
  kQ4,    // made at load: scale times [-8, 7], the values of GGUF's Q4_0
};

// Keys and values in pages.
enum class KvType : std::uint8_t {
  kComputed,  // in the type that products compute in
  kQ8,        // numbers of 8 bits, a scale for each token's key and value of a head
};

constexpr std::string_view name_of(Quantization quantization) {
  switch (quantization) {
    case Quantization::kKeep: return "keep";
    case Quantization::kNone: return "none";
    case Quantization::kQ8: return "q8";
    case Quantization::kQ4: return "q4";
  }
  return "?";
}

}  // namespace troupe
