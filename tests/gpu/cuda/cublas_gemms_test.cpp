// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/gemm/cublas_gemms.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/gpu/cuda/kernels/typed_buffer.hpp"

using namespace troupe;
using namespace troupe::cuda;

namespace cublas_gemms_test {
namespace {

constexpr std::size_t kWorkspaceBytes = 1 << 20;

// Device memory at a multiple of 256 bytes.
class Workspace {
 public:
  explicit Workspace(std::size_t size_bytes) : memory_(std::vector<char>(size_bytes + 256)) {}
  void* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    return memory_.data() + (256 - address % 256);
  }

 private:
  DeviceArray<char> memory_;
};

struct Fixture {
  Workspace workspace{kWorkspaceBytes};
  CublasGemms gemms{workspace.data(), kWorkspaceBytes};
};

// The matrices of one product; c has values before.
class Matrices {
 public:
  explicit Matrices(const GemmShape& shape)
      : shape_(shape),
        a_(as_stored(shape.type, random_values(shape.num_tokens * shape.depth, 1))),
        weight_(as_stored(shape.type, random_values(shape.num_outputs * shape.depth, 2))),
        bias_(as_stored(shape.c_type, random_values(shape.num_outputs, 3))),
        old_c_(as_stored(shape.c_type, random_values(shape.num_tokens * shape.num_outputs, 4))),
        device_a_(shape.type, a_),
        device_weight_(shape.type, weight_),
        device_bias_(shape.c_type, bias_),
        device_c_(shape.c_type, old_c_) {}

  GemmPointers pointers() {
    return {.a = device_a_.data(),
            .weight = device_weight_.data(),
            .bias = shape_.has_bias ? device_bias_.data() : nullptr,
            .c = device_c_.data()};
  }
  std::vector<float> c() const { return device_c_.values(); }

  // The largest error over what rounding allows: of the factors to tf32, of sums in
  // f32, and of the result.
  double worst_error() const {
    const auto computed = c();
    double worst = 0.0;
    for (std::size_t i = 0; i < computed.size(); ++i) {
      double allowed = 0.0;
      const double expected = expected_at(i / shape_.num_outputs, i % shape_.num_outputs, allowed);
      worst = std::max(worst, std::abs(computed[i] - expected) / allowed);
    }
    return worst;
  }

 private:
  double expected_at(std::size_t token, std::size_t output, double& allowed) const {
    double sum = 0.0, magnitude = 1.0;
    for (std::size_t k = 0; k < shape_.depth; ++k) {
      const double product = double{a_[token * shape_.depth + k]} * weight_[output * shape_.depth + k];
      sum += product;
      magnitude += std::abs(product);
    }
    if (shape_.has_bias) sum += bias_[output];
    if (shape_.adds) sum += old_c_[token * shape_.num_outputs + output];
    allowed = magnitude * (shape_.type == DataType::kF32 && !shape_.is_exact ? 0x1p-9 : 0x1p-20);
    if (shape_.activation == GemmActivation::kGelu) {
      sum *= 0.5 * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (sum + 0.044715 * sum * sum * sum)));
    }
    allowed += rounding_of(shape_.c_type) * std::abs(sum);
    return sum;
  }

  GemmShape shape_;
  std::vector<float> a_, weight_, bias_, old_c_;
  TypedBuffer device_a_, device_weight_, device_bias_, device_c_;
};

std::vector<GemmShape> all_kinds(std::uint32_t tokens, std::uint32_t outputs, std::uint32_t depth) {
  struct Types {
    DataType type, c_type;
    bool is_exact = false;
  };
  std::vector<GemmShape> shapes;
  for (const auto& [type, c_type, is_exact] : {Types{DataType::kBF16, DataType::kBF16},
                                               {DataType::kBF16, DataType::kF32},
                                               {DataType::kF16, DataType::kF16},
                                               {DataType::kF16, DataType::kF32},
                                               {DataType::kF32, DataType::kF32},
                                               {DataType::kF32, DataType::kF32, true}}) {
    GemmShape shape{tokens, outputs, depth, type, c_type};
    shape.is_exact = is_exact;
    for (const bool has_bias : {false, true}) {
      shape.has_bias = has_bias;
      shapes.push_back(shape);
      shapes.push_back(shape);
      shapes.back().adds = true;
      shapes.push_back(shape);
      shapes.back().activation = GemmActivation::kGelu;
    }
  }
  return shapes;
}

}  // namespace

TEST_CASE("cuda products: equal f64 in all types, with bias, activation and addition") {
  struct Size {
    std::uint32_t tokens, outputs, depth;
  };
  for (const auto& [tokens, outputs, depth] :
       {Size{1, 1, 8}, {1, 16, 1096}, {3, 17, 40}, {7, 33, 5}, {16, 64, 264}, {33, 8, 1}}) {
    for (const GemmShape& shape : all_kinds(tokens, outputs, depth)) {
      CAPTURE(to_string(shape));
      Fixture fixture;
      Matrices matrices(shape);
      fixture.gemms.run(shape, matrices.pointers(), nullptr);
      CHECK(matrices.worst_error() < 1.0);
    }
  }
}

