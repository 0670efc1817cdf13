// SPDX-License-Identifier: Apache-2.0
// Matrix products of Llama-3.1-8B from 1 to 4096 tokens: the kernel that the
// worker would choose against the roof, which is the longer of reading and writing
// each matrix once at the rate of a copy and of computing at cuBLASLt's best rate,
// both measured in the same run; and against the heuristics' first algorithm,
// which is what choosing is worth. Needs a GPU; ends with status 77 without one.
//
//   bench_cuda_products
#include <algorithm>
#include <cstdio>
#include <vector>

#include "bench/cuda/device.hpp"
#include "gpu/cuda/product_candidates.hpp"
#include "gpu/cuda/product_timer.hpp"

using namespace troupe;
using namespace troupe::cuda;

namespace {

constexpr std::size_t kRotated = std::size_t{1} << 30;  // more than any cache

struct Layer {
  const char* name;
  std::uint32_t outputs, depth;
  DataType c_type;
};
constexpr Layer kLayers[] = {{"qkv", 6144, 4096, DataType::kBF16},
                             {"o", 4096, 4096, DataType::kBF16},
                             {"gate_up", 28672, 4096, DataType::kBF16},
                             {"down", 4096, 14336, DataType::kBF16},
                             {"logits", 128256, 4096, DataType::kF32}};

class Stream {
 public:
  Stream() { CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

std::vector<const void*> weights_of(const Layer& layer, const DeviceMemory& memory,
                                    std::size_t size_bytes) {
  const std::size_t bytes = std::size_t{layer.outputs} * layer.depth * 2;
  std::vector<const void*> weights;
  for (std::size_t begin = 0; begin + bytes <= size_bytes; begin += bytes) {
    weights.push_back(memory.get() + begin);
  }
  return weights;
}

void bench(const Limits& limits) {
  const Stream stream;
  const std::size_t weight_bytes = std::max(kRotated, std::size_t{128256} * 4096 * 2);
  const std::size_t scratch_bytes = std::size_t{3} << 30;
  const DeviceMemory memory = random_bf16(weight_bytes), scratch = random_bf16(scratch_bytes),
                     workspace = uninitialised(kProductWorkspaceBytes);
  CublasProducts products(workspace.get(), kProductWorkspaceBytes);
  ProductTimer timer(stream.get());
  for (const Layer& layer : kLayers) {
    const auto weights = weights_of(layer, memory, weight_bytes);
    for (std::uint32_t tokens = 1; tokens <= 4096; tokens *= 2) {
      const ProductShape shape{.num_tokens = tokens,
                               .num_outputs = layer.outputs,
                               .depth = layer.depth,
                               .c_type = layer.c_type};
      const auto candidates = product_candidates(
          products, shape, {scratch.get(), scratch_bytes}, weights, stream.get());
      const auto clock = [&](const ProductRun& run) { return timer(run); };
      const auto best = choose_product(candidates, clock);
      const auto first = candidates.empty() ? std::nullopt : clock(candidates.front().run);
      if (!best || !first) {
        std::printf("%-8s %5u tokens   nothing can compute it\n", layer.name, tokens);
        continue;
      }
      const double roof =
          std::max(static_cast<double>(bytes_of(shape)) / limits.bytes_per_second,
                   static_cast<double>(operations_of(shape)) / limits.flops_per_second);
      std::printf("%-8s %5u tokens %10.1f us   %5.3f of the roof   %5.3f of the first one's time\n",
                  layer.name, tokens, best->microseconds, roof * 1e6 / best->microseconds,
                  best->microseconds / *first);
    }
  }
}

}  // namespace

int main() {
  constexpr int kSkipped = 77;
  int num_devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&num_devices);
  if (error != cudaSuccess || num_devices == 0) {
    std::printf("skipped, no GPU here: %s\n", cudaGetErrorString(error));
    return kSkipped;
  }
  cudaDeviceProp device{};
  CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
  const Limits limits = measure_limits();
  std::printf("%s: copy %.0f GB/s (read and written), bf16 product %.0f TFLOP/s, cuBLASLt %zu\n",
              device.name, limits.bytes_per_second * 1e-9, limits.flops_per_second * 1e-12,
              CublasProducts::version());
  bench(limits);
  return 0;
}
