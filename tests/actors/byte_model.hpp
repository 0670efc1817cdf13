// SPDX-License-Identifier: Apache-2.0
// A model whose tokens are bytes and a device that draws letters for it at no
// cost: for tests of what is around a network.
#pragma once

#include <chrono>
#include <memory>

#include "actors/engine.hpp"
#include "gpu/noop/noop_device.hpp"
#include "tests/actors/byte_tokenizer.hpp"

namespace troupe {

inline ServedModel byte_model() {
  ServedModel model;
  model.name = "bytes";
  model.tokenizer = std::make_shared<const ByteTokenizer>();
  model.eos_tokens = {ByteTokenizer::kEos};
  return model;
}

inline NoopDeviceSettings letters_device(std::chrono::nanoseconds iteration_time = {}) {
  NoopDeviceSettings settings;
  settings.description = {.name = "no-op",
                          .page_size = 16,
                          .num_pages = 1024,
                          .num_slots = 64,
                          .max_batch_tokens = 256,
                          .context_length = 512,
                          .vocabulary_size = ByteTokenizer::kVocabularySize};
  settings.first_token = 'a';
  settings.num_tokens = 26;
  settings.iteration_time = iteration_time;
  return settings;
}

}  // namespace troupe
