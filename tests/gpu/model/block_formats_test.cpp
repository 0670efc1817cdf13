// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/block_formats.hpp"

#include <cstdlib>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/model/safetensors.hpp"

namespace troupe {
namespace {

constexpr BlockFormat kQuantized[] = {
    BlockFormat::kQ4_0, BlockFormat::kQ4_1, BlockFormat::kQ5_0, BlockFormat::kQ5_1,  BlockFormat::kQ8_0,
    BlockFormat::kQ4_K, BlockFormat::kQ5_K, BlockFormat::kQ6_K, BlockFormat::kIq4Nl, BlockFormat::kMxfp4};

// A block of zero bytes but for those that are named.
std::vector<float> opened(BlockFormat format, const std::vector<std::pair<std::size_t, int>>& bytes) {
  const BlockLayout& layout = layout_of(format);
  std::vector<std::byte> block(layout.num_bytes);
  for (const auto& [offset, byte] : bytes) block[offset] = static_cast<std::byte>(byte);
  std::vector<float> values(layout.num_elements);
  dequantize(format, block, values);
  return values;
}

std::filesystem::path fixture() {
  if (const char* path = std::getenv("TROUPE_GGML_BLOCKS")) return path;
  return std::filesystem::path(TROUPE_SOURCE_DIR) / "tests" / "fixtures" / "ggml_blocks.safetensors";
}

}  // namespace

TEST_CASE("block formats: values are those of ggml's Python package, bit by bit") {
  const SafetensorsFile file(fixture());
  for (const BlockFormat format : kQuantized) {
    const std::string name(layout_of(format).name);
    CAPTURE(name);
    const auto* blocks = file.find(name + ".blocks");
    const auto* values = file.find(name + ".values");
    REQUIRE(blocks != nullptr);
    REQUIRE(values != nullptr);
    std::vector<float> ours(values->size_bytes / sizeof(float));
    REQUIRE(!ours.empty());
    dequantize(format, file.bytes_of(*blocks), ours);
    CHECK(std::memcmp(ours.data(), file.bytes_of(*values).data(), values->size_bytes) == 0);
    CHECK(has_finite_scales(format, file.bytes_of(*blocks)));
  }
}

TEST_CASE("block formats: MXFP4 with scales apart has the values of that with scales in its blocks") {
  std::vector<std::byte> blocks, nibbles, scales;
  for (int block = 0; block < 3; ++block) {
    std::vector<int> codes;
    for (int i = 0; i < 32; ++i) codes.push_back((7 * i + 3 * block) % 16);
    scales.push_back(static_cast<std::byte>(125 + block));
    blocks.push_back(scales.back());
    for (std::size_t t = 0; t < 16; ++t) {
      blocks.push_back(static_cast<std::byte>(codes[t] | codes[t + 16] << 4));
      nibbles.push_back(static_cast<std::byte>(codes[2 * t] | codes[2 * t + 1] << 4));
    }
  }
  std::vector<float> values(96), expected(96);
  dequantize_mxfp4(nibbles, scales, values);
  dequantize(BlockFormat::kMxfp4, blocks, expected);
  CHECK(values == expected);
  CHECK(values[2] == -4.0F * 0.25F);  // code 14, scale 2^-2
  CHECK(has_finite_mxfp4_scales(scales));
  scales[1] = std::byte{253};
  CHECK_FALSE(has_finite_mxfp4_scales(scales));
}

TEST_CASE("block formats: small numbers by hand") {
  const auto q4_0 = opened(BlockFormat::kQ4_0, {{1, 0x38}, {2, 0xF0}, {3, 0x7B}});  // d = 0.5
  CHECK(q4_0[0] == -4.0F);
  CHECK(q4_0[1] == 1.5F);
  CHECK(q4_0[16] == 3.5F);
  CHECK(q4_0[17] == -0.5F);
  const auto q4_1 = opened(BlockFormat::kQ4_1, {{1, 0x38}, {3, 0xC0}, {4, 0xF0}});  // d = 0.5, m = -2
  CHECK(q4_1[0] == -2.0F);
  CHECK(q4_1[16] == 5.5F);
  const auto q8_0 = opened(BlockFormat::kQ8_0, {{1, 0x38}, {2, 0x80}, {3, 0x7F}});
  CHECK(q8_0[0] == -64.0F);
  CHECK(q8_0[1] == 63.5F);
  const auto q6_k =
      opened(BlockFormat::kQ6_K,
             {{0, 0xF3}, {32, 0x05}, {128, 0xE4}, {192, 0xFE}, {194, 3}, {196, 1}, {198, 1}, {209, 0x38}});
  CHECK(q6_k[0] == 29.0F);
  CHECK(q6_k[32] == -16.5F);
  CHECK(q6_k[64] == 7.5F);
  CHECK(q6_k[96] == 8.0F);
  const auto mxfp4 = opened(BlockFormat::kMxfp4, {{0, 0x80}, {1, 0xF5}});
  CHECK(mxfp4[0] == 6.0F);
  CHECK(mxfp4[16] == -12.0F);
}

TEST_CASE("block formats: plain types are opened, too") {
  std::vector<std::byte> bytes(4);
  const float value = -1.5F;
  std::memcpy(bytes.data(), &value, sizeof value);
  std::vector<float> opened_value(1);
  dequantize(BlockFormat::kF32, bytes, opened_value);
  CHECK(opened_value[0] == value);
  dequantize(BlockFormat::kBF16, std::span(bytes).subspan(2), opened_value);
  CHECK(opened_value[0] == value);
  const std::vector<std::byte> half = {std::byte{0x00}, std::byte{0xBE}};
  dequantize(BlockFormat::kF16, half, opened_value);
  CHECK(opened_value[0] == value);
}

TEST_CASE("block formats: a scale that is infinite or not a number is seen") {
  for (const BlockFormat format : kQuantized) {
    CAPTURE(layout_of(format).name);
    const BlockLayout& layout = layout_of(format);
    std::vector<std::byte> blocks(std::size_t{3} * layout.num_bytes);
    CHECK(has_finite_scales(format, blocks));
    // The high byte of the scale of the last block.
    const std::size_t scale = format == BlockFormat::kQ6_K ? 209 : format == BlockFormat::kMxfp4 ? 0 : 1;
    for (const int byte : {0x7C, 0xFE, 0xFF}) {
      if (format == BlockFormat::kMxfp4 && byte == 0x7C) continue;
      blocks[std::size_t{2} * layout.num_bytes + scale] = static_cast<std::byte>(byte);
      CHECK_FALSE(has_finite_scales(format, blocks));
    }
  }
  for (const BlockFormat format :
       {BlockFormat::kQ4_1, BlockFormat::kQ5_1, BlockFormat::kQ4_K, BlockFormat::kQ5_K}) {
    std::vector<std::byte> block(layout_of(format).num_bytes);
    block[3] = std::byte{0x7C};  // the minimum's scale
    CHECK_FALSE(has_finite_scales(format, block));
  }
}

TEST_CASE("block formats: types that are not read have a name, unknown ones have none") {
  CHECK(find_block_layout(10) == nullptr);
  CHECK(name_of_ggml_type(10) == "Q2_K");
  CHECK(name_of_ggml_type(12) == "Q4_K");
  CHECK(name_of_ggml_type(4).empty());
  CHECK(name_of_ggml_type(0xFFFFFFFF).empty());
}

TEST_CASE("block formats: blocks of Q8_0 and Q4_0 are written as they were read, others not") {
  for (const auto format : {BlockFormat::kQ8_0, BlockFormat::kQ4_0}) {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < std::size_t{3} * layout_of(format).num_bytes; ++i)
      bytes.push_back(static_cast<std::byte>(i * 37 + 11));
    std::vector<QuantizedBlock> blocks(3);
    read_blocks(format, bytes, blocks);
    std::vector<std::byte> written(bytes.size());
    write_blocks(format, blocks, written);
    CHECK(written == bytes);
    CHECK_THROWS_AS(write_blocks(format, blocks, std::span(written).first(4)), std::logic_error);
  }
  std::vector<std::byte> bytes(layout_of(BlockFormat::kQ5_0).num_bytes);
  CHECK_THROWS_AS(write_blocks(BlockFormat::kQ5_0, std::vector<QuantizedBlock>(1), bytes), std::logic_error);
}

}  // namespace troupe
