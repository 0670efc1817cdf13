// SPDX-License-Identifier: Apache-2.0
// An encoder on the CPU device: against BERT in f64, and bit for bit whatever else is
// in the batch.
#include "gpu/networks/bert.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <stdexcept>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "gpu/cpu/cpu_device.hpp"
#include "gpu/model/weights.hpp"
#include "tests/gpu/generation.hpp"
#include "tests/gpu/tiny_bert.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/gpu/bert_reference.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

constexpr std::uint32_t kMaxBatchTokens = 32 * 64;

struct Encoder {
  explicit Encoder(const std::filesystem::path& path, CpuModelSettings settings = {})
      : model(load(path, settings)),
        device(model, {.poison_memory = true}),
        programs(model->network, model->compute_type, model->largest) {}

  Vectors operator()(const std::vector<Text>& texts) { return encode(device, &programs, texts); }

  static std::shared_ptr<const CpuModel> load(const std::filesystem::path& path, CpuModelSettings settings) {
    if (settings.num_threads == 0) settings.num_threads = 2;
    settings.max_batch_tokens = kMaxBatchTokens;
    return load_cpu_model(plan_cpu_model(path, settings));
  }

  std::shared_ptr<const CpuModel> model;
  CpuDevice device;
  ProgramCache programs;
};

// The largest difference of a value, relative to the vector's length.
double distance(const std::vector<float>& vector, const std::vector<double>& expected) {
  double largest = 0.0, squares = 0.0;
  for (std::size_t i = 0; i < vector.size(); ++i) {
    REQUIRE(std::isfinite(vector[i]));
    largest = std::max(largest, std::abs(vector[i] - expected[i]));
    squares += expected[i] * expected[i];
  }
  return largest / std::sqrt(squares);
}

// Names every tensor of the file anew.
template <typename NewName>
void rename_tensors(const std::filesystem::path& path, const NewName& new_name) {
  const std::string file = test::file_text(path);
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), 8);
  const auto header = nlohmann::json::parse(file.substr(8, header_bytes));
  nlohmann::json renamed;
  for (const auto& [name, tensor] : header.items()) renamed[new_name(name)] = tensor;
  const std::string text = renamed.dump();
  const std::uint64_t size = text.size();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&size), 8);
  out << text << file.substr(8 + header_bytes);
  REQUIRE(out.flush());
}

}  // namespace

TEST_CASE("bert: programs use exactly the weights the network names, in their shapes") {
  const BertNetwork network(tiny_bert());
  for (const DataType type : {DataType::kF32, DataType::kBF16}) {
    const Program program = network.build_program(0, {8, 0}, type);
    std::set<std::string> named, used;
    for (const auto& spec : network.weights()) named.insert(spec.name);
    for (const auto& tensor : program.tensors) {
      if (tensor.role != TensorRole::kWeight) continue;
      used.insert(tensor.name);
      for (const auto& spec : network.weights()) {
        if (spec.name != tensor.name) continue;
        CHECK(tensor.fixed_rows == spec.rows);
        CHECK(tensor.columns == spec.columns);
      }
    }
    CHECK(named == used);
  }
}

TEST_CASE("bert: every temporary is written before it is read, and products get the compute type") {
  const BertNetwork network(tiny_bert());
  for (const DataType type : {DataType::kF32, DataType::kBF16}) {
    const Program program = network.build_program(0, {8, 0}, type);
    std::set<TensorId> written;
    for (const auto& op : program.operators) {
      for (const TensorId id : op.inputs)
        if (program.tensors[id].role == TensorRole::kTemporary) CHECK(written.count(id) == 1);
      written.insert(op.outputs.begin(), op.outputs.end());
      if (!std::holds_alternative<Matmul>(op.kind)) continue;
      CHECK(program.tensors[op.inputs[0]].type == type);
      CHECK(program.tensors[op.outputs[0]].type == DataType::kF32);
    }
    CHECK(program.operators.size() == 3 * 8 + 3);
  }
}

