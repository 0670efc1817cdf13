// SPDX-License-Identifier: Apache-2.0
// Encoders of every family on the CPU device: the numbers of transformers in f64, and the
// same bits alone and in company.
#include "gpu/networks/encoder_names.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/cpu/cpu_device.hpp"
#include "gpu/model/weights.hpp"
#include "tests/gpu/generation.hpp"
#include "tests/gpu/tiny_bert.hpp"
#include "tests/support/gpu/bert_reference.hpp"
#include "tests/support/gpu/encoder_fixture.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

// The batch's texts, with their second ones. is_padded: to the longest.
Vectors encode_pairs(const std::filesystem::path& path, const std::vector<test::EncoderResult>& texts,
                     DataType type, unsigned num_threads, bool is_padded = false) {
  std::vector<Text> tokens;
  std::size_t longest = 0;
  for (const auto& text : texts) longest = std::max(longest, text.tokens.size());
  for (const auto& text : texts) {
    tokens.push_back(text.tokens);
    if (is_padded) tokens.back().resize(longest, 1);
  }
  Batch batch = batch_of(tokens);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    batch.slices[i].second_text = texts[i].second_text;
    batch.slices[i].num_padding = static_cast<std::uint32_t>(tokens[i].size() - texts[i].tokens.size());
  }
  const auto model = load_cpu_model(
      plan_cpu_model(path, {.compute_type = type, .num_threads = num_threads, .max_batch_tokens = 256}));
  CpuDevice device(model, {.poison_memory = true});
  ProgramCache programs(model->network, model->compute_type, model->largest);
  const auto program = programs.find(0, batch.num_tokens(), 0);
  const BatchResult result =
      wait_for(device, device.submit(program, std::make_shared<const Batch>(std::move(batch))));
  REQUIRE(result.error == "");
  const std::size_t width = device.description().cells.at(0).vector_size;
  REQUIRE(result.vectors.size() == texts.size() * width);
  Vectors vectors;
  for (std::size_t i = 0; i < texts.size(); ++i)
    vectors.emplace_back(result.vectors.begin() + static_cast<std::ptrdiff_t>(i * width),
                         result.vectors.begin() + static_cast<std::ptrdiff_t>((i + 1) * width));
  return vectors;
}

// The largest difference of a value, relative to the vector's length.
double distance(const std::vector<float>& vector, const std::vector<double>& expected) {
  REQUIRE(vector.size() == expected.size());
  double largest = 0.0, squares = 0.0;
  for (std::size_t i = 0; i < vector.size(); ++i) {
    REQUIRE(std::isfinite(vector[i]));
    largest = std::max(largest, std::abs(vector[i] - expected[i]));
    squares += expected[i] * expected[i];
  }
  return largest / std::sqrt(squares);
}

}  // namespace

TEST_CASE("encoders: every family and head has the numbers of transformers") {
  std::set<std::string> seen;
  for (const auto& fixture : test::read_encoder_fixtures()) {
    CAPTURE(fixture.architecture());
    CAPTURE(fixture.pooling);
    seen.insert(fixture.architecture());
    const test::TemporaryDirectory directory;
    fixture.write(directory.path());
    check_weights(WeightStore(directory.path()), *load_network(directory.path()));
    const Vectors exact = encode_pairs(directory.path(), fixture.results, DataType::kF32, 2);
    const Vectors rounded = encode_pairs(directory.path(), fixture.results, DataType::kBF16, 2);
    for (std::size_t i = 0; i < fixture.results.size(); ++i) {
      CAPTURE(i);
      CHECK(distance(exact[i], fixture.results[i].vector) < 1e-5);
      CHECK(distance(rounded[i], fixture.results[i].vector) < 0.05);
      CHECK(distance(rounded[i], fixture.results[i].vector) > 1e-7);  // it is bf16
      if (exact[i].size() > 1) CHECK(test::cosine(exact[i], fixture.results[i].vector) > 1 - 1e-9);
    }
  }
  CHECK(seen.size() == 10);
}

