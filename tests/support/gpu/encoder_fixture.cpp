// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gpu/encoder_fixture.hpp"

#include <fstream>
#include <stdexcept>

#include "tests/support/file_text.hpp"
#include "tests/support/source_file.hpp"

namespace troupe::test {
namespace {

using nlohmann::json;

std::vector<float> weights_of(const std::string& name, const json& shape) {
  std::uint64_t seed = 0xCBF29CE484222325ULL;
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  std::uint64_t size = 1;
  for (const auto& dimension : shape) size *= dimension.get<std::uint64_t>();
  const bool is_vector = shape.size() == 1;
  const float middle = is_vector && !name.ends_with("bias") ? 1.0F : 0.0F;
  const float scale = is_vector ? 0.125F : name.find("embeddings.") != std::string::npos ? 0.5F : 0.25F;
  std::vector<float> values;
  for (std::uint64_t i = 1; i <= size; ++i) {
    std::uint64_t z = seed + i * 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    z ^= z >> 31;
    const auto uniform = static_cast<float>(static_cast<double>(z >> 40) / 8388608.0 - 1.0);
    values.push_back(middle + scale * uniform);
  }
  return values;
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  if (!file.flush()) throw std::runtime_error(path.string() + " can't be written");
}

std::string safetensors_of(const json& tensors) {
  json header = json::object();
  std::string bytes;
  for (const auto& [name, shape] : tensors.items()) {
    const std::vector<float> values = weights_of(name, shape);
    const std::size_t begin = bytes.size();
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, bytes.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 63) / 64 * 64, ' ');
  const std::uint64_t size = text.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + text + bytes;
}

}  // namespace

void EncoderFixture::write(const std::filesystem::path& model_dir) const {
  write_file(model_dir / "config.json", config.dump());
  write_file(model_dir / "model.safetensors", safetensors_of(tensors));
  if (pooling.empty()) return;
  write_file(model_dir / "modules.json",
             json{{{"path", ""}, {"type", "sentence_transformers.models.Transformer"}},
                  {{"path", "1_Pooling"}, {"type", "sentence_transformers.models.Pooling"}}}
                 .dump());
  std::filesystem::create_directories(model_dir / "1_Pooling");
  write_file(model_dir / "1_Pooling" / "config.json", json{{"pooling_mode", pooling}}.dump());
}

std::vector<EncoderFixture> read_encoder_fixtures() {
  const auto path = source_file("tests/fixtures/encoders.json");
  std::vector<EncoderFixture> fixtures;
  for (const json& entry : json::parse(file_text(path))) {
    EncoderFixture fixture{
        .config = entry.at("config"),
        .pooling = entry.at("pooling").is_null() ? "" : entry.at("pooling").get<std::string>(),
        .tensors = entry.at("tensors"),
        .results = {}};
    for (const json& result : entry.at("results"))
      fixture.results.push_back({.tokens = result.at("tokens").get<std::vector<std::int32_t>>(),
                                 .second_text = result.at("second").get<std::uint32_t>(),
                                 .vector = result.at("vector").get<std::vector<double>>()});
    fixtures.push_back(std::move(fixture));
  }
  return fixtures;
}

}  // namespace troupe::test