TEST_CASE("bert: its one cell keeps nothing and gives vectors; a decoder's configuration is refused") {
  const auto cells = BertNetwork(tiny_bert()).cells();
  REQUIRE(cells.size() == 1);
  CHECK(cells[0] == CellType{.name = "encoder_pass",
                             .state = StateKind::kNone,
                             .result = ResultKind::kVector,
                             .vector_size = 96});
  CHECK_THROWS_AS(BertNetwork(tiny_bert()).build_program(1, {1, 0}, DataType::kF32), std::runtime_error);
  CHECK_THROWS_AS(BertNetwork{llama_100m()}, std::runtime_error);
}

TEST_CASE("bert: texts of 1 to 64 tokens have the vectors of f64, alone and together") {
  for (const PoolingMode pooling : {PoolingMode::kMean, PoolingMode::kCls}) {
    for (const bool normalizes : {false, true}) {
      const TemporaryDirectory directory;
      ModelConfig config = tiny_bert();
      config.encoder->pooling = pooling;
      config.encoder->normalizes = normalizes;
      config.encoder->num_types = normalizes ? 2 : 1;
      write_random_bert(directory.path(), config, 2);
      const test::BertReference reference(directory.path());
      Encoder encoder(directory.path());
      auto texts = texts_of_every_length();
      texts.resize(63);  // 2016 tokens
      const Vectors vectors = encoder(texts);
      double worst = 0.0;
      for (std::size_t i = 0; i < texts.size(); ++i)
        worst = std::max(worst, distance(vectors[i], reference.vector_of(texts[i])));
      MESSAGE("largest difference " << worst);
      CHECK(worst < 2e-6);
      const Text longest = texts_of_every_length().back();
      CHECK(distance(encoder({longest})[0], reference.vector_of(longest)) < 2e-6);
    }
  }
}

TEST_CASE("bert: vectors of bf16 point where those of f64 do") {
  const test::BertReference reference(tiny_bert_directory());
  Encoder encoder(tiny_bert_directory(), {.compute_type = DataType::kBF16});
  const auto texts = random_texts(32, 5);
  const Vectors vectors = encoder(texts);
  double worst = 1.0;
  for (std::size_t i = 0; i < texts.size(); ++i)
    worst = std::min(worst, test::cosine(vectors[i], reference.vector_of(texts[i])));
  MESSAGE("smallest cosine " << worst);
  CHECK(worst > 0.9995);
  CHECK(worst < 1.0 - 1e-9);  // it is bf16
}

TEST_CASE("bert: alone or among 31 others, at any place, with 1 to 3 threads: the same bits") {
  for (const DataType type : {DataType::kF32, DataType::kBF16}) {
    Encoder first(tiny_bert_directory(), {.compute_type = type, .num_threads = 1});
    std::vector<Text> texts = random_texts(32, 11);
    Vectors alone;
    for (const Text& text : texts) alone.push_back(first({text}).front());
    for (const unsigned num_threads : {1U, 2U, 3U}) {
      Encoder encoder(tiny_bert_directory(), {.compute_type = type, .num_threads = num_threads});
      for (int turn = 0; turn < 4; ++turn) {
        CHECK(encoder(texts) == alone);
        std::rotate(texts.begin(), texts.begin() + 9, texts.end());
        std::rotate(alone.begin(), alone.begin() + 9, alone.end());
      }
    }
  }
}

TEST_CASE("bert: what is behind another text's end is not seen") {
  Encoder encoder(tiny_bert_directory());
  const auto texts = random_texts(3, 12);
  const auto others = random_texts(3, 13);
  CHECK(encoder({texts[0], texts[1], texts[2]})[1] == encoder({others[0], texts[1], others[2]})[1]);
  CHECK(encoder({texts[0]}) != encoder({others[0]}));
}

TEST_CASE("bert: f32 without being asked, no pages, and sequences as long as a batch at most") {
  const auto plan = plan_cpu_model(tiny_bert_directory(), {.num_threads = 1, .max_batch_tokens = 40});
  CHECK(plan.compute_type == DataType::kF32);
  CHECK(plan.memory.num_pages == 0);
  CHECK(plan.memory.kv_bytes == 0);
  CHECK(plan.memory.request.table_bytes == 0);
  CHECK(plan.memory.total_bytes == plan.memory.request.weight_bytes + plan.memory.request.arena_bytes +
                                       plan.memory.request.workspace_bytes);
  CHECK(plan.settings.context_length == 40);
  CpuDevice device(load_cpu_model(plan));
  CHECK(device.description().num_pages == 0);
  CHECK(device.description().page_size == 32);
  CHECK(device.description().context_length == 40);
  CHECK(device.description().cells == BertNetwork(tiny_bert()).cells());
}

