// SPDX-License-Identifier: Apache-2.0
// What goes wrong on a GPU, told to the twin of CUDA's runtime.
#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "cuda_model.hpp"
#include "generation.hpp"
#include "gpu/cuda/runtime/cuda_check.hpp"
#include "tests/simt/runtime/refusals.hpp"
#include "tests/simt/runtime/runtime.hpp"
#include "tests/support/eventually.hpp"

namespace troupe {
namespace {

Batch short_prompt(std::uint64_t id) {
  Batch batch{.id = id, .slices = {}, .token_ids = {3, 4, 5}, .page_table = {0}};
  batch.slices.push_back({.sequence = id,
                          .num_tokens = 3,
                          .num_pages = 1,
                          .sample = true,
                          .sampling = {.temperature = 0.0F},
                          .suppressed = {}});
  return batch;
}

}  // namespace

TEST_CASE("cuda device: a library without machine code for the GPU says how to build one") {
  for (const cudaError_t error : {cudaErrorNoKernelImageForDevice, cudaErrorInvalidDeviceFunction})
    CHECK_THROWS_WITH_AS(cuda::throw_cuda_error(error, "launch()", "gpu/x.cu", 7),
                         doctest::Contains("scripts/build all-gpus gpu_backend"), cuda::CudaError);
  CHECK_THROWS_WITH_AS(cuda::throw_cuda_error(cudaErrorInvalidValue, "launch()", "gpu/x.cu", 7),
                       "x.cu:7: launch(): cudaErrorInvalidValue (invalid argument)", cuda::CudaError);
}

TEST_CASE("cuda device: a batch that does not fit fails alone") {
  const SmallCudaModel model(small_settings(DataType::kBF16));
  cuda::CudaDevice device(model.get());
  ProgramCache programs = model.programs();
  const auto program = programs.find(0, 3, 1);
  const auto run = [&](Batch batch) {
    return wait_for(device, device.submit(program, std::make_shared<Batch>(std::move(batch))));
  };
  Batch bad = short_prompt(1);
  bad.token_ids[1] = 100;
  CHECK(run(bad).error.find("token id 100") != std::string::npos);
  bad = short_prompt(2);
  bad.page_table[0] = 64;
  CHECK(run(bad).error.find("page 64") != std::string::npos);
  bad = short_prompt(3);
  bad.slices[0].suppressed.assign(1'000'000, 5);
  CHECK(run(bad).error.find("planned were") != std::string::npos);
  bad = short_prompt(4);
  bad.slices[0].penalized.resize(801);
  CHECK(run(bad).error.find("801 penalized tokens, at most 800") != std::string::npos);
  const BatchResult good = run(short_prompt(3));
  CHECK(good.error == "");
  CHECK(good.batch_id == 3);
  CHECK(good.tokens.at(0) >= 0);
}

TEST_CASE("cuda device: a host tier that cannot be registered is refused with its size") {
  const SmallCudaModel model(small_settings(DataType::kBF16));
  const auto host_pages = model.make_host_pages(4);
  const std::size_t size_bytes = host_pages->memory().size();
  {
    const simt::Refusals refusals({.of_host_registration = true});
    CHECK_THROWS_WITH_AS(
        cuda::CudaDevice(model.get(), {.host_pages = host_pages}),
        ("the GPU can't be given " + std::to_string(size_bytes) +
         " bytes of the host's memory (cudaErrorMemoryAllocation): less of it for KV pages, or a "
         "higher limit of locked memory, may do")
            .c_str(),
        cuda::CudaError);
  }
  const cuda::CudaDevice device(model.get(), {.host_pages = host_pages});  // nothing is left of the refusal
  CHECK(device.description().num_pages == 64);
}

TEST_CASE("cuda device: a product that cuBLASLt has no algorithm for fails its batch in words") {
  const SmallCudaModel model(small_settings(DataType::kBF16));
  cuda::CudaDevice device(model.get());
  ProgramCache programs = model.programs();
  Batch prompt = short_prompt(1);
  prompt.token_ids.assign(70, 3);  // more than the kernel for few tokens takes
  prompt.page_table = {0, 1, 2};
  prompt.slices[0].num_tokens = 70;
  prompt.slices[0].num_pages = 3;
  const simt::Refusals refusals({.of_heuristics = true});
  const BatchResult result =
      wait_for(device, device.submit(programs.find(0, 70, 1), std::make_shared<Batch>(prompt)));
  CHECK(result.error.find("cuBLASLt knows no way to compute a product of ") == 0);
}

TEST_CASE("cuda device: any sequence alone may list all that it can have") {
  auto settings = small_settings(DataType::kBF16);
  settings.num_slots = 1;
  ModelConfig config = small_llama();
  config.vocabulary_size = 20'000;
  config.context_length = 17'000;
  config.num_layers = 1;
  settings.max_pages = 600;
  const SmallCudaModel model(settings, config);
  CHECK(cuda::CudaDevice(model.get()).description().max_penalized_tokens == 17'000);
}

// For every operation of a batch: none hangs, none is silent.
TEST_CASE("cuda device: after an error of the GPU every batch fails, whatever waits for it") {
  for (const CompletionSignal signal :
       {CompletionSignal::kPolledWord, CompletionSignal::kHostFunction, CompletionSignal::kEvent}) {
    for (const std::uint64_t operation : {1U, 2U, 7U, 12U}) {
      auto settings = small_settings(DataType::kBF16);
      settings.completion = signal;
      const SmallCudaModel model(settings);
      {
        cuda::CudaDevice device(model.get());
        std::atomic<int> calls{0};
        device.set_listener([&] { ++calls; });
        ProgramCache programs = model.programs();
        const auto program = programs.find(0, 3, 1);
        simt::fail_operation(operation, cudaErrorIllegalAddress);
        std::vector<Ticket> tickets;
        for (std::uint64_t id = 1; id <= 3; ++id)
          tickets.push_back(device.submit(program, std::make_shared<Batch>(short_prompt(id))));
        for (const Ticket ticket : tickets) {
          const BatchResult result = wait_for(device, ticket);
          CHECK(result.error.find("cudaErrorIllegalAddress") != std::string::npos);
        }
        CHECK(test::eventually([&] { return calls == 3; }));  // a batch is seen before it is told
      }
      simt::reset_device();
    }
  }
}

TEST_CASE("cuda device: a GPU that is too small is refused with numbers") {
  const simt::Runtime runtime({.memory_bytes = std::size_t{600} << 20});
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), small_llama(), 1);
  auto settings = small_settings(DataType::kBF16);
  settings.model_dir = directory.path();
  settings.num_slots = 64;
  std::string reason;
  try {
    cuda::plan_cuda_model(settings);
  } catch (const std::exception& error) {
    reason = error.what();
  }
  CHECK(reason.find("does not fit") != std::string::npos);
  CHECK(reason.find("graphs 256.0 MiB") != std::string::npos);
}

