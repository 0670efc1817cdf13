// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/cuda_device.hpp"

#include <cmath>
#include <random>

#include <doctest/doctest.h>

#include "cuda_model.hpp"
#include "generation.hpp"

namespace troupe {
namespace {

std::vector<GenerationRequest> requests_of_many_lengths(std::uint32_t vocabulary) {
  std::mt19937 random(7);
  std::vector<GenerationRequest> requests;
  for (const std::uint32_t length : {1U, 5U, 31U, 32U, 33U, 70U}) {
    GenerationRequest request;
    request.num_new = 4;
    for (std::uint32_t i = 0; i < length; ++i)
      request.prompt.push_back(static_cast<std::int32_t>(random() % vocabulary));
    requests.push_back(std::move(request));
  }
  return requests;
}

// Root of the mean square.
double difference(const CapturedLogits& left, const CapturedLogits& right) {
  double sum = 0;
  std::size_t count = 0;
  REQUIRE(left.size() == right.size());
  for (const auto& [request, steps] : left) {
    // From the first step on which two tokens differ, nothing can be compared.
    const auto& others = right.at(request);
    for (std::size_t j = 0; j < steps.at(0).size(); ++j, ++count)
      sum += std::pow(double{steps[0][j]} - double{others.at(0).at(j)}, 2);
  }
  return std::sqrt(sum / static_cast<double>(count));
}

struct Answers {
  std::vector<std::vector<std::int32_t>> tokens;
  CapturedLogits logits;
};

Answers on_gpu(const SmallModel& model) {
  Answers answers;
  cuda::CudaDevice device(model.get(), {.on_logits = capture_logits(answers.logits)});
  ProgramCache programs = model.programs();
  answers.tokens = generate(device, programs, requests_of_many_lengths(100));
  return answers;
}

Answers on_host(const SmallModel& model, DataType type) {
  Answers answers;
  const auto host_model = model.on_host(type);
  HostDevice device(host_model, {.on_logits = capture_logits(answers.logits)});
  ProgramCache programs(host_model->network, host_model->compute_type, host_model->largest);
  answers.tokens = generate(device, programs, requests_of_many_lengths(100));
  return answers;
}

}  // namespace

TEST_CASE("cuda device: in f32 logits and tokens are the host's") {
  const SmallModel model(small_settings(DataType::kF32));
  const Answers gpu = on_gpu(model);
  const Answers host = on_host(model, DataType::kF32);
  CHECK(gpu.tokens == host.tokens);
  CHECK(difference(gpu.logits, host.logits) < 5e-3);  // tf32 has 11 bits
}

// The host's arithmetic is one way of rounding, the GPU's another.
TEST_CASE("cuda device: in 16 bits logits are as near to those of f32 as the host's are") {
  const SmallModel bf16(small_settings(DataType::kBF16));
  const Answers exact = on_host(bf16, DataType::kF32);
  const double of_host = difference(on_host(bf16, DataType::kBF16).logits, exact.logits);
  CHECK(difference(on_gpu(bf16).logits, exact.logits) < 1.5 * of_host);
}

TEST_CASE("cuda device: in f16 logits are nearer to those of f32 than in bf16") {
  Answers exact;
  double of_bf16 = 0;
  {
    const SmallModel bf16(small_settings(DataType::kBF16));
    exact = on_host(bf16, DataType::kF32);
    of_bf16 = difference(on_gpu(bf16).logits, exact.logits);
  }
  const SmallModel f16(small_settings(DataType::kF16));
  CHECK(difference(on_gpu(f16).logits, exact.logits) < of_bf16);
}

TEST_CASE("cuda device: graphs and batches in flight change no token") {
  const SmallModel model(small_settings(DataType::kBF16));
  const auto requests = requests_of_many_lengths(100);
  std::vector<std::vector<std::int32_t>> plain;
  {
    CapturedLogits unused;
    cuda::CudaDevice device(model.get(), {.on_logits = capture_logits(unused)});  // no graphs
    ProgramCache programs = model.programs();
    plain = generate(device, programs, requests);
  }
  for (const std::uint32_t seed : {0U, 1U, 2U}) {
    set_stream_order(seed);
    cuda::CudaDevice device(model.get());
    ProgramCache programs = model.programs();
    CHECK(generate(device, programs, requests, {.in_flight = 1 + seed}) == plain);
    CHECK(device.num_graphs() > 0);
  }
  set_stream_order(0);
}

}  // namespace troupe
