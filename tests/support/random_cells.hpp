// SPDX-License-Identifier: Apache-2.0
// Small models of recurrent cells with random weights, as scripts/cells/make_random writes them.
#pragma once

#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "app/loading/model_loading.hpp"
#include "tests/support/process/server_process.hpp"

namespace troupe::test {

// For one thread, with batches of at most 16 nodes.
inline Options options_of_cells(const std::filesystem::path& directory) {
  Options options;
  options.models.front().dir = directory.string();
  options.device = "cpu";
  options.threads = 1;
  options.pin_threads = false;
  options.memory_bytes = 256 << 20;
  options.serving.max_batch_sequences = 16;
  options.serving.max_batch_tokens = 16;
  return options;
}

// Of width 16. kind: lstm, seq2seq or tree.
inline LoadedModel load_random_cells(const std::filesystem::path& directory, const std::string& kind,
                                     int vocabulary) {
  const auto made =
      run_command({"/usr/bin/env", "python3", TROUPE_SOURCE_DIR "/scripts/cells/make_random", kind,
                   directory.string(), "--hidden", "16", "--vocabulary", std::to_string(vocabulary)});
  REQUIRE_MESSAGE(made.exit_status == 0, made.output);
  return load_model(options_of_cells(directory));
}

}  // namespace troupe::test
