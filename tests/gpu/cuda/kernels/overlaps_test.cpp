// SPDX-License-Identifier: Apache-2.0
// Kernels behind one another, as they are not in every network: each waits for the one before it (the
// interpreter throws if a thread does not) and lets the next one start. In the interpreter only.
#include <doctest/doctest.h>

#include "gpu/cuda/kernels/cells/gather_state.hpp"
#include "gpu/cuda/kernels/cells/keep_state.hpp"
#include "gpu/cuda/kernels/cells/recurrent_cell.hpp"
#include "gpu/cuda/kernels/cells/state_attention.hpp"
#include "gpu/cuda/kernels/embed.hpp"
#include "gpu/cuda/kernels/embed_positions.hpp"
#include "gpu/cuda/kernels/gemm/few_token_gemm.hpp"
#include "gpu/cuda/kernels/rows/activate.hpp"
#include "gpu/cuda/kernels/rows/gated_activation.hpp"
#include "gpu/cuda/kernels/rows/gather_rows.hpp"
#include "gpu/cuda/kernels/rows/layer_norm.hpp"
#include "gpu/cuda/kernels/rows/rms_norm.hpp"
#include "gpu/cuda/kernels/short_convolution.hpp"
#include "tests/gpu/cuda/kernels/few_token_operands.hpp"
#include "tests/gpu/operators/state_pool.hpp"
#include "tests/simt/runtime/runtime.hpp"

using namespace troupe;

namespace {

constexpr std::uint32_t kWidth = 16;

// How many of two launches behind a first one began while the one before them ran.
template <class Launch>
std::uint64_t num_overlaps(const Launch& launch) {
  launch();
  const std::uint64_t before = simt::kernels_overlapped();
  launch();
  launch();
  return simt::kernels_overlapped() - before;
}

}  // namespace

TEST_CASE("cuda overlaps: kernels that gather and keep state wait, and let the next one start") {
  StatePool pool(kWidth);
  DeviceArray<float> x(random_values(kNodes * kWidth, 1));
  pool.on_gpu([&](const cuda::StateRows& state) {
    CHECK(num_overlaps([&] {
            cuda::launch_gather_state(
                {.state = state, .width = kWidth, .gathered = x.data(), .overlaps_previous = true}, nullptr);
          }) == 2);
    CHECK(num_overlaps([&] {
            cuda::launch_keep_state(
                {.state = state, .x = x.data(), .width = kWidth, .overlaps_previous = true}, nullptr);
          }) == 2);
  });
}

TEST_CASE("cuda overlaps: a recurrent cell waits, and lets the next kernel start") {
  StatePool pool(kWidth);
  DeviceArray<float> input_gates(random_values(kNodes * 4 * kWidth, 1)),
      state_gates(random_values(kNodes * 5 * kWidth, 2)), h(std::vector<float>(kNodes * kWidth));
  pool.on_gpu([&](const cuda::StateRows& state) {
    for (const auto cell :
         {cuda::RecurrentCell::kLstm, cuda::RecurrentCell::kGru, cuda::RecurrentCell::kTreeLeaf,
          cuda::RecurrentCell::kTreeBinary, cuda::RecurrentCell::kTreeChildSum})
      CHECK(num_overlaps([&] {
              cuda::launch_recurrent_cell({.cell = cell,
                                           .state = state,
                                           .c_offset = kWidth,
                                           .forget_offset = 2 * kWidth,
                                           .input_gates = input_gates.data(),
                                           .state_gates = state_gates.data(),
                                           .h = h.data(),
                                           .width = kWidth,
                                           .overlaps_previous = true},
                                          nullptr);
            }) == 2);
  });
}

TEST_CASE("cuda overlaps: attention to states waits, and lets the next kernel start") {
  StatePool pool(kWidth);
  DeviceArray<float> query(random_values(kNodes * kWidth, 1)), beside(random_values(kNodes * kWidth, 2)),
      weight(random_values(kWidth, 3)), both(std::vector<float>(kNodes * 2 * kWidth));
  pool.on_gpu([&](const cuda::StateRows& state) {
    for (const bool is_additive : {false, true})
      CHECK(num_overlaps([&] {
              cuda::launch_state_attention({.state = state,
                                            .value_offset = kWidth,
                                            .query = query.data(),
                                            .score_weight = is_additive ? weight.data() : nullptr,
                                            .beside = beside.data(),
                                            .beside_width = kWidth,
                                            .both = both.data(),
                                            .width = kWidth,
                                            .overlaps_previous = true},
                                           nullptr);
            }) == 2);
  });
}