TEST_CASE("bert: weights are not quantized, beside a decoder's that are") {
  const auto texts = random_texts(2, 14);
  const auto plan = plan_cpu_model(tiny_bert_directory(), {.quantization = Quantization::kQ4});
  CHECK(plan.settings.quantization == Quantization::kNone);
  CHECK(Encoder(tiny_bert_directory(), {.quantization = Quantization::kQ4})(texts) ==
        Encoder(tiny_bert_directory())(texts));
}

TEST_CASE("bert: a batch that can't be fails alone") {
  Encoder encoder(tiny_bert_directory());
  const auto expected = encoder({{1, 2, 3}});
  Batch batch = batch_of({{1, 2, 3}, Text(65, 1)});
  const auto program = encoder.programs.find(0, 68, 0);
  const auto run = [&](const Batch& bad) {
    return wait_for(encoder.device, encoder.device.submit(program, std::make_shared<const Batch>(bad)));
  };
  CHECK(run(batch).error == "sequence 1: 65 tokens, at most 64 are possible");
  CHECK(run(batch).vectors.empty());
  batch = batch_of({{1, 2, 211}});
  CHECK(run(batch).error.find("outside the vocabulary of 211") != std::string::npos);
  batch = batch_of({{1, 2}});
  batch.copies = {{.direction = PageCopy::kWithin, .device_page = 0, .from_page = 0}};
  CHECK(run(batch).error.find("there are none such") != std::string::npos);
  CHECK(encoder({{1, 2, 3}}) == expected);
}

TEST_CASE("bert: tensors may have bert. in front of their names") {
  const TemporaryDirectory directory;
  write_random_bert(directory.path(), tiny_bert(), 1);
  rename_tensors(directory.path() / "model.safetensors",
                 [](const std::string& name) { return "bert." + name; });
  const WeightStore store(directory.path());
  REQUIRE(store.has("bert.encoder.layer.2.output.dense.bias"));
  REQUIRE_FALSE(store.has("encoder.layer.2.output.dense.bias"));
  Encoder plain(tiny_bert_directory()), prefixed(directory.path());
  const auto texts = random_texts(3, 4);
  CHECK(prefixed(texts) == plain(texts));
  ModelConfig smaller = tiny_bert();
  smaller.num_layers = 2;
  CHECK_THROWS_WITH_AS(check_weights(store, BertNetwork(smaller)),
                       "the configuration says num_hidden_layers 2, but the weights have 3 layers",
                       std::runtime_error);
}

TEST_CASE("bert: norms may have the names that early checkpoints give them") {
  const TemporaryDirectory directory;
  write_random_bert(directory.path(), tiny_bert(), 1);
  rename_tensors(directory.path() / "model.safetensors", [](const std::string& name) {
    if (const auto at = name.find("LayerNorm.weight"); at != std::string::npos)
      return name.substr(0, at) + "LayerNorm.gamma";
    if (const auto at = name.find("LayerNorm.bias"); at != std::string::npos)
      return name.substr(0, at) + "LayerNorm.beta";
    return name;
  });
  Encoder plain(tiny_bert_directory()), renamed(directory.path());
  const auto texts = random_texts(3, 4);
  CHECK(renamed(texts) == plain(texts));
}

TEST_CASE("bert: layers that config.json does not know are refused") {
  const TemporaryDirectory directory;
  write_random_bert(directory.path(), tiny_bert(), 1);
  ModelConfig smaller = tiny_bert();
  smaller.num_layers = 2;
  const WeightStore store(directory.path());
  CHECK_NOTHROW(check_weights(store, BertNetwork(tiny_bert())));
  CHECK_THROWS_WITH_AS(check_weights(store, BertNetwork(smaller)),
                       "the configuration says num_hidden_layers 2, but the weights have 3 layers",
                       std::runtime_error);
}

}  // namespace troupe
