// SPDX-License-Identifier: Apache-2.0
// Measures whole networks on a GPU: Llama-3.1-8B's shape with all there is, then
// decode of Llama-2-13B's, with random weights, through the library that the
// server opens. Prints a line of JSON a measurement, for scripts/gpu-check. Ends
// with status 77 without a GPU.
//
//   bench_cuda_network LIBRARY [NETWORK …]
#include <cuda_runtime.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/kernels/cuda/suite.hpp"
#include "bench/networks/network_bench.hpp"
#include "gpu/cuda_library.hpp"
#include "gpu/model/random_model.hpp"

namespace {

using namespace troupe;
using namespace troupe::bench;
namespace fs = std::filesystem;

// In memory where there is enough of it: the files are as large as the weights.
class ModelDirectory {
 public:
  explicit ModelDirectory(std::uint64_t size_bytes) {
    const fs::path in_memory = "/dev/shm";
    std::error_code error;
    const bool fits = fs::space(in_memory, error).available > size_bytes + (size_bytes >> 3);
    const fs::path parent = !error && fits ? in_memory : fs::temp_directory_path();
    std::string name = (parent / "troupe-network-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error(name + ": cannot be made");
    path_ = name;
  }
  ~ModelDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ModelDirectory(const ModelDirectory&) = delete;
  ModelDirectory& operator=(const ModelDirectory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Again, as a network's shares are of limits of the same minute.
NetworkLimits measured_limits() {
  std::ostringstream unused;
  Recorder recorder(unused, false);
  Stopwatch stopwatch(false);
  Bench bench{.recorder = recorder, .stopwatch = stopwatch};
  measure_limits(bench);
  const Limits& limits = bench.limits;
  return {.memory_rate = std::max(limits.read_rate, limits.copy_rate),
          .product_rate = limits.product_rate,
          .link_rate = std::min(limits.to_device_rate, limits.to_host_rate)};
}

void run_network(NetworkBench& bench, const BenchedNetwork& network, MakeBackend make_backend) {
  constexpr std::uint64_t kDistinctValues = std::uint64_t{1} << 20;
  const ModelDirectory directory(weight_bytes(network.config));
  write_random_llama(directory.path(), network.config, 1, {}, kDistinctValues);
  BackendSettings settings = settings_of(bench.scale, directory.path().string());
  settings.gemm_choices = directory.path().string();  // measured when the weights are there
  const auto backend = make_backend(settings);
  bench_network(bench, network, *backend);
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench_cuda_network LIBRARY [NETWORK …]\n");
    return 2;
  }
  int num_devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&num_devices);
  if (error != cudaSuccess || num_devices == 0) {
    std::fprintf(stderr, "skipped, no GPU here: %s\n", cudaGetErrorString(error));
    return kSkipped;
  }
  Recorder recorder(std::cout, false);
  const std::vector<std::string> wanted(argv + 2, argv + argc);
  bool all_ran = true;
  try {
    const MakeBackend make_backend = load_cuda_library(argv[1]);
    NetworkBench bench{.recorder = recorder,
                       .limits = measured_limits(),
                       .scale = full_scale(),
                       .last_graph_kernels = load_last_graph_kernels(argv[1])};
    for (const BenchedNetwork& network : {llama_8b(), llama_13b()}) {
      if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), network.id) == wanted.end()) continue;
      bench.is_complete = network.id == "llama_8b";
      try {
        run_network(bench, network, make_backend);
      } catch (const std::exception& problem) {
        recorder.add_not_run(network.id, problem.what());
        all_ran = false;
      }
    }
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "bench_cuda_network: %s\n", problem.what());
    return 1;
  }
  return all_ran ? 0 : 1;
}