TEST_CASE("cuda overlaps: kernels of rows wait, and let the next one start") {
  constexpr std::uint32_t kRows = 3;
  DeviceArray<float> x(random_values(2 * kRows * kWidth, 1)), weight(random_values(kWidth, 2)),
      y(std::vector<float>(kRows * kWidth));
  DeviceArray<std::uint32_t> rows(std::vector<std::uint32_t>{2, 0, 1});
  const auto norm = [&] {
    cuda::launch_rms_norm({.x = x.data(),
                           .x_stride = kWidth,
                           .weight = weight.data(),
                           .normed = y.data(),
                           .normed_stride = kWidth,
                           .num_rows = kRows,
                           .width = kWidth,
                           .overlaps_previous = true},
                          nullptr);
  };
  CHECK(num_overlaps(norm) == 2);
  CHECK(num_overlaps([&] {
          cuda::launch_gather_rows({.x = x.data(),
                                    .x_stride = kWidth,
                                    .rows = rows.data(),
                                    .gathered = y.data(),
                                    .gathered_stride = kWidth,
                                    .num_rows = kRows,
                                    .width = kWidth,
                                    .overlaps_previous = true},
                                   nullptr);
        }) == 2);
  CHECK(num_overlaps([&] {
          cuda::launch_gated_activation({.gate_up = x.data(),
                                         .gate_up_stride = 2 * kWidth,
                                         .h = y.data(),
                                         .h_stride = kWidth,
                                         .num_rows = kRows,
                                         .width = kWidth,
                                         .overlaps_previous = true},
                                        nullptr);
        }) == 2);
  CHECK(num_overlaps([&] {
          cuda::launch_layer_norm({.x = x.data(),
                                   .weight = weight.data(),
                                   .bias = weight.data(),
                                   .normed = y.data(),
                                   .num_rows = kRows,
                                   .width = kWidth,
                                   .overlaps_previous = true},
                                  nullptr);
        }) == 2);
  CHECK(num_overlaps([&] {
          cuda::launch_activate(
              {.x = x.data(), .h = y.data(), .num_rows = kRows, .width = kWidth, .overlaps_previous = true},
              nullptr);
        }) == 2);
  DeviceArray<std::int32_t> ids(std::vector<std::int32_t>{1, 0, 1});
  const std::uint64_t before = simt::kernels_overlapped();
  cuda::launch_embed({.table = x.data(),
                      .table_stride = kWidth,
                      .vocabulary = 2,
                      .token_ids = ids.data(),
                      .x = y.data(),
                      .x_stride = kWidth,
                      .num_rows = kRows,
                      .width = kWidth},
                     nullptr);
  norm();
  CHECK(simt::kernels_overlapped() - before == 1);  // the embedding itself is behind the batch's input
  DeviceArray<TokenPlace> places(std::vector<TokenPlace>{{0, 0}, {1, 0}, {0, 0}});
  cuda::launch_embed_positions({.words = x.data(),
                                .positions = x.data(),
                                .vocabulary = 2,
                                .token_ids = ids.data(),
                                .places = places.data(),
                                .x = y.data(),
                                .num_rows = kRows,
                                .width = kWidth},
                               nullptr);
  norm();
  CHECK(simt::kernels_overlapped() - before == 2);
}

TEST_CASE("cuda overlaps: a short convolution waits, within and behind it, and lets the next kernel start") {
  const KvLayout layout{
      .num_layers = 1, .num_pages = 1, .num_kv_heads = 1, .head_dim = 8, .type = DataType::kF32};
  DeviceArray<float> bcx(random_values(2 * 3 * kWidth, 1)), weight(random_values(kWidth * 3, 2)),
      y(std::vector<float>(2 * kWidth));
  DeviceArray<TokenPlace> places(std::vector<TokenPlace>{{0, 0}, {1, 0}});
  DeviceArray<PageId> pages(std::vector<PageId>{0, 0});
  DeviceArray<std::byte> pool(std::vector<std::byte>(kv_pool_bytes(layout)));
  CHECK(num_overlaps([&] {
          cuda::launch_short_convolution({.bcx = bcx.data(),
                                          .bcx_stride = 3 * kWidth,
                                          .weight = weight.data(),
                                          .num_taps = 3,
                                          .width = kWidth,
                                          .places = places.data(),
                                          .previous_pages = pages.data(),
                                          .num_tokens = 2,
                                          .pool = pool.data(),
                                          .layout = layout,
                                          .num_layers = 1,
                                          .y = y.data(),
                                          .y_stride = kWidth,
                                          .overlaps_previous = true},
                                         nullptr);
        }) == 4);  // two kernels a launch
}

TEST_CASE("cuda overlaps: a product of few tokens waits, and lets the next kernel start") {
  FewTokenOperands operands({2, 20, 136, true, true});
  cuda::FewTokenInput input = operands.input();
  input.overlaps_previous = true;
  DeviceArray<float> c(std::vector<float>(2 * 20));
  CHECK(num_overlaps([&] {
          cuda::launch_few_token_gemm(
              {.input = input, .c = c.data(), .c_stride = 20, .c_type = DataType::kF32}, nullptr);
        }) == 2);
}