TEST_CASE("cuda device: what a driver takes unasked finds room beside a pool that takes all that is free") {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), small_llama(), 1);
  auto settings = small_settings(DataType::kBF16);
  settings.model_dir = directory.path();
  settings.max_pages = 1'000'000;
  std::vector<DirectRequest> requests;
  for (std::int32_t i = 0; i < 8; ++i)
    requests.push_back(
        {.prompt = std::vector<std::int32_t>(static_cast<std::size_t>(1 + 9 * i), i),
         .num_new = static_cast<std::uint32_t>(4 + 4 * i)});  // batches of 8, then of ever fewer
  struct Outcome {
    std::vector<std::vector<std::int32_t>> tokens;
    std::size_t num_graphs = 0;
  };
  const auto outcome_with = [&](std::size_t graph_bytes) {
    const simt::Runtime runtime(
        {.memory_bytes = 960 * kMiB,
         .costs = {.context_bytes = 64 * kMiB, .kernel_bytes = 8 * kMiB, .graph_bytes = graph_bytes}});
    std::string news;
    const auto model = std::make_shared<const cuda::CudaModel>(cuda::plan_cuda_model(settings), news);
    const MemoryPlan& memory = model->plan.memory;
    CHECK(memory.total_bytes + memory.request.page_bytes > memory.request.budget_bytes);
    CHECK(memory.request.budget_bytes == (960 - 64 - 512) * kMiB);
    cuda::CudaDevice device(model);
    ProgramCache programs(model->plan.network, model->plan.compute_type, model->plan.largest);
    auto tokens = generate(device, programs, requests, {.in_flight = 2});
    return Outcome{std::move(tokens), device.num_graphs()};
  };
  const Outcome usual = outcome_with(2 * kMiB), large = outcome_with(200 * kMiB),
                too_large = outcome_with(300 * kMiB);
  CHECK(usual.num_graphs > 1);
  CHECK(large.num_graphs == 1);  // the part of graphs is 256 MiB
  CHECK(too_large.num_graphs == 0);
  CHECK(large.tokens == usual.tokens);
  CHECK(too_large.tokens == usual.tokens);
}

