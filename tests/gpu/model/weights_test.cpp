// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/weights.hpp"

#include <cstring>
#include <filesystem>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "gpu/model/random_model.hpp"
#include "gpu/networks/network.hpp"
#include "tests/gpu/tiny_model.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

// A file with one f32 vector of one element.
std::string file_with(const std::string& name, float value, const std::string& type = "F32") {
  const std::string header =
      "{\"" + name + R"(":{"dtype":")" + type + R"(","shape":[1],"data_offsets":[0,4]}})";
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  file += header;
  file.append(reinterpret_cast<const char*>(&value), sizeof(value));
  return file;
}

struct EmptyTensor {
  std::string name, type;
  std::vector<std::uint64_t> shape;
};

// A file of tensors of zeros.
std::string file_of(const std::vector<EmptyTensor>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::uint64_t end = 0;
  for (const EmptyTensor& tensor : tensors) {
    const std::uint64_t begin = end;
    std::uint64_t size = tensor.type == "F32" ? 4 : 1;
    for (const std::uint64_t dimension : tensor.shape) size *= dimension;
    end += size;
    header[tensor.name] = {{"dtype", tensor.type},
                           {"shape", tensor.shape},
                           {"data_offsets", nlohmann::json::array({begin, end})}};
  }
  const std::string text = header.dump();
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(text.size() >> (8 * i) & 0xFF);
  return file + text + std::string(end, '\0');
}

float first_of(const WeightView& view) {
  float value = 0;
  std::memcpy(&value, view.bytes.data(), sizeof(value));
  return value;
}

const char* const kIndex = "model.safetensors.index.json";

}  // namespace

TEST_CASE("weights: one file") {
  const TemporaryDirectory directory;
  directory.write("model.safetensors", file_with("a", 1.5F));
  const WeightStore store(directory.path());
  CHECK(store.has("a"));
  CHECK_FALSE(store.has("b"));
  CHECK(first_of(store.find("a")) == 1.5F);
  CHECK_THROWS_WITH_AS(store.find("b"), doctest::Contains("no tensor \"b\""), std::runtime_error);
}

TEST_CASE("weights: shards named by an index") {
  const TemporaryDirectory directory;
  directory.write("model-1.safetensors", file_with("a", 1.0F));
  directory.write("model-2.safetensors", file_with("b", 2.0F));
  directory.write(kIndex, R"({"metadata":{"total_size":8},
      "weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})");
  const WeightStore store(directory.path());
  CHECK(first_of(store.find("a")) == 1.0F);
  CHECK(first_of(store.find("b")) == 2.0F);
  CHECK(store.files().size() == 2);
}

TEST_CASE("weights: a missing shard is named") {
  const TemporaryDirectory directory;
  directory.write("model-1.safetensors", file_with("a", 1.0F));
  directory.write(kIndex, R"({"weight_map":{"a":"model-1.safetensors",
                                            "b":"model-2.safetensors"}})");
  CHECK_THROWS_WITH_AS(WeightStore(directory.path()), doctest::Contains("model-2.safetensors: is missing"),
                       std::runtime_error);
}

TEST_CASE("weights: an empty directory says which files were looked for") {
  const TemporaryDirectory directory;
  CHECK_THROWS_WITH_AS(WeightStore(directory.path()),
                       doctest::Contains("model.safetensors: is missing, and so is"), std::runtime_error);
}

