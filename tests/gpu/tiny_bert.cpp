// SPDX-License-Identifier: Apache-2.0
#include "tiny_bert.hpp"

#include <memory>
#include <random>

#include <doctest/doctest.h>

#include "generation.hpp"
#include "gpu/networks/bert_config.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

Text random_text(std::size_t length, std::mt19937& random) {
  Text text(length);
  for (auto& id : text) id = static_cast<std::int32_t>(random() % 211);
  return text;
}

}  // namespace

ModelConfig tiny_bert() {
  ModelConfig config;
  config.architecture = kBertArchitecture;
  config.hidden_size = 96;
  config.intermediate_size = 172;  // no multiple of any kernel's block
  config.num_layers = 3;
  config.num_heads = config.num_kv_heads = 3;
  config.head_dim = 32;
  config.vocabulary_size = 211;
  config.context_length = 64;
  config.norm_epsilon = 1e-12F;
  config.encoder = EncoderConfig{};
  return config;
}

const std::filesystem::path& tiny_bert_directory() {
  static const TemporaryDirectory directory;
  static const bool is_written = [] {
    write_random_bert(directory.path(), tiny_bert(), 1);
    return true;
  }();
  static_cast<void>(is_written);
  return directory.path();
}

std::vector<Text> texts_of_every_length() {
  std::mt19937 random(3);
  std::vector<Text> texts;
  for (std::size_t length = 1; length <= 64; ++length) texts.push_back(random_text(length, random));
  return texts;
}

std::vector<Text> random_texts(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Text> texts;
  for (std::size_t i = 0; i < count; ++i) texts.push_back(random_text(1 + random() % 64, random));
  return texts;
}

Batch batch_of(const std::vector<Text>& texts) {
  Batch batch{.id = 7, .slices = {}, .token_ids = {}, .page_table = {}};
  for (const Text& text : texts) {
    SequenceSlice slice;
    slice.sequence = batch.slices.size();
    slice.num_tokens = static_cast<std::uint32_t>(text.size());
    batch.slices.push_back(slice);
    batch.token_ids.insert(batch.token_ids.end(), text.begin(), text.end());
  }
  return batch;
}

Vectors encode(Device& device, ProgramCache* programs, const std::vector<Text>& texts) {
  const auto batch = std::make_shared<const Batch>(batch_of(texts));
  const auto program = programs == nullptr
                           ? nullptr
                           : programs->find(batch->cell, batch->num_tokens(), batch->num_output_rows());
  const BatchResult result = wait_for(device, device.submit(program, batch));
  REQUIRE(result.error == "");
  CHECK(result.batch_id == 7);
  CHECK(result.tokens == std::vector<std::int32_t>(texts.size(), -1));
  const std::size_t width = device.description().cells.at(0).vector_size;
  REQUIRE(result.vectors.size() == texts.size() * width);
  Vectors vectors;
  for (auto at = result.vectors.begin(); at != result.vectors.end(); at += static_cast<std::ptrdiff_t>(width))
    vectors.emplace_back(at, at + static_cast<std::ptrdiff_t>(width));
  return vectors;
}

}  // namespace troupe
