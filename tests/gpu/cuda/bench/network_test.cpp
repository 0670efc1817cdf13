// SPDX-License-Identifier: Apache-2.0
#include "bench/networks/network_bench.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <ostream>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "gpu/model/random_model.hpp"
#include "tests/gpu/bench/tiny_scale.hpp"
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

NetworkScale scale_of_tests() {
  NetworkScale scale = tiny_scale();
  scale.context = 10;
  scale.steps = 2;
  scale.max_batch_tokens = 40;
  scale.history = 32;
  scale.long_decodes = {{1, 4096}, {1, 80}};  // the first does not fit
  return scale;
}

std::unique_ptr<Backend> backend_of(const TemporaryDirectory& model) {
  BackendSettings settings = settings_of(scale_of_tests(), model.path().string());
  settings.max_pages = 64;
  return MakeBackend{troupe_make_cuda_backend}(settings);
}

// Lines of JSON that the measurements of tiny_network() leave.
void measure(Backend& backend, std::ostream& lines) {
  Recorder recorder(lines, true);
  NetworkBench bench{.recorder = recorder,
                     .limits = {.memory_rate = 1e10, .product_rate = 1e11, .link_rate = 1e8},
                     .scale = scale_of_tests(),
                     .last_graph_kernels = troupe_kernels_of_last_graph};
  bench_network(bench, tiny_network(), backend);
}

constexpr const char* kNoToken = "a step gave no token, as its logits are not all finite";

// Gives no token behind so long a context, as a device with logits that are NaN there.
class ForgetfulDevice final : public Device {
 public:
  ForgetfulDevice(std::unique_ptr<Device> device, std::uint32_t longest)
      : device_(std::move(device)), longest_(longest) {}

  const DeviceDescription& description() const override { return device_->description(); }
  Ticket submit(std::shared_ptr<const Program> program, std::shared_ptr<const Batch> batch) override {
    const bool is_long = std::any_of(batch->slices.begin(), batch->slices.end(),
                                     [&](const auto& slice) { return slice.context_length > longest_; });
    const Ticket ticket = device_->submit(std::move(program), std::move(batch));
    if (is_long) forgotten_.insert(ticket);
    return ticket;
  }
  Ticket completed() const noexcept override { return device_->completed(); }
  BatchResult collect(Ticket ticket) override {
    BatchResult result = device_->collect(ticket);
    if (forgotten_.contains(ticket)) std::fill(result.tokens.begin(), result.tokens.end(), -1);
    return result;
  }
  void set_listener(std::function<void()> listener) override { device_->set_listener(std::move(listener)); }
  std::optional<std::chrono::nanoseconds> poll_delay() const override { return device_->poll_delay(); }

 private:
  std::unique_ptr<Device> device_;
  std::uint32_t longest_;
  std::set<Ticket> forgotten_;
};

class ForgetfulBackend final : public Backend {
 public:
  ForgetfulBackend(std::unique_ptr<Backend> backend, std::uint32_t longest)
      : backend_(std::move(backend)), longest_(longest) {}
  const BackendPlan& plan() const override { return backend_->plan(); }
  std::unique_ptr<Device> make_device(std::shared_ptr<HostPages> host_pages, std::uint32_t worker) override {
    return std::make_unique<ForgetfulDevice>(backend_->make_device(std::move(host_pages), worker), longest_);
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::uint32_t longest_;
};

}  // namespace

TEST_CASE("cuda bench: a tiny network goes through every measurement on the whole CUDA worker") {
  const simt::Runtime runtime;
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_network().config, 1);
  std::ostringstream text;
  measure(*backend_of(directory), text);
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
  const ModelConfig config = tiny_network().config;
  write_random_llama(directory.path(), config, 1);
  {
    std::fstream file(directory.path() / "model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    const std::string largest(2 * config.hidden_size, '\x7F');  // 3.39e38 each
    file.seekp(-static_cast<std::streamoff>(largest.size()), std::ios::end);
    file << largest;
  }
  std::ostringstream text;
  CHECK_THROWS_WITH(measure(*backend_of(directory), text), kNoToken);
  CHECK(text.str().empty());
}

TEST_CASE("cuda bench: long contexts without a token are an error, and not what does not fit") {
  const simt::Runtime runtime;
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_network().config, 1);
  ForgetfulBackend backend(backend_of(directory), 60);
  std::ostringstream text;
  CHECK_THROWS_WITH(measure(backend, text), kNoToken);
  CHECK(text.str().find("decode_llama_8b_1_at_4096") != std::string::npos);
  CHECK(text.str().find("decode_llama_8b_1_at_80") == std::string::npos);
}