TEST_CASE("weights: hostile indexes are refused") {
  const TemporaryDirectory directory;
  directory.write("model-1.safetensors", file_with("a", 1.0F));
  const std::pair<const char*, const char*> cases[] = {
      {"", "not valid JSON"},
      {"[]", "no object \"weight_map\""},
      {"{}", "no object \"weight_map\""},
      {R"({"weight_map":[]})", "no object \"weight_map\""},
      {R"({"weight_map":{"a":1}})", "no plain *.safetensors name"},
      {R"({"weight_map":{"a":"../model-1.safetensors"}})", "no plain *.safetensors name"},
      {R"({"weight_map":{"a":"/etc/passwd"}})", "no plain *.safetensors name"},
      {R"({"weight_map":{"a":".safetensors"}})", "no plain *.safetensors name"},
      {R"({"weight_map":{"a":"model-1.safetensors\u0000"}})", "no plain *.safetensors name"},
      {R"({"weight_map":{"b":"model-1.safetensors"}})", "does not have it"},
      {R"({"weight_map":{"a":"model-1.safetensors","a":"model-1.safetensors"}})", "twice"},
      {R"({"weight_map":{"a":"model-1.safetensors"},"x":1e999})", "not valid JSON"},
  };
  for (const auto& [index, reason] : cases) {
    CAPTURE(index);
    directory.write(kIndex, index);
    CHECK_THROWS_WITH_AS(WeightStore(directory.path()), doctest::Contains(reason), std::runtime_error);
  }
  directory.write(kIndex, std::string(100, '[') + std::string(100, ']'));
  CHECK_THROWS_WITH_AS(WeightStore(directory.path()), doctest::Contains("nested deeper"), std::runtime_error);
}

TEST_CASE("weights: a type that networks cannot use is refused on use") {
  const TemporaryDirectory directory;
  directory.write("model.safetensors", file_with("a", 1.0F, "U32"));
  const WeightStore store(directory.path());
  CHECK_THROWS_WITH_AS(store.find("a"), doctest::Contains("dtype U32, expected F32"), std::runtime_error);
}

TEST_CASE("weights: a file cut after it was opened is noticed before it is read") {
  const TemporaryDirectory directory;
  directory.write("model.safetensors", file_with("a", 1.0F));
  const WeightStore store(directory.path());
  CHECK_NOTHROW(store.check_unchanged());
  std::filesystem::resize_file(directory.path() / "model.safetensors", 10);
  CHECK_THROWS_WITH_AS(store.check_unchanged(), doctest::Contains("was changed"), std::runtime_error);
}

TEST_CASE("weights: sources must fit the weight they make up") {
  const TemporaryDirectory directory;
  directory.write("model.safetensors", file_with("a", 1.0F));
  const WeightStore store(directory.path());
  CHECK(find_sources(store, {.name = "w", .sources = {"a", "a"}, .rows = 1, .columns = 2}).size() == 2);
  CHECK_THROWS_WITH_AS(find_sources(store, {.name = "w", .sources = {"a"}, .rows = 1, .columns = 2}),
                       doctest::Contains("has shape [1]"), std::runtime_error);
  CHECK_THROWS_WITH_AS(find_sources(store, {.name = "w", .sources = {"a"}, .rows = 2, .columns = 1}),
                       doctest::Contains("expected [2, 1]"), std::runtime_error);
}

TEST_CASE("weights: blocks in another order than the network's are refused") {
  const TemporaryDirectory directory;
  const std::string stack = "model.layers.0.mlp.experts.down_proj_";
  directory.write("model.safetensors",
                  file_of({{stack + "blocks", "U8", {1, 96, 3, 16}}, {stack + "scales", "U8", {1, 96, 3}}}));
  const WeightStore store(directory.path());
  WeightSpec spec{.name = "w",
                  .sources = {"model.layers.0.mlp.experts.0.down_proj.weight"},
                  .rows = 96,
                  .columns = 96,
                  .is_matrix = true,
                  .head_dim = 32};
  CHECK_NOTHROW(find_sources(store, spec));
  for (const FileOrder order : {FileOrder::kTransposed, FileOrder::kHeadByHead}) {
    spec.order = order;
    CHECK_THROWS_WITH_AS(find_sources(store, spec),
                         doctest::Contains("0.down_proj.weight\" is in blocks of MXFP4 in an order other"),
                         std::runtime_error);
  }
}

