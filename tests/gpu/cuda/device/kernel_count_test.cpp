// SPDX-License-Identifier: Apache-2.0
// How many kernels a batch is: what a GPU starts, counted by the twin of CUDA's
// runtime.
#include <doctest/doctest.h>

#include "cuda_model.hpp"
#include "generation.hpp"
#include "tests/simt/runtime/runtime.hpp"

namespace troupe {
namespace {

// Of a decode step of `num_streams` sequences with so much context.
std::uint64_t kernels_of_step(std::uint32_t num_layers, std::uint32_t num_streams,
                              std::uint32_t context_length) {
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
  const std::uint64_t before = simt::kernels_launched();
  const auto program = programs.find(0, num_streams, num_streams);
  wait_for(device, device.submit(program, std::make_shared<Batch>(batch)));
  return simt::kernels_launched() - before;
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

}  // namespace troupe
