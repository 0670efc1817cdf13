// SPDX-License-Identifier: Apache-2.0
#include "tiny_model.hpp"

#include "generation.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {

ModelConfig tiny_llama() {
  ModelConfig config = llama_100m();
  config.hidden_size = 64;
  config.intermediate_size = 96;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.vocabulary_size = 100;
  config.context_length = 256;
  return config;
}

const std::shared_ptr<const CpuModel>& tiny_model() {
  static const std::shared_ptr<const CpuModel> model = [] {
    const TemporaryDirectory directory;  // weights are packed: the files may go
    write_random_llama(directory.path(), tiny_llama(), 1);
    return load_cpu_model(plan_cpu_model(
        directory.path(), {.num_threads = 2, .num_slots = 8, .max_batch_tokens = 64, .max_pages = 64}));
  }();
  return model;
}

ProgramCache make_programs() {
  return {tiny_model()->network, tiny_model()->compute_type, tiny_model()->largest};
}

Batch good_batch() {
  Batch batch{.id = 5, .slices = {}, .token_ids = {3, 4, 5}, .page_table = {0, 1}};
  batch.slices.push_back({.sequence = 42,
                          .num_tokens = 3,
                          .num_pages = 2,
                          .sample = true,
                          .sampling = {.temperature = 0.0F},
                          .suppressed = {}});
  return batch;
}

BatchResult run(CpuDevice& device, ProgramCache& programs, const Batch& batch) {
  const auto program = programs.find(0, 64, 8);
  return wait_for(device, device.submit(program, std::make_shared<Batch>(batch)));
}

}  // namespace troupe
