// SPDX-License-Identifier: Apache-2.0
// Whole networks on a device, through the interface that the server uses, against
// the limits of the device: decode, prefill, copies of pages beside decode, and what a
// conversation's next turn costs if its KV is still there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/kernels/cuda/measurement.hpp"
#include "gpu/backend.hpp"
#include "gpu/model/model_config.hpp"

namespace troupe::bench {

struct NetworkLimits {
  double memory_rate = 0.0;   // bytes/s: the better of reading and copying
  double product_rate = 0.0;  // operations/s
  double link_rate = 0.0;     // bytes/s to the host and back, the lesser
};

struct DecodeShape {
  std::uint32_t batch = 1;
  std::uint32_t context = 0;
};

struct NetworkScale {
  std::uint32_t num_slots = 64;
  std::uint32_t context = 1024;  // of decode
  std::uint32_t steps = 64;      // of decode, measured
  std::vector<DecodeShape> long_decodes = {{1, 4096}, {1, 16384}, {64, 4096}};
  std::uint32_t max_batch_tokens = 8192;
  std::uint32_t history = 2048, new_tokens = 38;  // of a follow-up
  std::uint32_t num_host_pages = 512;
  std::uint32_t repeats = 5;
};
NetworkScale full_scale();

struct BenchedNetwork {
  std::string id;     // "llama_8b"
  std::string title;  // "Llama-3.1-8B"
  ModelConfig config;
};
BenchedNetwork llama_8b();
BenchedNetwork llama_13b();  // with 10 KV heads, as Pensieve's

// Settings to make the backend with.
BackendSettings settings_of(const NetworkScale& scale, const std::string& model_dir);

// Bytes of all weights in bf16, the embedding table included.
std::uint64_t weight_bytes(const ModelConfig& config);

// Lower bound of a decode step: max(W / BW, 2 P B / F) + B S k / BW, with W
// bytes of P weights, k bytes of KV a token, at batch B and context S.
double decode_roof_seconds(const ModelConfig& config, const NetworkLimits& limits, std::uint32_t batch,
                           double context);

struct NetworkBench {
  Recorder& recorder;
  NetworkLimits limits;
  NetworkScale scale;
  bool is_complete = true;  // else decode only
  // Kernels of the graph launched last (gpu/cuda_library.hpp), or none: they are not counted.
  std::function<std::uint64_t()> last_graph_kernels = {};
};
// The backend was made with settings_of(). Throws what it throws.
void bench_network(NetworkBench& bench, const BenchedNetwork& network, Backend& backend);

}  // namespace troupe::bench
