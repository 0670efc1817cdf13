// SPDX-License-Identifier: Apache-2.0
// Matrices of FP8, GPTQ and AWQ as Hugging Face directories store them; whole models of them are in
// tests/gpu/networks/families_test.cpp.
#include "gpu/model/quantized/four_bit_tensor.hpp"

#include <cmath>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "gpu/model/quantized/fp8_tensor.hpp"
#include "gpu/model/weights.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

using nlohmann::json;

struct FilledTensor {
  std::string name, type;
  std::vector<std::uint64_t> shape;
  std::string bytes;
};

template <class Number>
std::string repeated(std::size_t count, Number value) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  return bytes;
}

std::string file_of(const std::vector<FilledTensor>& tensors) {
  json header = json::object();
  std::string data;
  for (const FilledTensor& tensor : tensors) {
    const std::size_t begin = data.size();
    data += tensor.bytes;
    header[tensor.name] = {
        {"dtype", tensor.type}, {"shape", tensor.shape}, {"data_offsets", json::array({begin, data.size()})}};
  }
  const std::string text = header.dump();
  return repeated<std::uint64_t>(1, text.size()) + text + data;
}

// One matrix of 8 outputs and 64 inputs in groups of 32: codes 9, zero points 7 as stored, scales 0.5.
std::vector<FilledTensor> gptq_tensors() {
  return {{"m.g_idx", "I32", {64}, repeated<std::uint32_t>(32, 0) + repeated<std::uint32_t>(32, 1)},
          {"m.qweight", "I32", {8, 8}, repeated<std::uint32_t>(64, 0x99999999)},
          {"m.qzeros", "I32", {2, 1}, repeated<std::uint32_t>(2, 0x77777777)},
          {"m.scales", "F16", {2, 8}, repeated<std::uint16_t>(16, 0x3800)}};
}

json gptq() { return {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}}; }

// One matrix of 2 outputs and 3 inputs with a scale each block of 1 x 2.
std::vector<FilledTensor> fp8_tensors() {
  return {{"m.weight", "F8_E4M3", {2, 3}, std::string("\x38\x40\xB8\x01\x7E\x00", 6)},
          {"m.weight_scale_inv", "F32", {2, 2}, repeated(3, 0.5F) + repeated(1, 2.0F)}};
}

json fp8() { return {{"quant_method", "fp8"}, {"weight_block_size", {1, 2}}}; }

class Model {
 public:
  Model(const std::vector<FilledTensor>& tensors, const json& quantization) {
    directory_.write("model.safetensors", file_of(tensors));
    directory_.write("config.json", json{{"quantization_config", quantization}}.dump());
  }
  // As older directories have it.
  void move_quantization(const json& quantization) const {
    directory_.write("config.json", "{}");
    directory_.write("quantize_config.json", quantization.dump());
  }
  std::vector<float> row(std::size_t row) const {
    const WeightStore store(directory_.path());
    const WeightView view = store.find("m.weight");
    std::vector<float> values(view.shape.at(1));
    view.packed->open_row(row, values);
    return values;
  }
  bool is_finite() const {
    const WeightStore store(directory_.path());
    return store.find("m.weight").packed->is_finite();
  }
  std::optional<BlockFormat> block_format() const {
    return WeightStore(directory_.path()).find("m.weight").blocks;
  }
  std::string problem() const {
    try {
      WeightStore(directory_.path()).find("m.weight");
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }

 private:
  TemporaryDirectory directory_;
};

void check_refused(const std::vector<FilledTensor>& tensors, const json& quantization, const char* reason) {
  const std::string problem = Model(tensors, quantization).problem();
  CHECK_MESSAGE(problem.find(reason) != std::string::npos, problem, " | ", reason);
  const bool names_file = problem.find(".safetensors: ") != std::string::npos ||
                          problem.find("config.json: ") != std::string::npos;
  CHECK_MESSAGE(names_file, problem);
}

json with(json quantization, const char* field, const json& value) {
  quantization[field] = value;
  return quantization;
}

// The tensors but for the one of that name.
std::vector<FilledTensor> with(std::vector<FilledTensor> tensors, FilledTensor other) {
  for (FilledTensor& tensor : tensors)
    if (tensor.name == other.name) std::swap(tensor, other);
  return tensors;
}

}  // namespace

