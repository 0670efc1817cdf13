// SPDX-License-Identifier: Apache-2.0
// Small encoders of every family with what transformers computes with them, from
// tests/fixtures/encoders.json (scripts/encoders/make_reference_values.py). Their weights
// are made of the tensors' names, here as there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace troupe::test {

struct EncoderResult {
  std::vector<std::int32_t> tokens;
  std::uint32_t second_text = 0;
  std::vector<double> vector;
};

struct EncoderFixture {
  nlohmann::json config;   // of config.json
  std::string pooling;     // of modules.json; empty: there is none
  nlohmann::json tensors;  // names and shapes
  std::vector<EncoderResult> results;

  std::string architecture() const { return config.at("architectures").at(0).get<std::string>(); }
  // config.json, model.safetensors and perhaps modules.json, into a directory that is there.
  void write(const std::filesystem::path& model_dir) const;
};

std::vector<EncoderFixture> read_encoder_fixtures();

}  // namespace troupe::test
