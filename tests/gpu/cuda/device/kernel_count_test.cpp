// SPDX-License-Identifier: Apache-2.0
// How many kernels a batch is, and how many of them begin while the one before them runs: what a
// GPU starts, counted by the twin of CUDA's runtime.
#include <filesystem>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "cell_fixture.hpp"
#include "cuda_model.hpp"
#include "generation.hpp"
#include "gpu/cuda/lowering.hpp"
#include "tests/simt/runtime/runtime.hpp"
#include "tests/support/source_file.hpp"

namespace troupe {
namespace {

struct StepCounts {
  std::uint64_t kernels = 0, overlaps = 0, carveout_changes = 0;
};
StepCounts counts_so_far() {
  return {simt::kernels_launched(), simt::kernels_overlapped(), simt::carveout_changes()};
}

ModelConfig llama_of(std::uint32_t num_layers) {
  ModelConfig config = small_llama();
  config.num_layers = num_layers;
  return config;
}

// Norms of heads keep its products and their neighbours apart.
ModelConfig qwen3_of(std::uint32_t num_layers) {
  ModelConfig config = llama_of(num_layers);
  config.architecture = "Qwen3ForCausalLM";
  config.head_norms = true;
  return config;
}

StepCounts counts_of(cuda::CudaDevice& device, const std::shared_ptr<const Program>& program,
                     const std::shared_ptr<const Batch>& batch) {
  const StepCounts before = counts_so_far();
  wait_for(device, device.submit(program, batch));
  const StepCounts after = counts_so_far();
  return {after.kernels - before.kernels, after.overlaps - before.overlaps,
          after.carveout_changes - before.carveout_changes};
}

// The kernels of a decode step of `num_streams` sequences with so much context.
StepCounts counts_of_step(ModelConfig config, std::uint32_t num_streams, std::uint32_t context_length) {
  config.context_length = 1024;
  const SmallCudaModel model(small_settings(DataType::kBF16), config);
  cuda::CudaDevice device(model.get());
  ProgramCache programs = model.programs();
  const std::uint32_t num_pages = context_length / 32 + 1;
  Batch batch{.id = 1, .slices = {}, .token_ids = {}, .page_table = {}};
  for (std::uint32_t stream = 0; stream < num_streams; ++stream) {
    batch.slices.push_back({.slot = stream,
                            .num_tokens = 1,
                            .context_length = context_length,
                            .first_page = stream * num_pages,
                            .num_pages = num_pages,
                            .sample = true,
                            .sampling = {.temperature = 0.0F},
                            .suppressed = {}});
    batch.token_ids.push_back(1);
    for (std::uint32_t page = 0; page < num_pages; ++page)
      batch.page_table.push_back(page);  // nobody has computed them: only counts matter
  }
  return counts_of(device, programs.find(0, num_streams, num_streams), std::make_shared<Batch>(batch));
}

std::shared_ptr<const cuda::CudaModel> load(const std::filesystem::path& directory, DataType type) {
  BackendSettings settings = small_settings(type);
  settings.model_dir = directory;
  std::string news;
  return std::make_shared<const cuda::CudaModel>(cuda::plan_cuda_model(settings), news);
}

// A step of one sequence, of which it is the first token.
StepCounts counts_of_first_token(const std::shared_ptr<const cuda::CudaModel>& model) {
  cuda::CudaDevice device(model);
  ProgramCache programs(model->plan.network, model->plan.compute_type, model->plan.largest);
  const auto batch = std::make_shared<Batch>();
  batch->slices.push_back({.num_tokens = 1,
                           .num_pages = model->plan.has_pages() ? 1U : 0U,
                           .sample = true,
                           .sampling = {.temperature = 0.0F},
                           .suppressed = {}});
  batch->token_ids = {1};
  if (model->plan.has_pages()) batch->page_table = {0};
  return counts_of(device, programs.find(0, 1, 1), batch);
}

// A step of the LSTM among the fixtures, which has two layers.
StepCounts counts_of_lstm_step(DataType type) {
  const GpuRuntime runtime;
  const CellFixture fixture("lstm");
  return counts_of_first_token(load(fixture.directory, type));
}

std::uint64_t kernels_of_step(std::uint32_t num_layers, std::uint32_t num_streams,
                              std::uint32_t context_length) {
  return counts_of_step(llama_of(num_layers), num_streams, context_length).kernels;
}

std::uint64_t kernels_a_layer(std::uint32_t num_streams, std::uint32_t context_length) {
  return kernels_of_step(2, num_streams, context_length) - kernels_of_step(1, num_streams, context_length);
}

}  // namespace

TEST_CASE("cuda device: kernels are launched within the registers and shared memory that nvcc gave them") {
  const std::uint64_t launched = simt::kernels_launched(), held = simt::kernels_held_to_table();
  (void)counts_of_step(llama_of(1), 1, 700);
  CHECK(simt::kernels_launched() > launched);
  CHECK(simt::kernels_held_to_table() - held == simt::kernels_launched() - launched);
  const std::uint64_t held_before = simt::kernels_held_to_table();
  const std::uint64_t of_cells = counts_of_lstm_step(DataType::kBF16).kernels;
  CHECK(simt::kernels_held_to_table() - held_before == of_cells - 5);  // of which products are cuBLASLt's
}

TEST_CASE("cuda device: a layer of a decode step is five kernels, six where contexts are split") {
  CHECK(kernels_a_layer(1, 100) == 5);
  CHECK(kernels_a_layer(8, 100) == 5);
  CHECK(kernels_a_layer(1, 700) == 6);
}

TEST_CASE("cuda device: the number of batches in flight is the model's where none is named") {
  auto settings = small_settings(DataType::kBF16);
  settings.max_in_flight = 0;
  // 17 kernels take some 34 us, the host's turn six times as long.
  CHECK(SmallCudaModel(settings, llama_of(2)).get()->plan.settings.max_in_flight == 4);
  settings.max_in_flight = 3;
  CHECK(SmallCudaModel(settings, llama_of(2)).get()->plan.settings.max_in_flight == 3);
}

// That number decides how many batches are in flight.
TEST_CASE("cuda device: a decode step is as many kernels as its program is reckoned to be, and the signal") {
  const GpuRuntime runtime;
  for (const char* family : {"lfm2", "gpt2", "mistral", "phi", "qwen3"}) {
    CAPTURE(family);
    const auto model = load(test::source_file("tests/fixtures/families") / family, DataType::kBF16);
    const Program program = model->plan.network->build_program(0, {1, 1}, DataType::kBF16);
    const auto lowered = cuda::lower(program, DataType::kBF16, model->plan.may_fuse());
    CHECK(counts_of_first_token(model).kernels == cuda::num_kernels(lowered) + 1);
  }
}

TEST_CASE("cuda device: around the layers a decode step has seven kernels") {
  // Embedding, norm; rows that are sampled, norm, logits, sampling; the signal.
  CHECK(kernels_of_step(1, 1, 100) == 5 + 7);
}

TEST_CASE("cuda device: every kernel of a decode step begins while the one before it ends") {
  for (const std::uint32_t context_length : {100U, 700U}) {
    const StepCounts counts = counts_of_step(llama_of(2), 1, context_length);
    // But for the embedding, behind the batch's input, and the signal, behind a graph as a rule.
    CHECK(counts.overlaps == counts.kernels - 2);
    CHECK(counts.carveout_changes == 0);
  }
}

TEST_CASE(
    "cuda device: in a step that is not fused, all but cuBLASLt's kernels and those behind them overlap") {
  const StepCounts one = counts_of_step(qwen3_of(1), 1, 100), two = counts_of_step(qwen3_of(2), 1, 100);
  // Norm, product, norm of heads, rotation, attention, product that adds; norm, product, activation, product
  // that adds. Those that add are cuBLASLt's.
  CHECK(two.kernels - one.kernels == 10);
  CHECK(two.overlaps - one.overlaps == 10 - 2 * 2);
}

TEST_CASE(
    "cuda device: a layer of an LSTM is four kernels, in 16 bits, too, whose rounding is a part of them") {
  // Embedding; a product each of input and state, which is gathered, and the cell, twice; rows that are
  // sampled, logits, sampling; the signal.
  CHECK(counts_of_lstm_step(DataType::kF32).kernels == 1 + 2 * 4 + 3 + 1);
  // Rows of the embedding, and those that are sampled, are rounded by kernels of their own.
  CHECK(counts_of_lstm_step(DataType::kBF16).kernels == 1 + 2 * 4 + 3 + 1 + 2);
}

}  // namespace troupe