TEST_CASE("quantized weights: E4M3 has a bias of 7, subnormal numbers, no infinity and two NaN") {
  CHECK(f32_from_e4m3(0x00) == 0.0F);
  CHECK(f32_from_e4m3(0x01) == std::ldexp(1.0F, -9));
  CHECK(f32_from_e4m3(0x07) == std::ldexp(7.0F, -9));
  CHECK(f32_from_e4m3(0x08) == std::ldexp(1.0F, -6));
  CHECK(f32_from_e4m3(0x38) == 1.0F);
  CHECK(f32_from_e4m3(0xBC) == -1.5F);
  CHECK(f32_from_e4m3(0x7E) == 448.0F);
  CHECK(std::isnan(f32_from_e4m3(0x7F)));
  CHECK(std::isnan(f32_from_e4m3(0xFF)));
}

TEST_CASE("quantized weights: FP8 is multiplied by its block's scale, its row's, or the only one") {
  using Values = std::vector<float>;
  const Model blocks(fp8_tensors(), fp8());
  CHECK(blocks.row(0) == Values{0.5F, 1.0F, -0.5F});
  CHECK(blocks.row(1) == Values{std::ldexp(0.5F, -9), 224.0F, 0.0F});
  const auto scaled = [](std::vector<std::uint64_t> shape, const std::string& scales) {
    return Model(with(fp8_tensors(), {"m.weight_scale_inv", "F32", std::move(shape), scales}),
                 {{"quant_method", "fp8"}});
  };
  CHECK(scaled({2, 1}, repeated(1, 0.5F) + repeated(1, 2.0F)).row(1)[1] == 896.0F);
  CHECK(scaled({}, repeated(1, 4.0F)).row(0) == Values{4.0F, 8.0F, -4.0F});
  auto renamed = fp8_tensors();
  renamed[1].name = "m.weight_scale";
  CHECK(Model(renamed, fp8()).row(0) == Values{0.5F, 1.0F, -0.5F});
}

TEST_CASE("quantized weights: 4 bits are scale times code minus zero point, of GPTQ's first format plus 1") {
  CHECK(Model(gptq_tensors(), gptq()).row(7) == std::vector<float>(64, 0.5F));  // 9 - (7 + 1)
  CHECK(Model(gptq_tensors(), with(gptq(), "checkpoint_format", "gptq_v2")).row(7) ==
        std::vector<float>(64, 1.0F));
  auto mixed = with(
      gptq_tensors(),
      {"m.scales", "F16", {2, 8}, repeated<std::uint16_t>(8, 0x3800) + repeated<std::uint16_t>(8, 0x4000)});
  const std::vector<float> in_order = Model(mixed, gptq()).row(0);
  CHECK(in_order[0] == 0.5F);
  CHECK(in_order[63] == 2.0F);
  mixed =
      with(mixed, {"m.g_idx", "I32", {64}, repeated<std::uint32_t>(32, 1) + repeated<std::uint32_t>(32, 0)});
  const std::vector<float> turned = Model(mixed, gptq()).row(0);
  CHECK(turned[0] == 2.0F);
  CHECK(turned[63] == 0.5F);
  CHECK_FALSE(Model(mixed, gptq()).block_format());
}

TEST_CASE("quantized weights: older directories of GPTQ have quantize_config.json") {
  const Model model(gptq_tensors(), gptq());
  model.move_quantization({{"bits", 4}, {"group_size", 32}, {"desc_act", false}});
  CHECK(model.row(7) == std::vector<float>(64, 0.5F));
  model.move_quantization({{"bits", 3}, {"group_size", 32}});
  CHECK_MESSAGE(
      model.problem().find("quantize_config.json: quantization_config.bits is 3") != std::string::npos,
      model.problem());
  model.move_quantization(json::array());
  CHECK(model.problem().find("quantize_config.json: quantization_config is no object") != std::string::npos);
}

TEST_CASE("quantized weights: values that are no numbers are found before anything is computed") {
  CHECK(Model(fp8_tensors(), fp8()).is_finite());
  CHECK_FALSE(Model(with(fp8_tensors(), {"m.weight", "F8_E4M3", {2, 3}, "\x38\x40\x7F\x01\x7E\x02"}), fp8())
                  .is_finite());
  CHECK_FALSE(Model(with(fp8_tensors(), {"m.weight_scale_inv", "F32", {}, repeated(1, INFINITY)}), fp8())
                  .is_finite());
  CHECK(Model(gptq_tensors(), gptq()).is_finite());
  CHECK_FALSE(
      Model(with(gptq_tensors(), {"m.scales", "F16", {2, 8}, repeated<std::uint16_t>(16, 0x7C00)}), gptq())
          .is_finite());
}