TEST_CASE("cuda products: every candidate computes the same product, and a chosen one is used") {
  for (const GemmShape& shape : all_kinds(8, 24, 200)) {
    CAPTURE(to_string(shape));
    Fixture fixture;
    const auto candidates = fixture.gemms.candidates(shape, 8);
    CHECK_FALSE(candidates.empty());
    for (const GemmChoice& candidate : candidates) {
      CHECK(candidate.kernel == GemmKernel::kCublasLt);
      CHECK(candidate.workspace_bytes <= kWorkspaceBytes);
      CHECK(candidate.microseconds == 0.0);
      Matrices measured(shape), chosen(shape);
      fixture.gemms.run_with(candidate, shape, measured.pointers(), nullptr);
      CHECK(measured.worst_error() < 1.0);
      CHECK(fixture.gemms.use(shape, candidate));
      fixture.gemms.run(shape, chosen.pointers(), nullptr);
      CHECK(chosen.c() == measured.c());
    }
  }
}

TEST_CASE("cuda products: the heuristics name no more than was asked for") {
  Fixture fixture;
  const GemmShape shape{8, 24, 200};
  CHECK(fixture.gemms.candidates(shape, 1).size() == 1);
  CHECK(fixture.gemms.candidates(shape, 0).empty());
  CHECK(fixture.gemms.candidates({.num_tokens = 8, .depth = 8}, 1).empty());
}

TEST_CASE("cuda products: a choice for a bin serves all of its token counts") {
  Fixture fixture;
  const GemmShape largest{24, 40, 64};
  for (const GemmChoice& candidate : fixture.gemms.candidates(largest, 8)) {
    CHECK(fixture.gemms.use(largest, candidate));
    for (const std::uint32_t tokens : {17, 20, 23, 24}) {
      const GemmShape shape{tokens, 40, 64};
      for (int i = 0; i < 2; ++i) {
        Matrices matrices(shape);
        fixture.gemms.run(shape, matrices.pointers(), nullptr);
        CHECK(matrices.worst_error() < 1.0);
      }
    }
  }
}

TEST_CASE("cuda products: without a workspace there is a way too") {
  CublasGemms gemms(nullptr, 0);
  const GemmShape shape{5, 24, 200};
  Matrices matrices(shape);
  gemms.run(shape, matrices.pointers(), nullptr);
  CHECK(matrices.worst_error() < 1.0);
  for (const auto& candidate : gemms.candidates(shape, 8)) {
    CHECK(candidate.workspace_bytes == 0);
  }
}

TEST_CASE("cuda products: a choice that is none of this library's is not used") {
  Fixture fixture;
  const GemmShape shape{8, 24, 200};
  const GemmChoice good = fixture.gemms.candidates(shape, 1).front();
  GemmChoice damaged = good, greedy = good, own = good;
  damaged.algorithm.fill(0x5555555555555555);
  greedy.workspace_bytes = kWorkspaceBytes + 1;
  own.kernel = GemmKernel::kFewTokens;
  CHECK_FALSE(fixture.gemms.use(shape, damaged));
  CHECK_FALSE(fixture.gemms.use(shape, greedy));
  CHECK_FALSE(fixture.gemms.use(shape, own));
  CHECK(fixture.gemms.use(shape, good));
  Matrices matrices(shape);
  CHECK_THROWS_AS(fixture.gemms.run_with(own, shape, matrices.pointers(), nullptr), std::invalid_argument);
}

TEST_CASE("cuda products: no tokens or no outputs are no work") {
  Fixture fixture;
  fixture.gemms.run({.num_tokens = 0, .num_outputs = 8, .depth = 8}, {}, nullptr);
  fixture.gemms.run({.num_tokens = 8, .num_outputs = 0, .depth = 8}, {}, nullptr);
}

TEST_CASE("cuda products: what does not fit is refused in words") {
  Fixture fixture;
  const auto run = [&](const GemmShape& shape, const GemmPointers& pointers) {
    fixture.gemms.run(shape, pointers, nullptr);
  };
  Matrices matrices({8, 8, 8});
  auto pointers = matrices.pointers();
  pointers.weight = static_cast<const char*>(pointers.weight) + 2;
  CHECK_THROWS_WITH_AS(run({8, 8, 8}, pointers),
                       "a product of 8 x 8 x 8 bf16 wants all its matrices at multiples of 16 "
                       "bytes",
                       std::invalid_argument);
  CHECK_THROWS_AS(run({.num_tokens = 8, .num_outputs = 8, .depth = 8, .has_bias = true}, matrices.pointers()),
                  std::invalid_argument);
  CHECK_THROWS_WITH_AS(run({8, 8, 0}, matrices.pointers()),
                       "a product of 8 x 8 x 0 bf16: there is nothing to add up", std::invalid_argument);
  CHECK_THROWS_WITH_AS(run({8, 8, 8, DataType::kF32, DataType::kBF16}, matrices.pointers()),
                       "a product of 8 x 8 x 8 f32 -> bf16: what is computed is of the type of "
                       "the factors or f32",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(run({8, 8, 8, DataType::kI32, DataType::kI32}, matrices.pointers()),
                       "products are of f32, f16 or bf16, not of i32", std::invalid_argument);
  CHECK_THROWS_AS(
      run({.num_tokens = 8, .num_outputs = 8, .depth = 8, .adds = true, .activation = GemmActivation::kGelu},
          matrices.pointers()),
      std::invalid_argument);
  Workspace workspace(256);
  CHECK_THROWS_AS(CublasGemms(static_cast<char*>(workspace.data()) + 16, 64), std::invalid_argument);
}

}  // namespace cublas_gemms_test
