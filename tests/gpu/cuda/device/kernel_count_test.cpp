// SPDX-License-Identifier: Apache-2.0
// How many kernels a batch is, and how many of them begin while the one before them runs: what a
// GPU starts, counted by the twin of CUDA's runtime.
#include <doctest/doctest.h>

#include "cuda_model.hpp"
#include "generation.hpp"
#include "tests/simt/runtime/runtime.hpp"

namespace troupe {
namespace {

struct StepCounts {
  std::uint64_t kernels = 0, overlaps = 0, carveout_changes = 0;
};
StepCounts counts_so_far() {
  return {simt::kernels_launched(), simt::kernels_overlapped(), simt::carveout_changes()};
}

// Of a decode step of `num_streams` sequences with so much context.
StepCounts counts_of_step(std::uint32_t num_layers, std::uint32_t num_streams, std::uint32_t context_length) {
  ModelConfig config = small_llama();
  config.num_layers = num_layers;
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
  const StepCounts before = counts_so_far();
  const auto program = programs.find(0, num_streams, num_streams);
  wait_for(device, device.submit(program, std::make_shared<Batch>(batch)));
  const StepCounts after = counts_so_far();
  return {after.kernels - before.kernels, after.overlaps - before.overlaps,
          after.carveout_changes - before.carveout_changes};
}

std::uint64_t kernels_of_step(std::uint32_t num_layers, std::uint32_t num_streams,
                              std::uint32_t context_length) {
  return counts_of_step(num_layers, num_streams, context_length).kernels;
}

std::uint64_t kernels_a_layer(std::uint32_t num_streams, std::uint32_t context_length) {
  return kernels_of_step(2, num_streams, context_length) - kernels_of_step(1, num_streams, context_length);
}

}  // namespace

TEST_CASE("cuda device: a layer of a decode step is five kernels, six where contexts are split") {
  CHECK(kernels_a_layer(1, 100) == 5);
  CHECK(kernels_a_layer(8, 100) == 5);
  CHECK(kernels_a_layer(1, 700) == 6);
}

TEST_CASE("cuda device: around the layers a decode step has seven kernels") {
  // Embedding, norm; rows that are sampled, norm, logits, sampling; the signal.
  CHECK(kernels_of_step(1, 1, 100) == 5 + 7);
}

TEST_CASE("cuda device: every kernel of a decode step begins while the one before it ends") {
  for (const std::uint32_t context_length : {100U, 700U}) {
    const StepCounts counts = counts_of_step(2, 1, context_length);
    // But for the embedding, behind the batch's input, and the signal, behind a graph as a rule.
    CHECK(counts.overlaps == counts.kernels - 2);
    CHECK(counts.carveout_changes == 0);
  }
}

}  // namespace troupe