TEST_CASE("weights: halves of which rows take turns are of one size") {
  const TemporaryDirectory directory;
  directory.write("model.safetensors", file_of({{"odd", "F32", {3, 2}}, {"even", "F32", {4, 2}}}));
  const WeightStore store(directory.path());
  const auto spec = [](const char* source, std::uint32_t rows) {
    return WeightSpec{
        .name = "w", .sources = {source}, .rows = rows, .columns = 2, .is_matrix = true, .alternates = true};
  };
  CHECK_NOTHROW(find_sources(store, spec("even", 4)));
  CHECK_THROWS_WITH_AS(find_sources(store, spec("odd", 3)),
                       doctest::Contains("\"odd\" has 3 rows of two halves that take turns"),
                       std::runtime_error);
}

TEST_CASE("weights: only a vector of rows may be a matrix in the files, of rows that are as wide") {
  const TemporaryDirectory directory;
  directory.write("model.safetensors", file_of({{"three", "F32", {4, 1, 3}},
                                                {"two", "F32", {4, 3}},
                                                {"turned", "F32", {3, 4}},
                                                {"norm", "F32", {2, 6}}}));
  const WeightStore store(directory.path());
  const auto spec = [](const char* source, std::uint32_t row_width) {
    return WeightSpec{.name = "w", .sources = {source}, .rows = 1, .columns = 12, .row_width = row_width};
  };
  for (const char* source : {"two", "three"}) CHECK_NOTHROW(find_sources(store, spec(source, 3)));
  for (const auto& refused : {spec("turned", 3), spec("norm", 0), spec("two", 0), spec("three", 0)})
    CHECK_THROWS_WITH_AS(find_sources(store, refused), doctest::Contains("does not fit the configuration"),
                         std::runtime_error);
}

TEST_CASE("weights: experts have as many rows each") {
  const TemporaryDirectory directory;
  directory.write("model.safetensors", file_of({{"short", "F32", {2, 2}},
                                                {"long", "F32", {6, 2}},
                                                {"good", "F32", {4, 2}},
                                                {"short_bias", "F32", {3}},
                                                {"long_bias", "F32", {5}}}));
  const WeightStore store(directory.path());
  WeightSpec spec{.name = "w",
                  .sources = {"good", "good"},
                  .rows = 8,
                  .columns = 2,
                  .is_matrix = true,
                  .kind = MatrixKind::kExperts};
  CHECK(find_sources(store, spec).size() == 2);
  spec.sources = {"short", "long"};
  CHECK_THROWS_WITH_AS(
      find_sources(store, spec),
      doctest::Contains("\"short\" has shape [2, 2], which does not fit the configuration: expected [8, 2] "
                        "together from 2 tensors of one size"),
      std::runtime_error);
  const WeightSpec bias{.name = "b",
                        .sources = {"short_bias", "long_bias"},
                        .rows = 1,
                        .columns = 8,
                        .kind = MatrixKind::kExperts};
  CHECK_THROWS_WITH_AS(find_sources(store, bias), doctest::Contains("\"short_bias\" has shape [3]"),
                       std::runtime_error);
}

TEST_CASE("weights: three experts of a random model are no queries, keys and values") {
  const TemporaryDirectory directory;
  ModelConfig config = tiny_llama();
  config.architecture = "Qwen3MoeForCausalLM";
  config.experts = ExpertsConfig{.num_experts = 3, .num_chosen = 2, .intermediate_size = 32};
  write_random_llama(directory.path(), config, 1);
  CHECK_NOTHROW(check_weights(WeightStore(directory.path()), *make_network(config)));
}

