// SPDX-License-Identifier: Apache-2.0
// Two GPUs in one process, as --device cuda:all has them when it runs inline. The
// interpreter refuses work under a GPU that is not the stream's.
#include "gpu/backend.hpp"

#include <array>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include "cuda_model.hpp"
#include "generation.hpp"
#include "gpu/cuda/runtime/gpu_properties.hpp"
#include "gpu/cuda/runtime/memory.hpp"

extern "C" std::unique_ptr<troupe::Backend> troupe_make_cuda_backend(const troupe::BackendSettings& settings);

namespace troupe {
namespace {

const simt::RuntimeSettings kTwoGpus{.num_gpus = 2};

std::size_t free_bytes_of(int gpu) {
  int before = 0;
  std::size_t free = 0, total = 0;
  REQUIRE(cudaGetDevice(&before) == cudaSuccess);
  REQUIRE(cudaSetDevice(gpu) == cudaSuccess);
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  REQUIRE(cudaSetDevice(before) == cudaSuccess);
  return free;
}

class TwoGpus {
 public:
  TwoGpus() {
    write_random_llama(directory_.path(), small_llama(), 1);
    for (const std::uint32_t ordinal : {0U, 1U}) {
      auto settings = small_settings(DataType::kBF16);
      settings.model_dir = directory_.path();
      settings.ordinal = ordinal;
      backends_.push_back(troupe_make_cuda_backend(settings));
    }
  }
  Backend& backend(std::size_t gpu) { return *backends_.at(gpu); }
  std::shared_ptr<HostPages> make_host_pages() const {
    return std::make_shared<HostPages>(8, backends_.front()->plan().memory.request.page_bytes);
  }
  std::vector<std::vector<std::int32_t>> tokens_of(Device& device) const {
    ProgramCache programs(load_network(directory_.path()), DataType::kBF16, {96, 8});
    return generate(device, programs, {{.prompt = {1, 2, 3, 4, 5}, .num_new = 6}});
  }

 private:
  simt::Runtime runtime_{kTwoGpus};
  TemporaryDirectory directory_;
  std::vector<std::unique_ptr<Backend>> backends_;
};

}  // namespace

TEST_CASE("several gpus: a backend says how many there are, and which it is of") {
  TwoGpus gpus;
  for (const std::size_t gpu : {0, 1}) {
    CHECK(gpus.backend(gpu).plan().num_gpus == 2);
    CHECK(gpus.backend(gpu).plan().device.starts_with("cuda:" + std::to_string(gpu) + ", "));
  }
  CHECK_THROWS_WITH_AS(cuda::use_gpu(2), "no GPU 2: this machine has 2", std::runtime_error);
}

TEST_CASE("several gpus: a device has its memory on its own, whatever thread makes it") {
  TwoGpus gpus;
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  const std::size_t free_of_0 = free_bytes_of(0), free_of_1 = free_bytes_of(1);
  std::unique_ptr<Device> device;
  std::thread([&] { device = gpus.backend(1).make_device(nullptr); }).join();
  CHECK(free_bytes_of(0) == free_of_0);
  CHECK(free_bytes_of(1) < free_of_1);
  std::thread([&] { device.reset(); }).join();
}

TEST_CASE("several gpus: a device works for a thread that has not made it") {
  TwoGpus gpus;
  const auto device = gpus.backend(1).make_device(nullptr);
  std::vector<std::vector<std::int32_t>> tokens;
  std::thread([&] { tokens = gpus.tokens_of(*device); }).join();
  REQUIRE(tokens.size() == 1);
  CHECK(tokens[0].size() == 6);
}

TEST_CASE("several gpus: two devices share the host's pages and give the same tokens") {
  TwoGpus gpus;
  const auto host_pages = gpus.make_host_pages();
  std::array<std::vector<std::vector<std::int32_t>>, 2> tokens;
  std::vector<std::thread> workers;
  for (const std::size_t gpu : {0, 1})
    workers.emplace_back([&, gpu] {
      const auto device = gpus.backend(gpu).make_device(host_pages);
      tokens[gpu] = gpus.tokens_of(*device);
    });
  for (auto& worker : workers) worker.join();
  CHECK(tokens[0].at(0).size() == 6);
  CHECK(tokens[0] == tokens[1]);
}

TEST_CASE("several gpus: memory that two share is pinned until the last of them has gone") {
  const simt::Runtime runtime(kTwoGpus);
  std::vector<std::byte> memory(4096);
  const auto is_pinned = [&] {
    void* on_device = nullptr;
    return cudaHostGetDevicePointer(&on_device, memory.data(), 0) == cudaSuccess;
  };
  {
    cuda::RegisteredMemory first(memory);
    {
      const cuda::RegisteredMemory second(memory);
      CHECK(second.on_device() == first.on_device());
    }
    CHECK(is_pinned());
    const cuda::RegisteredMemory moved(std::move(first));
    CHECK(is_pinned());
  }
  CHECK_FALSE(is_pinned());
  const cuda::RegisteredMemory again(memory);
  CHECK(is_pinned());
}

}  // namespace troupe
