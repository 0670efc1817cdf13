// SPDX-License-Identifier: Apache-2.0
// Kernels whose stores others see only behind fences. In the interpreter only: a GPU shows others' stores
// sooner than it must.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "gpu/cuda/kernels/gemm/few_token_gemm.hpp"
#include "gpu/cuda/kernels/signal.hpp"
#include "tests/gpu/cuda/kernels/few_token_operands.hpp"
#include "tests/simt/interpreter/weak_memory.hpp"

using namespace troupe;

namespace {

constexpr std::size_t kCounterBytes = 512;      // of blocks that have come, in front of their sums
constexpr std::size_t kPartsBytes = 16 * 1024;  // more than the product's blocks have

template <typename T>
std::span<std::byte> bytes_of(DeviceArray<T>& memory, std::size_t count) {
  return std::as_writable_bytes(std::span(memory.data(), count));
}

}  // namespace

TEST_CASE("cuda fences: blocks that share a depth see each other's sums behind a fence, not before") {
  in_several_orders([] {
    const FewTokenCase c{2, 20, 2056, true, true};
    FewTokenOperands operands(c);
    cuda::FewTokenInput input = operands.input();
    // A workspace of its own: no other product has left sums in it.
    DeviceArray<std::byte> workspace{std::vector<std::byte>(cuda::kFewTokenWorkspaceBytes)};
    input.workspace = workspace.data();
    DeviceArray<float> sums(std::vector<float>(c.tokens * c.outputs));
    const std::span<std::byte> parts(workspace.data() + kCounterBytes, kPartsBytes);
    const simt::WeakMemory weak(parts);
    cuda::launch_few_token_gemm(
        {.input = input, .c = sums.data(), .c_stride = c.outputs, .c_type = DataType::kF32}, nullptr);
    const auto values = sums.values();
    const auto expected = operands.sums();
    for (std::size_t i = 0; i < values.size(); ++i) CHECK(error_of(values[i], expected[i]) < 1e-5);
    CHECK(std::any_of(parts.begin(), parts.end(), [](std::byte byte) { return byte != std::byte{0}; }));
  });
}

TEST_CASE("cuda signal: the host that sees the batch's number sees all of its tokens") {
  in_several_orders([] {
    constexpr std::uint32_t kCount = 300;
    std::vector<std::int32_t> tokens(kCount);
    std::iota(tokens.begin(), tokens.end(), 5);
    DeviceArray<std::int32_t> sampled(tokens), on_host(std::vector<std::int32_t>(kCount, -1));
    DeviceArray<std::uint64_t> word(std::vector<std::uint64_t>{6});
    const simt::WeakMemory seen(bytes_of(on_host, kCount));
    cuda::launch_signal({.token_ids = sampled.data(),
                         .num_tokens = kCount,
                         .host_token_ids = on_host.data(),
                         .word = word.data(),
                         .batch = 7},
                        nullptr);
    CHECK(word.values()[0] == 7);
    CHECK(on_host.values() == tokens);
    REQUIRE(seen.seen_by_others().size() == kCount * sizeof(std::int32_t));
    CHECK(std::memcmp(seen.seen_by_others().data(), tokens.data(), kCount * sizeof(std::int32_t)) == 0);
  });
}
