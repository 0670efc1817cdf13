// SPDX-License-Identifier: Apache-2.0
#include "bench/networks/network_bench.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

#include "bench/networks/direct_loop.hpp"
#include "gpu/cpu/cpu_device.hpp"
#include "gpu/model/random_model.hpp"
#include "gpu/pages/host_pages.hpp"
#include "tests/gpu/bench/tiny_scale.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;
using namespace troupe::bench;

namespace {

// The host behind the interface of a GPU.
class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const BackendSettings& settings)
      : model_(load_cpu_model(
            plan_cpu_model(settings.model_dir, {.compute_type = DataType::kF32,
                                                .num_threads = 1,
                                                .memory_budget_bytes = 64 << 20,
                                                .num_slots = settings.num_slots,
                                                .max_batch_tokens = settings.max_batch_tokens}))) {
    plan_.memory = model_->memory;
    plan_.compute_type = model_->compute_type;
  }

  const BackendPlan& plan() const override { return plan_; }
  std::unique_ptr<Device> make_device(std::shared_ptr<HostPages> host_pages, std::uint32_t) override {
    return std::make_unique<CpuDevice>(model_, CpuDeviceOptions{.host_pages = std::move(host_pages)});
  }

 private:
  std::shared_ptr<const CpuModel> model_;
  BackendPlan plan_;
};

BenchedNetwork tiny_network() {
  BenchedNetwork network = llama_8b();
  network.config.hidden_size = 32;
  network.config.intermediate_size = 64;
  network.config.num_layers = 2;
  network.config.num_heads = 2;
  network.config.num_kv_heads = 1;
  network.config.head_dim = 16;
  network.config.vocabulary_size = 100;
  network.config.context_length = 256;
  return network;
}

// All matrices, and two norms a layer and one behind them.
std::size_t weight_bytes_of_file() {
  const ModelConfig config = tiny_network().config;
  return weight_bytes(config) + (2 * config.num_layers + 1) * config.hidden_size * 2;
}

}  // namespace

TEST_CASE("network bench: every measurement runs on a tiny network and says what it should") {
  TemporaryDirectory directory;
  const BenchedNetwork network = tiny_network();
  const NetworkScale scale = tiny_scale();
  write_random_llama(directory.path(), network.config, 1, {}, 100);
  CpuBackend backend(settings_of(scale, directory.path().string()));
  std::ostringstream text;
  Recorder recorder(text, true);
  NetworkBench bench{.recorder = recorder,
                     .limits = {.memory_rate = 1e10, .product_rate = 1e11, .link_rate = 1e8},
                     .scale = scale};
  bench_network(bench, network, backend);
  std::set<std::string> ids;
  std::istringstream lines(text.str());
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    CAPTURE(line);
    CHECK(json.at("kind") == "measurement");
    CHECK(json.at("value").is_number());
    CHECK(json.at("tiny") == true);
    CHECK(ids.insert(json.at("id")).second);
  }
  CHECK(ids == std::set<std::string>{"decode_llama_8b_1", "decode_llama_8b_4", "decode_llama_8b_1_at_80",
                                     "prefill_llama_8b_2048", "prefill_llama_8b_4096",
                                     "prefill_llama_8b_8192", "decode_slowed_by_copies",
                                     "follow_up_ttft_device", "follow_up_ttft_host"});
}

TEST_CASE("random model: one that repeats its values is as large, and begins the same") {
  TemporaryDirectory whole, repeating;
  write_random_llama(whole.path(), tiny_network().config, 1);
  write_random_llama(repeating.path(), tiny_network().config, 1, {}, 100);
  const auto read = [](const TemporaryDirectory& directory) {
    return test::file_text(directory.path() / "model.safetensors");
  };
  const std::string all = read(whole), repeated = read(repeating);
  REQUIRE(all.size() == repeated.size());
  const std::size_t begin = all.size() - weight_bytes_of_file();
  CHECK(all.substr(begin, 200) == repeated.substr(begin, 200));
  CHECK(all.substr(begin, 400) != repeated.substr(begin, 400));
  CHECK(repeated.substr(begin, 200) == repeated.substr(begin + 200, 200));
}

TEST_CASE("network bench: the roof of decode is that of weights, operations and KV") {
  const NetworkLimits limits{.memory_rate = 4.3e12, .product_rate = 790e12};
  const ModelConfig config = llama_8b().config;
  CHECK(decode_roof_seconds(config, limits, 1, 1024) == doctest::Approx(3.52e-3).epsilon(0.005));
  CHECK(decode_roof_seconds(config, limits, 64, 1024) == doctest::Approx(5.49e-3).epsilon(0.005));
  CHECK(decode_roof_seconds(config, limits, 256, 1024) == doctest::Approx(12.85e-3).epsilon(0.005));
}

TEST_CASE("network bench: sequences that do not fit are refused with the numbers") {
  TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_network().config, 1);
  CpuBackend backend(settings_of(tiny_scale(), directory.path().string()));
  const auto device = backend.make_device(nullptr, 0);
  ProgramCache programs(make_network(tiny_network().config), DataType::kF32, {80, 4});
  const auto poll = DirectDevice::Waiting::kPoll;
  CHECK_THROWS_AS(DirectLoop(*device, programs, poll, 4, 1 << 30), std::runtime_error);
}
