// SPDX-License-Identifier: Apache-2.0
// The models that benchmarks run: the demo model, and random Llamas of 100 million and
// 1.1 billion parameters written to a temporary directory by the first that needs them.
#pragma once

#include <filesystem>
#include <string>

#include "gpu/model/random_model.hpp"

namespace troupe::bench {

inline std::string demo_model() { return TROUPE_SOURCE_DIR "/models/demo"; }

// With the demo model's tokenizer, whose vocabulary is smaller: random ids beyond
// it are just not printable.
inline void add_demo_tokenizer(const std::filesystem::path& directory) {
  namespace fs = std::filesystem;
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
    fs::copy_file(fs::path(demo_model()) / file, directory / file, fs::copy_options::overwrite_existing);
}

inline std::string llama_100m_model() {
  const auto directory = std::filesystem::temp_directory_path() / "troupe_bench_llama_100m";
  if (!std::filesystem::exists(directory / "tokenizer_config.json")) {
    write_random_llama(directory, llama_100m(), 1);
    add_demo_tokenizer(directory);
  }
  return directory.string();
}

// TinyLlama's shape with a vocabulary of 32,064: 1.1 billion parameters, 2.2 GB.
inline std::string llama_1b_model() {
  const auto directory = std::filesystem::temp_directory_path() / "troupe_bench_llama_1b";
  if (std::filesystem::exists(directory / "tokenizer_config.json")) return directory.string();
  ModelConfig config = llama_100m();
  config.hidden_size = 2048;
  config.intermediate_size = 5632;
  config.num_layers = 22;
  config.num_heads = 32;
  config.num_kv_heads = 4;
  config.head_dim = 64;
  config.vocabulary_size = 32064;
  config.context_length = 2048;
  config.tied_embeddings = false;
  write_random_llama(directory, config, 1, {}, std::uint64_t{1} << 20);
  add_demo_tokenizer(directory);
  return directory.string();
}

}  // namespace troupe::bench
