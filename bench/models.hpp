// SPDX-License-Identifier: Apache-2.0
// The models that benchmarks run: the demo model, and a random Llama of about
// 100 million parameters written to a temporary directory by the first that
// needs it.
#pragma once

#include <filesystem>
#include <string>

#include "gpu/model/random_model.hpp"

namespace troupe::bench {

inline std::string demo_model() { return TROUPE_SOURCE_DIR "/models/demo"; }

// With the demo model's tokenizer, whose vocabulary is smaller: random ids beyond
// it are just not printable.
inline std::string llama_100m_model() {
  namespace fs = std::filesystem;
  const auto directory = fs::temp_directory_path() / "troupe_bench_llama_100m";
  if (!fs::exists(directory / "tokenizer_config.json")) {
    write_random_llama(directory, llama_100m(), 1);
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
      fs::copy_file(fs::path(demo_model()) / file, directory / file, fs::copy_options::overwrite_existing);
  }
  return directory.string();
}

}  // namespace troupe::bench
