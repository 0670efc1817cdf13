// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/short_convolution.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gpu/cpu/kernels/short_convolution.hpp"
#include "gpu/program/batch.hpp"
#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

namespace {

// One and a half layers of pages: 2 heads of 8 have 32 channels each.
constexpr std::size_t kWidth = 48, kTaps = 3, kTokens = 80;

struct Input {
  std::vector<float> bcx = random_values(kTokens * 3 * kWidth, 5);
  std::vector<float> weight = random_values(kWidth * kTaps, 6);
};

struct Pages {
  KvLayout layout{.num_layers = 4, .num_pages = 4, .num_kv_heads = 2, .head_dim = 8};
  std::vector<std::byte> pool;

  Pages(DataType type, KvType kv_type) {
    layout.type = type;
    layout.kv_type = kv_type;
    pool.assign(kv_pool_bytes(layout), std::byte{0xFF});
  }
};

// Of tokens [begin, end), those before them being in the pages.
std::vector<float> convolve(const Input& input, Pages& pages, std::size_t begin, std::size_t end, Isa isa) {
  std::vector<SequenceSlice> slices(1);
  slices[0].num_tokens = static_cast<std::uint32_t>(end - begin);
  slices[0].context_length = static_cast<std::uint32_t>(begin);
  slices[0].num_pages = 3;
  const std::vector<PageId> page_table = {2, 0, 3};
  std::vector<TokenPlace> places;
  place_tokens(slices, page_table, places);
  const auto blocks = plan_attention(slices, 4, 2);
  std::vector<float> y((end - begin) * kWidth);
  const ShortConvolutionArguments arguments{.places = places,
                                            .blocks = blocks,
                                            .page_table = page_table.data(),
                                            .kv_pool = pages.pool.data(),
                                            .layout = pages.layout,
                                            .layer = 1,
                                            .num_layers = 2,
                                            .bcx = input.bcx.data() + begin * 3 * kWidth,
                                            .bcx_stride = 3 * kWidth,
                                            .weight = input.weight.data(),
                                            .num_taps = kTaps,
                                            .width = kWidth,
                                            .y = y.data(),
                                            .y_stride = kWidth,
                                            .isa = isa};
  for (std::size_t task = append_convolved_num_tasks(arguments); task-- > 0;)
    append_convolved_run_task(arguments, task);
  for (std::size_t task = short_convolution_num_tasks(arguments); task-- > 0;)
    short_convolution_run_task(arguments, task);
  return y;
}

double expected(const Input& input, std::size_t token, std::size_t i) {
  const auto u = [&](std::size_t t) {
    const float* b = input.bcx.data() + t * 3 * kWidth;
    return static_cast<double>(b[i]) * b[2 * kWidth + i];
  };
  double sum = 0;
  for (std::size_t tap = 0; tap < kTaps; ++tap)
    if (token + tap + 1 >= kTaps) sum += input.weight[i * kTaps + tap] * u(token + tap + 1 - kTaps);
  return input.bcx[token * 3 * kWidth + kWidth + i] * sum;
}

}  // namespace

TEST_CASE("short convolution: that of f64, and the same bits however a sequence is cut") {
  struct Kind {
    DataType type;
    KvType kv_type;
    double limit;  // of what is rounded in the pages
  };
  const Input input;
  for (const Kind kind :
       {Kind{DataType::kF32, KvType::kComputed, 1e-5}, Kind{DataType::kBF16, KvType::kComputed, 0.2},
        Kind{DataType::kBF16, KvType::kQ8, 1.0}}) {
    for (const Isa isa : supported_isas()) {
      Pages whole_pages(kind.type, kind.kv_type);
      const auto whole = convolve(input, whole_pages, 0, kTokens, isa);
      double squares = 0, reference = 0;
      for (std::size_t token = 0; token < kTokens; ++token) {
        for (std::size_t i = 0; i < kWidth; ++i) {
          const double value = expected(input, token, i), error = whole[token * kWidth + i] - value;
          REQUIRE(std::abs(error) <= kind.limit);
          squares += error * error;
          reference += value * value;
        }
      }
      CHECK(std::sqrt(squares / reference) < kind.limit / 10);
      Pages pages(kind.type, kind.kv_type);
      std::size_t begin = 0;
      for (const std::size_t end :
           {std::size_t{1}, std::size_t{2}, std::size_t{31}, std::size_t{33}, std::size_t{64}, kTokens}) {
        const auto part = convolve(input, pages, begin, end, isa);
        REQUIRE(same_bits(part.data(), whole.data() + begin * kWidth, part.size()));
        begin = end;
      }
    }
  }
}
