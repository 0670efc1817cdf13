// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/short_convolution.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gpu/cpu/kernels/short_convolution.hpp"
#include "gpu/cuda/kernels/short_convolution.hpp"
#include "gpu/program/batch.hpp"
#include "tests/gpu/operators/backends.hpp"

using namespace troupe;

namespace {

constexpr std::size_t kTokens = 80;

// One and a half layers of pages: 2 heads of 8 have 32 channels each.
struct Shape {
  std::size_t width = 48, num_taps = 3;
};

struct Input {
  explicit Input(Shape of, DataType type = DataType::kF32)
      : shape(of),
        bcx(as_stored(type, random_values(kTokens * 3 * of.width, 5))),
        weight(random_values(of.width * of.num_taps, 6)) {}

  Shape shape;
  std::vector<float> bcx;  // as the backend's type can hold it
  std::vector<float> weight;
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

const std::vector<PageId> kPageTable = {2, 0, 3};

std::vector<SequenceSlice> slice_of(std::size_t begin, std::size_t end) {
  std::vector<SequenceSlice> slices(1);
  slices[0].num_tokens = static_cast<std::uint32_t>(end - begin);
  slices[0].context_length = static_cast<std::uint32_t>(begin);
  slices[0].num_pages = 3;
  return slices;
}

// Of tokens [begin, end), those before them being in the pages.
std::vector<float> convolve(const Input& input, Pages& pages, std::size_t begin, std::size_t end, Isa isa) {
  const std::vector<SequenceSlice> slices = slice_of(begin, end);
  std::vector<TokenPlace> places;
  place_tokens(slices, kPageTable, places);
  const auto blocks = plan_attention(slices, 4, 2);
  const auto& [width, num_taps] = input.shape;
  std::vector<float> y((end - begin) * width);
  const ShortConvolutionArguments arguments{.places = places,
                                            .blocks = blocks,
                                            .page_table = kPageTable.data(),
                                            .kv_pool = pages.pool.data(),
                                            .layout = pages.layout,
                                            .layer = 1,
                                            .num_layers = 2,
                                            .bcx = input.bcx.data() + begin * 3 * width,
                                            .bcx_stride = 3 * width,
                                            .weight = input.weight.data(),
                                            .num_taps = num_taps,
                                            .width = width,
                                            .y = y.data(),
                                            .y_stride = width,
                                            .isa = isa};
  for (std::size_t task = append_convolved_num_tasks(arguments); task-- > 0;)
    append_convolved_run_task(arguments, task);
  for (std::size_t task = short_convolution_num_tasks(arguments); task-- > 0;)
    short_convolution_run_task(arguments, task);
  return y;
}

std::vector<float> convolve_on_gpu(const Input& input, Pages& pages, std::size_t begin, std::size_t end) {
  std::vector<TokenPlace> places;
  place_tokens(slice_of(begin, end), kPageTable, places);
  std::vector<PageId> previous_pages;
  for (std::size_t position = begin; position < end; ++position)
    previous_pages.push_back(kPageTable[std::max(position / kKvPageTokens, std::size_t{1}) - 1]);
  const auto& [width, num_taps] = input.shape;
  TypedBuffer bcx(pages.layout.type, rows_of(input.bcx, 3 * width, begin, end - begin)),
      y(pages.layout.type, std::vector<float>((end - begin) * width));
  DeviceArray<float> weight(input.weight);
  DeviceArray<TokenPlace> place_memory(places);
  DeviceArray<PageId> page_memory(previous_pages);
  DeviceArray<std::byte> pool(pages.pool);
  cuda::launch_short_convolution({.bcx = bcx.data(),
                                  .bcx_stride = 3 * width,
                                  .weight = weight.data(),
                                  .num_taps = static_cast<std::uint32_t>(num_taps),
                                  .width = static_cast<std::uint32_t>(width),
                                  .places = place_memory.data(),
                                  .previous_pages = page_memory.data(),
                                  .num_tokens = static_cast<std::uint32_t>(end - begin),
                                  .pool = pool.data(),
                                  .layout = pages.layout,
                                  .layer = 1,
                                  .num_layers = 2,
                                  .y = y.data(),
                                  .y_stride = width},
                                 nullptr);
  pages.pool = pool.values();
  return y.values();
}

double expected(const Input& input, std::size_t token, std::size_t i) {
  const auto& [width, num_taps] = input.shape;
  const auto u = [&](std::size_t t) {
    const float* b = input.bcx.data() + t * 3 * input.shape.width;
    return static_cast<double>(b[i]) * b[2 * input.shape.width + i];
  };
  double sum = 0;
  for (std::size_t tap = 0; tap < num_taps; ++tap)
    if (token + tap + 1 >= num_taps) sum += input.weight[i * num_taps + tap] * u(token + tap + 1 - num_taps);
  return input.bcx[token * 3 * width + width + i] * sum;
}

// No element is off by more than the limit, all together by a tenth of it.
void check_values(const Input& input, const std::vector<float>& y, double limit) {
  const std::size_t width = input.shape.width;
  double squares = 0, reference = 0;
  for (std::size_t token = 0; token < kTokens; ++token) {
    for (std::size_t i = 0; i < width; ++i) {
      const double value = expected(input, token, i), error = y[token * width + i] - value;
      REQUIRE(std::abs(error) <= limit);
      squares += error * error;
      reference += value * value;
    }
  }
  CHECK(std::sqrt(squares / reference) < limit / 10);
}

// convolve(pages, begin, end): the same bits of all tokens at once and of parts, some of a token or two.
template <typename Convolve>
void check_parts(const std::vector<float>& whole, std::size_t width, const Pages& unwritten,
                 const Convolve& convolve_part) {
  Pages pages = unwritten;
  std::size_t begin = 0;
  for (const std::size_t end :
       {std::size_t{1}, std::size_t{2}, std::size_t{31}, std::size_t{33}, std::size_t{64}, kTokens}) {
    const auto part = convolve_part(pages, begin, end);
    REQUIRE(same_bits(part.data(), whole.data() + begin * width, part.size()));
    begin = end;
  }
}

}  // namespace

TEST_CASE("short convolution: that of f64, and the same bits however a sequence is cut") {
  struct Kind {
    DataType type;
    KvType kv_type;
    double limit;  // of what is rounded in the pages
  };
  const Input input{Shape{}};
  for (const Kind kind :
       {Kind{DataType::kF32, KvType::kComputed, 1e-5}, Kind{DataType::kBF16, KvType::kComputed, 0.2},
        Kind{DataType::kBF16, KvType::kQ8, 1.0}}) {
    for (const Isa isa : supported_isas()) {
      const Pages unwritten(kind.type, kind.kv_type);
      Pages whole_pages = unwritten;
      const auto whole = convolve(input, whole_pages, 0, kTokens, isa);
      check_values(input, whole, kind.limit);
      check_parts(whole, input.shape.width, unwritten, [&](Pages& pages, std::size_t begin, std::size_t end) {
        return convolve(input, pages, begin, end, isa);
      });
    }
  }
}

TEST_CASE(
    "short convolution: on a GPU that of f64, the same bits however a sequence is cut, zeros behind u") {
  in_several_orders([] {
    // Whole eights of channels and such that are cut short; taps in one go, and those of two.
    for (const Shape shape : {Shape{48, 3}, Shape{44, 6}, Shape{64, 1}}) {
      for (const DataType type : kElementTypes) {
        CAPTURE(shape.width);
        CAPTURE(type);
        const Input input(shape, type);
        const Pages unwritten(type, KvType::kComputed);
        Pages pages = unwritten;
        const auto whole = convolve_on_gpu(input, pages, 0, kTokens);
        check_values(input, whole, type == DataType::kF32 ? 1e-5 : type == DataType::kF16 ? 0.04 : 0.2);
        check_parts(whole, shape.width, unwritten, [&](Pages& parts, std::size_t begin, std::size_t end) {
          return convolve_on_gpu(input, parts, begin, end);
        });
        const auto second_layer = kv_block_offset(pages.layout, 2, kPageTable[1], 1);
        if (shape.width > 48) continue;
        const std::size_t last_value = kv_value_element(pages.layout, 5, 7) * size_of(type);
        for (std::size_t byte = 0; byte < size_of(type); ++byte)
          CHECK(pages.pool[second_layer + last_value + byte] == std::byte{0});
      }
    }
  });
}
