// SPDX-License-Identifier: Apache-2.0
// The demo model's logits against those of PyTorch, written once by
// scripts/demo_model/make_reference_logits.py.
#include "gpu/cpu/cpu_device.hpp"

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "gpu/cpu/cpu_model.hpp"
#include "gpu/model/safetensors.hpp"
#include "tests/gpu/generation.hpp"
#include "tests/support/gpu/safetensors_values.hpp"

namespace troupe {
namespace {

using test::values_of;

const std::filesystem::path kSource = TROUPE_SOURCE_DIR;

// The model's logits behind each of the positions: the prompt is cut there.
std::vector<float> logits_at(CpuDevice& device, ProgramCache& programs, CapturedLogits& captured,
                             const std::vector<std::int32_t>& prompt,
                             const std::vector<std::int32_t>& positions) {
  captured.clear();
  std::uint32_t done = 0;
  Ticket ticket = device.completed();
  for (const std::int32_t position : positions) {
    auto batch = std::make_shared<Batch>();
    const auto end = static_cast<std::uint32_t>(position) + 1;
    batch->slices.push_back({.num_tokens = end - done,
                             .context_length = done,
                             .num_pages = 8,
                             .sample = true,
                             .sampling = {.temperature = 0.0F},
                             .suppressed = {}});
    batch->token_ids.assign(prompt.begin() + done, prompt.begin() + end);
    batch->page_table = {7, 3, 5, 1, 0, 2, 4, 6};
    done = end;
    device.submit(programs.find(batch->cell, batch->num_tokens(), 1), batch);
    REQUIRE(wait_for(device, ++ticket).error.empty());
  }
  std::vector<float> logits;
  for (const auto& row : captured[0]) logits.insert(logits.end(), row.begin(), row.end());
  return logits;
}

struct Difference {
  double relative = 0;  // of all values together, to their own size: |a - b| / |b|
  double largest = 0;   // of a single value, to the largest one
};

Difference difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double squares = 0;
  double reference_squares = 0;
  double worst = 0;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double distance = std::abs(double{a[i]} - double{b[i]});
    squares += distance * distance;
    reference_squares += double{b[i]} * double{b[i]};
    worst = std::max(worst, distance);
    largest = std::max(largest, std::abs(double{b[i]}));
  }
  return {std::sqrt(squares / reference_squares), worst / largest};
}

Difference worst_difference(DataType compute_type, const std::string& precision,
                            Quantization quantization = Quantization::kNone) {
  const SafetensorsFile fixture(kSource / "tests/fixtures/demo_logits.safetensors");
  CapturedLogits captured;
  const auto model = load_cpu_model(plan_cpu_model(kSource / "models/demo", {.compute_type = compute_type,
                                                                             .quantization = quantization,
                                                                             .num_threads = 2,
                                                                             .num_slots = 1,
                                                                             .max_pages = 64}));
  CpuDevice device(model, {.on_logits = capture_logits(captured), .poison_memory = true});
  ProgramCache programs(model->network, model->compute_type, model->largest);
  Difference worst;
  for (int i = 0; fixture.find("prompt_" + std::to_string(i) + ".tokens") != nullptr; ++i) {
    const std::string name = "prompt_" + std::to_string(i) + ".";
    const auto found =
        difference(logits_at(device, programs, captured, values_of<std::int32_t>(fixture, name + "tokens"),
                             values_of<std::int32_t>(fixture, name + "positions")),
                   values_of<float>(fixture, name + precision));
    worst.relative = std::max(worst.relative, found.relative);
    worst.largest = std::max(worst.largest, found.largest);
  }
  MESSAGE(precision << ", weights in " << name_of(quantization) << ": relative difference " << worst.relative
                    << ", of one value " << worst.largest);
  return worst;
}

}  // namespace

TEST_CASE("demo model: fp32 logits are the reference's within 1e-4") {
  const auto found = worst_difference(DataType::kF32, "float32");
  CHECK(found.relative < 1e-4);
  CHECK(found.largest < 1e-4);
}

TEST_CASE("demo model: bf16 logits are the reference's within 2e-2") {
  CHECK(worst_difference(DataType::kBF16, "bfloat16").relative < 2e-2);
}

TEST_CASE("demo model: bf16 logits are those of fp32 within 2e-2") {
  CHECK(worst_difference(DataType::kBF16, "float32").relative < 2e-2);
}

TEST_CASE("demo model: logits of weights in 8 bits are those of fp32 within 2e-2, of 4 bits within 0.25") {
  CHECK(worst_difference(DataType::kF32, "float32", Quantization::kQ8).relative < 2e-2);
  CHECK(worst_difference(DataType::kF32, "float32", Quantization::kQ4).relative < 0.25);
}

TEST_CASE("demo model: the greedy continuation is the reference's") {
  const SafetensorsFile fixture(kSource / "tests/fixtures/demo_logits.safetensors");
  const auto model = load_cpu_model(
      plan_cpu_model(kSource / "models/demo", {.compute_type = DataType::kF32, .num_threads = 2}));
  CpuDevice device(model);
  ProgramCache programs(model->network, model->compute_type, model->largest);
  std::vector<DirectRequest> requests;
  std::vector<std::vector<std::int32_t>> expected;
  for (int i = 0; fixture.find("prompt_" + std::to_string(i) + ".tokens") != nullptr; ++i) {
    const std::string name = "prompt_" + std::to_string(i) + ".";
    expected.push_back(values_of<std::int32_t>(fixture, name + "greedy"));
    requests.push_back({.prompt = values_of<std::int32_t>(fixture, name + "tokens"),
                        .num_new = static_cast<std::uint32_t>(expected.back().size())});
  }
  const auto tokens = generate(device, programs, requests, {.shuffle = true, .in_flight = 2});
  CHECK(tokens == expected);
}

}  // namespace troupe
