// SPDX-License-Identifier: Apache-2.0
#include "app/costs/encoder_costs.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "gpu/model/random_model.hpp"
#include "store/measurement_files.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;

namespace encoder_costs_test {
namespace {

// One layer of width 32.
LoadedModel load_tiny_encoder(const std::filesystem::path& directory) {
  ModelConfig config;
  config.architecture = "BertModel";
  config.hidden_size = config.intermediate_size = 32;
  config.num_layers = 1;
  config.num_heads = config.num_kv_heads = 2;
  config.head_dim = 16;
  config.vocabulary_size = 4096;
  config.context_length = 64;
  config.norm_epsilon = 1e-12F;
  config.encoder = EncoderConfig{};
  write_random_bert(directory, config, 1);
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
    std::filesystem::copy_file(std::filesystem::path(TROUPE_SOURCE_DIR "/models/demo") / file,
                               directory / file);
  Options options;
  options.models.front().dir = directory.string();
  options.device = "cpu";
  options.threads = 1;
  options.pin_threads = false;
  options.memory_bytes = 256 << 20;
  return load_model(options);
}

bool are_equal(const EncoderCosts& a, const EncoderCosts& b) {
  return std::equal(a.values().begin(), a.values().end(), b.values().begin());
}

}  // namespace

TEST_CASE("encoder costs: they are measured once, and again where their file is damaged") {
  const test::TemporaryDirectory root;
  const LoadedModel model = load_tiny_encoder(root.path() / "model");
  const StateDirectory directory(root.path() / "state");
  (void)encoder_costs(model, &directory);
  const auto kept = read_encoder_costs(directory, encoder_cost_key(model));
  REQUIRE(kept);
  CHECK_FALSE(are_equal(*kept, EncoderCosts()));
  CHECK(are_equal(encoder_costs(model, &directory), *kept));

  std::ofstream(directory.path() / kEncoderCostFile, std::ios::trunc) << std::string(5000, 'x');
  (void)encoder_costs(model, &directory);
  CHECK(read_encoder_costs(directory, encoder_cost_key(model)));
}

TEST_CASE("encoder costs: those of other batches have another key") {
  const test::TemporaryDirectory root;
  LoadedModel model = load_tiny_encoder(root.path() / "model");
  const std::string key = encoder_cost_key(model);
  model.options.serving.max_batch_tokens = 128;
  CHECK(encoder_cost_key(model) != key);
}

TEST_CASE("encoder costs: a device that can't be made leaves them to be learnt") {
  const test::TemporaryDirectory root;
  LoadedModel model = load_tiny_encoder(root.path() / "model");
  model.make_device = [](WorkerId) -> std::unique_ptr<Device> { throw std::runtime_error("no device"); };
  CHECK(are_equal(encoder_costs(model, nullptr), EncoderCosts()));
}

}  // namespace encoder_costs_test