TEST_CASE("encoders: alone or in company, with 1 to 3 threads: the same bits") {
  for (const auto& fixture : test::read_encoder_fixtures()) {
    CAPTURE(fixture.architecture());
    const test::TemporaryDirectory directory;
    fixture.write(directory.path());
    for (const DataType type : {DataType::kF32, DataType::kBF16}) {
      Vectors alone;
      for (const auto& text : fixture.results)
        alone.push_back(encode_pairs(directory.path(), {text}, type, 1).front());
      std::vector<test::EncoderResult> many;
      Vectors expected;
      for (std::size_t i = 0; i < 20; ++i) {  // more rows than a product of few takes
        many.push_back(fixture.results[i * 3 % fixture.results.size()]);
        expected.push_back(alone[i * 3 % alone.size()]);
      }
      for (const unsigned num_threads : {1U, 2U, 3U})
        CHECK(encode_pairs(directory.path(), many, type, num_threads) == expected);
    }
  }
}

TEST_CASE("encoders: a second text matters where there are token types, and only there") {
  std::map<std::string, bool> matters;
  for (const auto& fixture : test::read_encoder_fixtures()) {
    const test::TemporaryDirectory directory;
    fixture.write(directory.path());
    test::EncoderResult text = fixture.results[2];
    REQUIRE(text.second_text > 0);
    const auto with = encode_pairs(directory.path(), {text}, DataType::kF32, 1);
    text.second_text = 0;
    matters[fixture.architecture()] = with != encode_pairs(directory.path(), {text}, DataType::kF32, 1);
  }
  CHECK(matters.at("BertForSequenceClassification"));
  CHECK(matters.at("AlbertForSequenceClassification"));
  CHECK_FALSE(matters.at("RobertaForSequenceClassification"));
  CHECK_FALSE(matters.at("DistilBertForSequenceClassification"));
}

TEST_CASE("encoders: programs use exactly the weights the network names, in their shapes") {
  for (const auto& fixture : test::read_encoder_fixtures()) {
    CAPTURE(fixture.architecture());
    const test::TemporaryDirectory directory;
    fixture.write(directory.path());
    const auto network = load_network(directory.path());
    for (const DataType type : {DataType::kF32, DataType::kBF16}) {
      std::set<std::tuple<std::string, std::uint32_t, std::uint32_t>> named, used;
      for (const auto& spec : network->weights()) named.insert({spec.name, spec.rows, spec.columns});
      for (const auto& tensor : network->build_program(0, {8, 0}, type).tensors)
        if (tensor.role == TensorRole::kWeight) used.insert({tensor.name, tensor.fixed_rows, tensor.columns});
      CHECK(named == used);
    }
  }
}

TEST_CASE("encoders: texts that are padded to the longest have the bits that they have without") {
  for (const auto& fixture : test::read_encoder_fixtures()) {
    CAPTURE(fixture.architecture());
    const test::TemporaryDirectory directory;
    fixture.write(directory.path());
    for (const DataType type : {DataType::kF32, DataType::kBF16})
      CHECK(encode_pairs(directory.path(), fixture.results, type, 2, true) ==
            encode_pairs(directory.path(), fixture.results, type, 2));
  }
}

TEST_CASE("encoders: a second text that begins behind the end fails the batch") {
  const auto model = load_cpu_model(plan_cpu_model(tiny_bert_directory(), {.num_threads = 1}));
  CpuDevice device(model);
  ProgramCache programs(model->network, model->compute_type, model->largest);
  Batch batch = batch_of({{1, 2, 3}});
  batch.slices[0].second_text = 3;
  const auto result = wait_for(
      device, device.submit(programs.find(0, 3, 0), std::make_shared<const Batch>(std::move(batch))));
  CHECK(result.error == "sequence 0: a second text from token 3 on, but it has 3");
}

}  // namespace troupe
