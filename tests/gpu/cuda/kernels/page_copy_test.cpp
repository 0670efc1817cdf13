// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/page_copy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tests/gpu/cuda/kernels/device_array.hpp"

using namespace troupe;

namespace {

std::vector<std::byte> random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

}  // namespace

TEST_CASE("cuda page copy: pages of all layers leave the pool and come back elsewhere") {
  for (const DataType type : {DataType::kF32, DataType::kBF16}) {
    const KvLayout layout{.num_layers = 3, .num_pages = 5, .num_kv_heads = 2, .head_dim = 24, .type = type};
    const std::size_t layer_bytes = kv_page_bytes(layout);
    const auto before = random_bytes(kv_pool_bytes(layout), 1);
    DeviceArray<std::byte> pool(before);
    DeviceArray<std::byte> pieces(std::vector<std::byte>(4 * layout.num_layers * layer_bytes));
    DeviceArray<std::uint32_t> out_of({4, 1}), numbers({3, 0}), into({0, 2});
    cuda::PageCopyArguments arguments{.pool = pool.data(),
                                      .layout = layout,
                                      .pool_pages = out_of.data(),
                                      .pieces = pieces.data(),
                                      .piece_numbers = numbers.data(),
                                      .num_pages = 2};
    cuda::launch_page_copy(arguments, nullptr);
    const auto stored = pieces.values();
    arguments.pool_pages = into.data();
    arguments.is_to_pool = true;
    cuda::launch_page_copy(arguments, nullptr);
    const auto after = pool.values();
    const auto part = [&](const std::vector<std::byte>& bytes, std::size_t offset) {
      const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(offset);
      return std::vector<std::byte>(begin, begin + static_cast<std::ptrdiff_t>(layer_bytes));
    };
    for (std::size_t layer = 0; layer < layout.num_layers; ++layer) {
      const auto place = [&](std::uint32_t page) { return kv_block_offset(layout, layer, page, 0); };
      CHECK(part(stored, (3 * layout.num_layers + layer) * layer_bytes) == part(before, place(4)));
      CHECK(part(stored, layer * layer_bytes) == part(before, place(1)));
      CHECK(part(after, place(0)) == part(before, place(4)));
      CHECK(part(after, place(2)) == part(before, place(1)));
      for (const std::uint32_t page : {1U, 3U, 4U}) {
        CHECK(part(after, place(page)) == part(before, place(page)));
      }
    }
  }
}

TEST_CASE("cuda page copy: without numbers the pieces follow each other; no pages, no launch") {
  const KvLayout layout{.num_layers = 1, .num_pages = 3, .num_kv_heads = 1, .head_dim = 8};
  const auto before = random_bytes(kv_pool_bytes(layout), 2);
  DeviceArray<std::byte> pool(before);
  DeviceArray<std::byte> pieces(std::vector<std::byte>(before.size()));
  DeviceArray<std::uint32_t> all({0, 1, 2});
  cuda::PageCopyArguments arguments{
      .pool = pool.data(), .layout = layout, .pool_pages = all.data(), .pieces = pieces.data()};
  cuda::launch_page_copy(arguments, nullptr);
  CHECK(pieces.values() == std::vector<std::byte>(before.size()));
  arguments.num_pages = 3;
  cuda::launch_page_copy(arguments, nullptr);
  CHECK(pieces.values() == before);
}
