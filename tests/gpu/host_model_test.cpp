// SPDX-License-Identifier: Apache-2.0
#include "gpu/host/host_model.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "generation.hpp"
#include "gpu/safetensors.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tiny_model.hpp"

namespace troupe {
namespace {

// The logits behind a prompt of 100 tokens.
std::vector<float> last_logits(const std::filesystem::path& path, HostModelSettings settings) {
  settings.num_threads = 2;
  const auto model = load_host_model(plan_host_model(path, settings));
  CapturedLogits captured;
  {
    HostDevice device(model, {.on_logits = capture_logits(captured)});
    ProgramCache programs(model->network, model->compute_type, model->largest);
    generate(device, programs, {{.prompt = std::vector<std::int32_t>(100, 7), .num_new = 1}});
  }
  REQUIRE(captured[0].size() == 1);
  return captured[0][0];
}

// |a - b| / |b|
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double squares = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    size += double{b[i]} * b[i];
  }
  return std::sqrt(squares / size);
}

// The bf16 weights of a directory again, as bf16 or f32, behind a header that
// puts the data `misalignment` bytes off.
void rewrite_weights(const std::filesystem::path& model_dir, DataType type, std::size_t misalignment) {
  const auto path = model_dir / "model.safetensors";
  nlohmann::json header;
  std::string bytes;
  {
    const SafetensorsFile file(path);
    for (const auto& entry : file.entries()) {
      const std::size_t begin = bytes.size();
      const auto* values = reinterpret_cast<const std::uint16_t*>(file.bytes_of(entry).data());
      for (std::size_t i = 0; i < entry.size_bytes / 2; ++i) {
        const std::uint32_t widened = std::uint32_t{values[i]} << 16;
        if (type == DataType::kF32) {
          bytes.append(reinterpret_cast<const char*>(&widened), sizeof(widened));
        } else {
          bytes.append(reinterpret_cast<const char*>(&values[i]), sizeof(values[i]));
        }
      }
      header[entry.name] = {{"dtype", type == DataType::kF32 ? "F32" : "BF16"},
                            {"shape", entry.shape},
                            {"data_offsets", {begin, bytes.size()}}};
    }
  }
  std::string text = header.dump();
  text.resize((text.size() + 63) / 64 * 64 + misalignment, ' ');
  std::ofstream file(path, std::ios::binary);
  for (int i = 0; i < 8; ++i) file.put(static_cast<char>(text.size() >> (8 * i) & 0xFF));
  file << text << bytes;
  REQUIRE(file.flush());
}

}  // namespace

TEST_CASE("host model: oneDNN gives the same logits up to rounding") {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_llama(), 1);
  for (const DataType compute_type : {DataType::kF32, DataType::kBF16}) {
    CAPTURE(name_of(compute_type));
    const auto ours = last_logits(directory.path(), {.compute_type = compute_type});
    const auto theirs = last_logits(directory.path(), {.compute_type = compute_type, .deterministic = false});
    CHECK(distance(theirs, ours) < (compute_type == DataType::kF32 ? 1e-5 : 2e-2));
  }
}

TEST_CASE("host weights: f32 copies of bf16 weights give the same bits in either arithmetic") {
  const TemporaryDirectory original;
  const TemporaryDirectory copy;
  write_random_llama(original.path(), tiny_llama(), 1);
  write_random_llama(copy.path(), tiny_llama(), 1);
  rewrite_weights(copy.path(), DataType::kF32, 0);
  for (const DataType compute_type : {DataType::kF32, DataType::kBF16}) {
    CAPTURE(name_of(compute_type));
    const HostModelSettings settings{.compute_type = compute_type};
    CHECK(last_logits(copy.path(), settings) == last_logits(original.path(), settings));
  }
}

TEST_CASE("host weights: tensors at odd addresses are read right") {
  const TemporaryDirectory original;
  const TemporaryDirectory copy;
  write_random_llama(original.path(), tiny_llama(), 1);
  for (const DataType type : {DataType::kBF16, DataType::kF32}) {
    write_random_llama(copy.path(), tiny_llama(), 1);
    rewrite_weights(copy.path(), type, 1);
    CHECK(last_logits(copy.path(), {}) ==
          last_logits(original.path(), {.compute_type = choose_compute_type({}, type)}));
  }
}

TEST_CASE("host model: settings that cannot be are refused") {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_llama(), 1);
  CHECK_THROWS_AS(plan_host_model(directory.path(), {.num_slots = 0}), std::runtime_error);
  CHECK_THROWS_AS(plan_host_model(directory.path(), {.compute_type = DataType::kF16}), std::runtime_error);
  CHECK_THROWS_WITH_AS(plan_host_model(directory.path(), {.memory_budget_bytes = 1000}),
                       doctest::Contains("does not fit"), std::runtime_error);
}

TEST_CASE("host model: a shorter context is kept, a longer one is cut") {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_llama(), 1);
  CHECK(plan_host_model(directory.path(), {.context_length = 100}).settings.context_length == 100);
  CHECK(plan_host_model(directory.path(), {.context_length = 9999}).settings.context_length == 256);
}

TEST_CASE("host model: a tensor that is missing or misshapen is named before anything is loaded") {
  const TemporaryDirectory directory;
  ModelConfig config = tiny_llama();
  write_random_llama(directory.path(), config, 1);
  const auto weights = directory.path() / "model.safetensors";
  const TemporaryDirectory other;
  config.num_layers = 3;
  write_random_llama(other.path(), config, 1);
  std::filesystem::copy_file(weights, other.path() / "model.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  CHECK_THROWS_WITH_AS(plan_host_model(other.path(), {}),
                       doctest::Contains("model.layers.2.input_layernorm.weight"), std::runtime_error);
  config = tiny_llama();
  config.vocabulary_size = 101;
  write_random_llama(other.path(), config, 1);
  std::filesystem::copy_file(weights, other.path() / "model.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  CHECK_THROWS_WITH_AS(plan_host_model(other.path(), {}), doctest::Contains("expected [101, 64]"),
                       std::runtime_error);
}

}  // namespace troupe