TEST_CASE("weights: infinity and what is not a number are found in every type and at every place") {
  struct Row {
    DataType type;
    std::vector<std::uint32_t> finite, others;  // bits
  };
  const Row rows[] = {
      {DataType::kF32, {0x7F7FFFFF, 0xFF7FFFFF, 0, 1}, {0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001}},
      {DataType::kBF16, {0x7F7F, 0xFF7F, 0, 1}, {0x7F80, 0xFF80, 0x7FC0, 0x7F81}},
      {DataType::kF16, {0x7BFF, 0xFBFF, 0, 1}, {0x7C00, 0xFC00, 0x7E00, 0x7C01}},
  };
  const WeightSpec spec{.name = "w", .sources = {"first", "second"}, .rows = 1, .columns = 1};
  for (const Row& row : rows) {
    constexpr std::size_t kCount = 10'000;
    const std::size_t size = size_of(row.type);
    std::vector<std::byte> good(kCount * size), bad;
    const auto put = [&](std::vector<std::byte>& bytes, std::size_t at, std::uint32_t bits) {
      std::memcpy(bytes.data() + at * size, &bits, size);
    };
    for (std::size_t i = 0; i < kCount; ++i) put(good, i, row.finite[i % row.finite.size()]);
    const auto view = [&](const std::vector<std::byte>& bytes) {
      return WeightView{.type = row.type, .shape = {kCount}, .bytes = bytes};
    };
    CHECK_NOTHROW(check_finite(spec, {view(good), view(good)}));
    for (const std::uint32_t bits : row.others) {
      for (const std::size_t at : {std::size_t{0}, std::size_t{4096}, kCount - 1}) {
        bad = good;
        put(bad, at, bits);
        CHECK_THROWS_WITH_AS(check_finite(spec, {view(good), view(bad)}),
                             doctest::Contains("tensor \"second\" has values that are infinite"),
                             std::runtime_error);
      }
    }
  }
}

TEST_CASE("weights: a stack of experts that is none is refused by its name") {
  const TemporaryDirectory directory;
  const std::pair<const char*, const char*> cases[] = {
      {"model.layers.0.mlp.experts.down_proj",
       "experts.*.down_proj.weight\" has shape [1], expected those of"},
      {"model.layers.0.mlp.experts.gate_up_proj_blocks",
       "is not of blocks of 16 bytes, U8, with a scale each"},
  };
  for (const auto& [name, says] : cases) {
    directory.write("model.safetensors", file_with(name, 1.0F));
    CHECK_THROWS_WITH_AS(WeightStore(directory.path()), doctest::Contains(says), std::runtime_error);
  }
}

TEST_CASE("weights: stacks of experts that cost a file nothing are refused") {
  const TemporaryDirectory directory;
  directory.write("model.safetensors", file_of({{"a.mlp.experts.down_proj", "F32", {4096, 0}}}));
  CHECK_THROWS_WITH_AS(WeightStore(directory.path()),
                       doctest::Contains("has shape [4096, 0], expected those of 1 to 4096 experts"),
                       std::runtime_error);
  std::vector<EmptyTensor> stacks;
  for (int layer = 0; layer < 49; ++layer)
    stacks.push_back({std::to_string(layer) + ".mlp.experts.down_proj", "U8", {4096, 1}});
  directory.write("model.safetensors", file_of(stacks));
  CHECK_THROWS_WITH_AS(WeightStore(directory.path()),
                       doctest::Contains("of 4096 experts makes more than 200000 tensors"),
                       std::runtime_error);
}

TEST_CASE("weights: gpt-oss has a matrix and a bias for each expert, in blocks or not") {
  const auto fixtures = std::filesystem::path(TROUPE_SOURCE_DIR) / "tests/fixtures/families";
  const WeightStore in_blocks(fixtures / "gpt_oss"), plain(fixtures / "gpt_oss_plain");
  const std::string expert = "model.layers.1.mlp.experts.4.";
  const WeightView blocks = in_blocks.find(expert + "gate_up_proj.weight");
  CHECK(blocks.shape == std::vector<std::uint64_t>{64, 32});  // [outputs, inputs]
  CHECK(blocks.blocks == BlockFormat::kMxfp4);
  CHECK(blocks.scales.size() == 64);
  CHECK(blocks.bytes.size() == 64 * 16);
  CHECK(plain.find(expert + "down_proj.weight").shape == std::vector<std::uint64_t>{32, 32});
  CHECK(plain.find(expert + "gate_up_proj.bias").shape == std::vector<std::uint64_t>{64});
  CHECK(in_blocks.tensors().size() == plain.tensors().size());  // scales are none of their own
}

}  // namespace troupe
