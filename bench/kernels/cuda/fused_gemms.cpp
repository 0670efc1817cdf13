// SPDX-License-Identifier: Apache-2.0
// The products of a decoder layer for few tokens, each with what it does besides
// (few_token_input.hpp), against reading their weights once; with and without
// reading weights while the kernel before still runs.
#include <algorithm>
#include <string>

#include "bench/kernels/cuda/suite.hpp"
#include "gpu/cuda/kernels/gemm/few_token_gemm.hpp"
#include "gpu/cuda/kernels/gemm/gated_gemm.hpp"
#include "gpu/cuda/kernels/gemm/qkv_gemm.hpp"
#include "gpu/cuda/kernels/gemm/residual_gemm.hpp"

namespace troupe::bench {
namespace {

using namespace troupe::cuda;

// Llama-3.1-8B, or next to nothing.
struct Decoder {
  std::uint32_t hidden = 4096, inner = 14336, heads = 32, kv_heads = 8, head_dim = 128, vocabulary = 128256;
};
constexpr Decoder kTinyDecoder{64, 96, 2, 1, 32, 50};

enum class Role : std::uint8_t { kQkv, kResidual, kGated, kLogits };

struct Matrix {
  const char* name;
  Role role;
  std::uint32_t outputs, depth;
  bool is_scaled() const { return role != Role::kResidual; }
};

// What the products of a layer read and write, but for weights.
class Layer {
 public:
  explicit Layer(const Decoder& decoder)
      : decoder_(decoder),
        layout_{.num_layers = 1,
                .num_pages = kMostFewTokens,
                .num_kv_heads = decoder.kv_heads,
                .head_dim = decoder.head_dim,
                .type = DataType::kBF16},
        a_(random_buffer(DataType::kBF16, std::size_t{kMostFewTokens} * decoder.inner)),
        c_(device_buffer(std::size_t{kMostFewTokens} * std::max(4 * decoder.vocabulary, 2 * decoder.inner))),
        x_(random_buffer(DataType::kF32, std::size_t{kMostFewTokens} * decoder.hidden)),
        norm_weight_(random_buffer(DataType::kF32, decoder.hidden)),
        squares_(copy_of(
            std::vector<float>(std::size_t{kMostFewTokens} * num_square_parts(decoder.hidden), 1.0F))),
        next_squares_(
            device_buffer(std::size_t{kMostFewTokens} * num_square_parts(decoder.hidden) * sizeof(float))),
        workspace_(copy_of(std::vector<std::byte>(kFewTokenWorkspaceBytes))),
        angles_(random_buffer(DataType::kF32, std::size_t{1024} * decoder.head_dim)),
        pool_(device_buffer(kv_pool_bytes(layout_))) {
    std::vector<TokenPlace> places;  // a page each
    for (std::uint32_t i = 0; i < kMostFewTokens; ++i) places.push_back({16 * i, i});
    places_ = copy_of(places);
  }

  FewTokenInput input(const Matrix& matrix, std::uint32_t tokens, const std::byte* weight) const {
    return {.a = a_.get(),
            .a_stride = matrix.depth,
            .weight = weight,
            .weight_stride = matrix.depth,
            .squares = matrix.is_scaled() ? as<float>(squares_) : nullptr,
            .num_tokens = tokens,
            .num_outputs = matrix.outputs,
            .depth = matrix.depth,
            .workspace = workspace_.get()};
  }

  void launch_gemm(Role role, const FewTokenInput& input, cudaStream_t stream) const {
    switch (role) {
      case Role::kQkv:
        return launch_qkv_gemm({.input = input,
                                .queries = c_.get(),
                                .query_stride = decoder_.heads * decoder_.head_dim,
                                .places = as<TokenPlace>(places_),
                                .num_heads = decoder_.heads,
                                .cosines_sines = as<float>(angles_),
                                .pool = pool_.get(),
                                .layout = layout_},
                               stream);
      case Role::kGated:
        return launch_gated_gemm({.input = input, .h = c_.get(), .h_stride = decoder_.inner}, stream);
      case Role::kLogits:
        return launch_few_token_gemm(
            {.input = input, .c = c_.get(), .c_stride = decoder_.vocabulary, .c_type = DataType::kF32},
            stream);
      case Role::kResidual:
        return launch_residual_gemm({.input = input,
                                     .x = as<float>(x_),
                                     .x_stride = decoder_.hidden,
                                     .norm_weight = as<float>(norm_weight_),
                                     .next_a = c_.get(),
                                     .next_a_stride = decoder_.hidden,
                                     .next_squares = as<float>(next_squares_)},
                                    stream);
    }
  }

 private:
  Decoder decoder_;
  KvLayout layout_;
  DeviceBuffer a_, c_, x_, norm_weight_, squares_, next_squares_, workspace_, angles_, pool_, places_;
};

int compute_capability() {  // 90 is 9.0
  int device = 0;
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  return 10 * properties.major + properties.minor;
}

}  // namespace

void bench_fused_gemms(Bench& bench) {
  const Decoder decoder = bench.is_tiny ? kTinyDecoder : Decoder{};
  const Layer layer(decoder);
  const std::size_t rotated = bench.pick(std::size_t{2} << 30, std::size_t{1} << 15);
  const DeviceBuffer weights = random_buffer(DataType::kBF16, rotated / 2, 0.02F);
  const std::uint32_t query_width = decoder.heads * decoder.head_dim;
  const bool can_overlap = compute_capability() >= 90;
  for (const auto& matrix :
       {Matrix{"qkv", Role::kQkv, query_width + 2 * decoder.kv_heads * decoder.head_dim, decoder.hidden},
        Matrix{"o", Role::kResidual, decoder.hidden, query_width},
        Matrix{"gate_up", Role::kGated, 2 * decoder.inner, decoder.hidden},
        Matrix{"down", Role::kResidual, decoder.hidden, decoder.inner},
        Matrix{"logits", Role::kLogits, decoder.vocabulary, decoder.hidden}}) {
    const std::size_t bytes = std::size_t{matrix.outputs} * matrix.depth * 2;
    const auto seconds_of = [&](std::uint32_t tokens, bool overlaps) {
      return bench.stopwatch.seconds_of([&](std::size_t i) {
        FewTokenInput input = layer.input(matrix, tokens, weights.get() + i % (rotated / bytes) * bytes);
        input.overlaps_previous = overlaps;
        layer.launch_gemm(matrix.role, input, bench.stopwatch.stream());
      });
    };
    for (const std::uint32_t tokens : {1U, 4U, 16U, 64U}) {
      const double alone = seconds_of(tokens, false);
      const double overlapping = can_overlap ? seconds_of(tokens, true) : alone;
      bench.recorder.add(
          {.id = std::string("fused_product_") + matrix.name + "_" + std::to_string(tokens),
           .title = std::string("fused product ") + matrix.name + ", " + std::to_string(tokens) + " tokens",
           .value = static_cast<double>(bytes) / std::min(alone, overlapping) / bench.limits.read_rate,
           .unit = "of read bandwidth",
           .details = {{"us", alone * 1e6}, {"overlapping_us", overlapping * 1e6}}});
    }
  }
}

}  // namespace troupe::bench