TEST_CASE("quantized weights: a finite scale times a code is infinite only where the code is that large") {
  const auto fp8_of = [](float scale) {
    return Model(with(fp8_tensors(), {"m.weight_scale_inv", "F32", {}, repeated(1, scale)}), fp8());
  };
  CHECK_FALSE(fp8_of(3e38F).is_finite());  // 448 is among the codes
  CHECK(fp8_of(7e35F).is_finite());
  CHECK(Model(with(with(fp8_tensors(), {"m.weight_scale_inv", "F32", {}, repeated(1, 3e38F)}),
                   {"m.weight", "F8_E4M3", {2, 3}, std::string(6, '\x38')}),
              fp8())
            .is_finite());
  const auto gptq_of = [](std::uint32_t codes) {
    const auto large = with(gptq_tensors(), {"m.scales", "F32", {2, 8}, repeated(16, 3e38F)});
    return Model(with(large, {"m.qweight", "I32", {8, 8}, repeated<std::uint32_t>(64, codes)}), gptq());
  };
  CHECK_FALSE(gptq_of(0xAAAAAAAA).is_finite());  // 10 - 8
  CHECK(gptq_of(0x99999999).is_finite());
}

TEST_CASE("quantized weights: more inputs than a group can count are refused") {
  FourBitParts parts{.packing = FourBitPacking::kAwq,
                     .codes = {.type = DataType::kI32, .shape = {std::uint64_t{1} << 32, 1}, .bytes = {}},
                     .zeros = {},
                     .scales = {}};
  CHECK_THROWS_WITH_AS(make_four_bit_tensor(parts), "qweight is not of fewer than 2^32 inputs",
                       std::runtime_error);
  parts.packing = FourBitPacking::kGptq;
  parts.codes.shape = {std::uint64_t{1} << 29, 8};
  CHECK_THROWS_WITH_AS(make_four_bit_tensor(parts), "qweight is not of fewer than 2^32 inputs",
                       std::runtime_error);
}

TEST_CASE("quantized weights: a file that lies is refused with its name and the reason") {
  auto without_scales = fp8_tensors();
  without_scales.pop_back();
  check_refused(without_scales, fp8(), "\"m\" in F8_E4M3: has no tensor \"m.weight_scale\"");
  check_refused(fp8_tensors(), with(fp8(), "weight_block_size", {2, 2}), "nor one a block of 2 x 2");
  check_refused(fp8_tensors(), with(fp8(), "weight_block_size", {0, 2}), "weight_block_size is [0,2]");
  check_refused(fp8_tensors(), with(fp8(), "weight_block_size", "all"), "expected two sizes of blocks");
  check_refused(with(fp8_tensors(), {"m.weight_scale_inv", "U8", {2, 2}, repeated<std::uint8_t>(4, 1)}),
                fp8(), "has scales that are not F32, F16 or BF16");
  auto without_zeros = gptq_tensors();
  without_zeros.erase(without_zeros.begin() + 2);
  check_refused(without_zeros, gptq(), "\"m\" in GPTQ: has no tensor \"m.qzeros\"");
  check_refused(gptq_tensors(), with(gptq(), "bits", 8), "quantization_config.bits is 8");
  check_refused(gptq_tensors(), with(gptq(), "bits", nullptr), "quantization_config.bits is missing");
  check_refused(gptq_tensors(), with(gptq(), "group_size", 16), "qzeros is not I32 of [groups, outputs / 8]");
  check_refused(gptq_tensors(), with(gptq(), "group_size", 0), "group_size is 0");
  check_refused(gptq_tensors(), with(gptq(), "checkpoint_format", "marlin"), "checkpoint_format");
  check_refused(gptq_tensors(), with(gptq(), "quant_method", "hqq"), "quant_method \"hqq\"");
  check_refused(with(gptq_tensors(), {"m.g_idx", "I32", {64}, repeated<std::uint32_t>(64, 2)}), gptq(),
                "g_idx names group 2 of 2");
  check_refused(with(gptq_tensors(), {"m.g_idx", "I32", {63}, repeated<std::uint32_t>(63, 0)}), gptq(),
                "g_idx is not I32 of [inputs]");
  check_refused(with(gptq_tensors(), {"m.scales", "F16", {8, 2}, repeated<std::uint16_t>(16, 0)}), gptq(),
                "scales is not F16, BF16 or F32 of [groups, outputs]");
  check_refused(with(gptq_tensors(), {"m.qweight", "I32", {8, 9}, repeated<std::uint32_t>(72, 0)}), gptq(),
                "of a multiple of 8 outputs");
  check_refused(with(gptq_tensors(), {"m.qweight", "F32", {8, 8}, repeated<std::uint32_t>(64, 0)}), gptq(),
                "qweight is not a matrix of I32");
  check_refused(gptq_tensors(), {{"quant_method", "awq"}, {"bits", 4}, {"version", "gemv"}},
                "version \"gemv\"");
}

}  // namespace troupe
