// SPDX-License-Identifier: Apache-2.0
#include "app/loading/model_source.hpp"

#include <doctest/doctest.h>

#include "gpu/model/random_model.hpp"
#include "tests/support/gpu/gguf_model.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

ModelConfig small_llama() {
  ModelConfig config = llama_100m();
  config.num_layers = 1;
  config.hidden_size = config.intermediate_size = config.vocabulary_size = 64;
  config.num_heads = config.num_kv_heads = 1;
  return config;
}

}  // namespace

TEST_CASE("model source: the weights of a GGUF file are the file itself") {
  const TemporaryDirectory place;
  const auto gguf = place.path() / "model.gguf";
  test::write_twins(gguf, place.path() / "plain", small_llama(), BlockFormat::kF32, 1);
  CHECK(weight_files(gguf) == std::vector{gguf});
}

TEST_CASE("model source: those of a directory are its configuration and its safetensors") {
  const TemporaryDirectory place;
  test::write_twins(place.path() / "model.gguf", place.path() / "plain", small_llama(), BlockFormat::kF32, 1);
  const auto plain = place.path() / "plain";
  CHECK(weight_files(plain) == std::vector{plain / "config.json", plain / "model.safetensors"});
}

}  // namespace troupe
