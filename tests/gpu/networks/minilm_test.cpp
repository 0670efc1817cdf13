// SPDX-License-Identifier: Apache-2.0
// all-MiniLM-L6-v2 against transformers in f64: vectors written once by
// scripts/minilm/make_reference_vectors.py. scripts/minilm/fetch gets the model;
// without it the tests are skipped.
#include "gpu/cpu/cpu_device.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "gpu/cpu/cpu_model.hpp"
#include "gpu/cpu/kernels/number_formats.hpp"
#include "gpu/model/safetensors.hpp"
#include "tests/gpu/tiny_bert.hpp"
#include "tests/support/gpu/bert_reference.hpp"
#include "tests/support/gpu/safetensors_values.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

using test::values_of;

constexpr std::uint32_t kMaxBatchTokens = 2048;

std::optional<std::filesystem::path> find_minilm() {
  const char* named = std::getenv("TROUPE_MINILM");
  const char* home = std::getenv("HOME");
  const auto path = named != nullptr ? std::filesystem::path(named)
                                     : std::filesystem::path(home != nullptr ? home : "/") /
                                           ".cache/troupe/models/all-MiniLM-L6-v2";
  if (std::filesystem::exists(path / "model.safetensors")) return path;
  MESSAGE("SKIPPED: no all-MiniLM-L6-v2 at " << path.string() << "; scripts/minilm/fetch gets it");
  return std::nullopt;
}

struct Expectation {
  std::vector<Text> texts;
  std::vector<std::vector<double>> vectors;
};

Expectation read_expectation() {
  const SafetensorsFile file(std::filesystem::path(TROUPE_SOURCE_DIR) /
                             "tests/fixtures/minilm_vectors.safetensors");
  Expectation expectation;
  const auto tokens = values_of<std::int32_t>(file, "tokens");
  auto token = tokens.begin();
  for (const std::int32_t length : values_of<std::int32_t>(file, "lengths")) {
    expectation.texts.emplace_back(token, token + length);
    token += length;
  }
  const auto halves = values_of<std::uint16_t>(file, "vectors");
  std::vector<float> values(halves.size());
  convert_to_f32(DataType::kF16, halves.data(), values.data(), values.size());
  const auto width = static_cast<std::ptrdiff_t>(values.size() / expectation.texts.size());
  for (auto at = values.begin(); at != values.end(); at += width)
    expectation.vectors.emplace_back(at, at + width);
  return expectation;
}

// As many texts in a batch as fit. The model ends inputs at 256 tokens by its own choice
// (sentence_bert_config.json); without that file at 512, as many as it has positions for.
Vectors encode_all(const std::filesystem::path& path, const std::vector<Text>& texts,
                   std::optional<DataType> compute_type) {
  const test::TemporaryDirectory unlimited;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    if (entry.path().filename() != "sentence_bert_config.json")
      std::filesystem::create_symlink(entry.path(), unlimited.path() / entry.path().filename());
  const auto model = load_cpu_model(
      plan_cpu_model(unlimited.path(),
                     {.compute_type = compute_type, .num_threads = 2, .max_batch_tokens = kMaxBatchTokens}));
  CpuDevice device(model);
  ProgramCache programs(model->network, model->compute_type, model->largest);
  Vectors vectors;
  std::vector<Text> batch;
  std::size_t num_tokens = 0, num_all = 0;
  const auto start = std::chrono::steady_clock::now();
  const auto flush = [&] {
    for (auto& vector : encode(device, &programs, batch)) vectors.push_back(std::move(vector));
    batch.clear();
    num_tokens = 0;
  };
  for (const Text& text : texts) {
    if (num_tokens + text.size() > kMaxBatchTokens) flush();
    batch.push_back(text);
    num_tokens += text.size();
    num_all += text.size();
  }
  flush();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  MESSAGE(name_of(model->compute_type)
          << ": " << texts.size() << " texts, " << num_all << " tokens in " << took.count() << " s");
  return vectors;
}

double smallest_cosine(const Vectors& vectors, const Expectation& expectation) {
  double smallest = 1.0;
  REQUIRE(vectors.size() == expectation.vectors.size());
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    const double cosine = test::cosine(vectors[i], expectation.vectors[i]);
    REQUIRE(std::isfinite(cosine));
    smallest = std::min(smallest, cosine);
  }
  MESSAGE("smallest cosine " << smallest << " = 1 - " << 1.0 - smallest);
  return smallest;
}

}  // namespace

TEST_CASE("minilm: 300 texts of 1 to 512 tokens have the vectors of transformers") {
  const auto path = find_minilm();
  if (!path) return;
  const Expectation expectation = read_expectation();
  CHECK(expectation.texts.size() == 300);
  CHECK(smallest_cosine(encode_all(*path, expectation.texts, {}), expectation) >= 0.999999);
}

TEST_CASE("minilm: in bf16 their vectors point in the same direction within 0.001") {
  const auto path = find_minilm();
  if (!path) return;
  const Expectation expectation = read_expectation();
  CHECK(smallest_cosine(encode_all(*path, expectation.texts, DataType::kBF16), expectation) >= 0.999);
}

}  // namespace troupe
