// SPDX-License-Identifier: Apache-2.0
// Kernels that do nothing useful: they find out how fast the device reads, how
// long a word takes to the host, or make random data where it is needed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/data_type.hpp"

namespace troupe::bench {

using cuda::StreamHandle;

// Device pointers. All throw CudaError.

// Reads every byte once and writes nothing to speak of. A multiple of 16 bytes.
struct ReadArguments {
  const void* from = nullptr;
  std::size_t size_bytes = 0;
  std::uint32_t* sink = nullptr;  // one word
};
void launch_read(const ReadArguments& arguments, StreamHandle stream);

// Numbers from -scale to scale, the same for the same seed.
struct FillArguments {
  void* to = nullptr;
  DataType type = DataType::kBF16;  // kF32, kF16 or kBF16
  std::size_t count = 0;
  float scale = 1.0F;
  std::uint32_t seed = 1;
};
void launch_fill(const FillArguments& arguments, StreamHandle stream);

// Sends back each number from 1 to `last` that the host writes. Gives up, and
// sends kGaveUp, when a number has not come for a second.
inline constexpr std::uint64_t kGaveUp = ~std::uint64_t{0};
struct EchoArguments {
  const std::uint64_t* from_host = nullptr;  // pinned and mapped, both
  std::uint64_t* to_host = nullptr;
  std::uint64_t last = 0;
};
void launch_echo(const EchoArguments& arguments, StreamHandle stream);

// When the host has written `number`, writes it back and ends so many nanoseconds
// later. Gives up as above.
struct SpinArguments {
  const std::uint64_t* may_begin = nullptr;  // pinned and mapped, both
  std::uint64_t* begun = nullptr;
  std::uint64_t number = 0;
  std::uint64_t nanoseconds = 0;
};
void launch_spin(const SpinArguments& arguments, StreamHandle stream);

}  // namespace troupe::bench