TEST_CASE("cuda device: a weight that is no number is refused by name, whichever thread finds it") {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), small_llama(), 1);
  {
    std::fstream file(directory.path() / "model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-8, std::ios::end);
    file.write("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8);
  }
  const GpuRuntime runtime;
  auto settings = small_settings(DataType::kBF16);
  settings.model_dir = directory.path();
  std::string news, reason;
  try {
    const cuda::CudaModel model(cuda::plan_cuda_model(settings), news);
  } catch (const std::runtime_error& error) {
    reason = error.what();
  }
  CHECK_MESSAGE(reason.find("model.norm.weight") != std::string::npos, reason);
}

TEST_CASE("cuda device: it takes no more memory than was planned") {
  const SmallCudaModel model(small_settings(DataType::kBF16));
  std::size_t free_before = 0, free_now = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free_before, &total) == cudaSuccess);
  const auto& plan = model.get()->plan;
  // Weights and tables are loaded.
  const std::uint64_t left =
      plan.memory.total_bytes - plan.memory.request.weight_bytes - plan.memory.request.table_bytes;
  {
    cuda::CudaDevice device(model.get());
    ProgramCache programs = model.programs();
    std::vector<DirectRequest> requests;
    for (std::int32_t i = 0; i < 8; ++i) {
      DirectRequest request;
      request.prompt.assign(static_cast<std::size_t>(1 + 9 * i), i);
      request.num_new = 6;
      requests.push_back(request);
    }
    (void)generate(device, programs, requests, {.in_flight = 2});
    REQUIRE(cudaMemGetInfo(&free_now, &total) == cudaSuccess);
    CHECK(free_before - free_now <= left);
  }
  REQUIRE(cudaMemGetInfo(&free_now, &total) == cudaSuccess);
  CHECK(free_now == free_before);
}

TEST_CASE("cuda device: it can go with batches in flight, and the next one gives the same tokens") {
  const SmallCudaModel model(small_settings(DataType::kBF16));
  ProgramCache programs = model.programs();
  const auto program = programs.find(0, 3, 1);
  std::vector<std::int32_t> tokens;
  for (int round = 0; round < 4; ++round) {
    cuda::CudaDevice device(model.get());
    const auto batch = std::make_shared<Batch>(short_prompt(1));
    const Ticket first = device.submit(program, batch);
    for (int i = 0; i < round; ++i) device.submit(program, batch);
    tokens.push_back(wait_for(device, first).tokens.at(0));
  }
  CHECK(tokens == std::vector<std::int32_t>(4, tokens.front()));
}

TEST_CASE("cuda device: what it made goes with it") {
  const SmallCudaModel model(small_settings(DataType::kBF16));
  const auto host_pages = model.make_host_pages(2);
  const auto before = simt::live_objects();
  {
    cuda::CudaDevice device(model.get(), {.host_pages = host_pages});
    ProgramCache programs = model.programs();
    DirectRequest request;
    request.prompt = {1, 2, 3};
    request.num_new = 6;
    (void)generate(device, programs, {request}, {.in_flight = 2});
    CHECK(device.num_graphs() > 0);
    CHECK(!(simt::live_objects() == before));
  }
  CHECK(simt::live_objects() == before);
}

TEST_CASE("cuda device: all three ways to see a batch end give the same tokens") {
  std::vector<std::vector<std::vector<std::int32_t>>> answers;
  for (const CompletionSignal signal :
       {CompletionSignal::kPolledWord, CompletionSignal::kHostFunction, CompletionSignal::kEvent}) {
    auto settings = small_settings(DataType::kBF16);
    settings.completion = signal;
    const SmallCudaModel model(settings);
    cuda::CudaDevice device(model.get());
    ProgramCache programs = model.programs();
    DirectRequest request;
    request.prompt = {1, 2, 3};
    request.num_new = 6;
    answers.push_back(generate(device, programs, {request}, {.in_flight = 2}));
  }
  CHECK(answers[0] == answers[1]);
  CHECK(answers[0] == answers[2]);
}

}  // namespace troupe
