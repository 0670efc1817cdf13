// SPDX-License-Identifier: Apache-2.0
#include "bench/networks/network_bench.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <ostream>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include "gpu/model/random_model.hpp"
#include "tests/simt/runtime/runtime.hpp"
#include "tests/support/temporary_directory.hpp"

extern "C" std::unique_ptr<troupe::Backend> troupe_make_cuda_backend(const troupe::BackendSettings& settings);
extern "C" std::uint64_t troupe_kernels_of_last_graph();

using namespace troupe;
using namespace troupe::bench;

namespace {

BenchedNetwork tiny_network() {
  BenchedNetwork network = llama_8b();
  network.config.hidden_size = 64;
  network.config.intermediate_size = 96;
  network.config.num_layers = 1;
  network.config.num_heads = 2;
  network.config.num_kv_heads = 1;
  network.config.head_dim = 64;
  network.config.vocabulary_size = 50;
  network.config.context_length = 128;
  return network;
}

// Lines of JSON that its measurements leave.
void measure(const BenchedNetwork& network, const TemporaryDirectory& model, std::ostream& lines) {
  NetworkScale scale = tiny_scale();
  scale.context = 10;
  scale.steps = 2;
  scale.max_batch_tokens = 40;
  scale.history = 32;
  scale.long_decodes = {{1, 4096}, {1, 80}};  // the first does not fit
  BackendSettings settings = settings_of(scale, model.path().string());
  settings.max_pages = 64;
  const auto backend = MakeBackend{troupe_make_cuda_backend}(settings);
  Recorder recorder(lines, true);
  NetworkBench bench{.recorder = recorder,
                     .limits = {.memory_rate = 1e10, .product_rate = 1e11, .link_rate = 1e8},
                     .scale = scale,
                     .last_graph_kernels = troupe_kernels_of_last_graph};
  bench_network(bench, network, *backend);
}

}  // namespace

TEST_CASE("cuda bench: a tiny network goes through every measurement on the whole CUDA worker") {
  const simt::Runtime runtime;
  const TemporaryDirectory directory;
  const BenchedNetwork network = tiny_network();
  write_random_llama(directory.path(), network.config, 1);
  std::ostringstream text;
  measure(network, directory, text);
  std::size_t num_lines = 0;
  std::istringstream lines(text.str());
  for (std::string line; std::getline(lines, line); ++num_lines) {
    const auto json = nlohmann::json::parse(line);
    if (json.at("id") == "decode_llama_8b_1_at_4096") {
      CHECK(json.at("kind") == "not_run");
      CHECK(json.at("reason").get<std::string>().find("sequences of") != std::string::npos);
      continue;
    }
    CHECK(json.at("kind") == "measurement");
    CHECK(json.at("value").is_number());
    if (json.at("id") == "kernels_per_layer") CHECK(json.at("value") == 5.0);
  }
  CHECK(num_lines == 11);
  CHECK(llama_13b().config.context_length == 4096);
}

TEST_CASE("cuda bench: a network whose logits are not finite is an error, and nothing was measured") {
  const simt::Runtime runtime;
  const TemporaryDirectory directory;
  const BenchedNetwork network = tiny_network();
  write_random_llama(directory.path(), network.config, 1);
  {
    std::fstream file(directory.path() / "model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    const std::string largest(2 * network.config.hidden_size, '\x7F');  // 3.39e38 each, in the last norm
    file.seekp(-static_cast<std::streamoff>(largest.size()), std::ios::end);
    file << largest;
  }
  std::ostringstream text;
  CHECK_THROWS_WITH(measure(network, directory, text),
                    "a step gave no token, as its logits are not all finite");
  CHECK(text.str().empty());
}
