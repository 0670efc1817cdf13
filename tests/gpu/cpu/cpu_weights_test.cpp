// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/cpu_weights.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "gpu/model/model_config.hpp"

namespace troupe {
namespace {

const std::string kFamilies = TROUPE_SOURCE_DIR "/tests/fixtures/families/";

}  // namespace

TEST_CASE("cpu weights: matrices that are opened a panel at a time have the bits of those opened whole") {
  ThreadPool threads({.num_threads = 2});
  for (const char* family : {"llama_fp8", "llama_gptq_act_order", "llama_awq", "gpt2", "gpt_oss", "phi3"}) {
    const WeightStore store(kFamilies + family);
    const auto network = make_network(load_model_config(kFamilies + family));
    for (const auto quantization : {Quantization::kNone, Quantization::kQ8}) {
      CAPTURE(family);
      CAPTURE(name_of(quantization));
      const CpuWeightSettings settings{.compute_type = DataType::kBF16, .quantization = quantization};
      const CpuWeights whole(store, *network, settings, threads);
      const CpuWeights sliced(store, *network, settings, threads, {.elements_at_once = 1});
      CHECK(std::ranges::equal(whole.segments(), sliced.segments(), [](const auto& one, const auto& other) {
        return std::ranges::equal(one, other);
      }));
    }
  }
}

TEST_CASE("cpu weights: every weight that is packed is told of") {
  ThreadPool threads({.num_threads = 2});
  for (const char* family : {"gpt2", "gpt_oss", "phi3", "gemma3"}) {
    CAPTURE(family);
    const WeightStore store(kFamilies + family);
    const auto network = make_network(load_model_config(kFamilies + family));
    std::uint64_t num_told = 0;
    const CpuWeights weights(store, *network, {.quantization = Quantization::kQ8}, threads,
                             {.report = [&](std::uint64_t num_elements) { num_told += num_elements; }});
    CHECK(num_told > 0);
    CHECK(num_told == num_weight_elements(*network));
  }
}

}  // namespace troupe
