// SPDX-License-Identifier: Apache-2.0
// Encoders of every family on the CUDA device: the numbers of transformers in f64.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cuda_model.hpp"
#include "generation.hpp"
#include "tests/support/gpu/encoder_fixture.hpp"
#include "tests/support/source_file.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

BackendSettings encoder_settings(const std::filesystem::path& model_dir, DataType type) {
  BackendSettings settings;
  settings.model_dir = model_dir;
  settings.compute_type = type;
  settings.max_batch_tokens = 128;
  return settings;
}

// A loaded encoder and its device.
class CudaEncoder {
 public:
  CudaEncoder(const std::filesystem::path& model_dir, DataType type)
      : model_(std::make_shared<const cuda::CudaModel>(
            cuda::plan_cuda_model(encoder_settings(model_dir, type)), news_)),
        device_(model_),
        programs_(model_->plan.network, model_->plan.compute_type, model_->plan.largest) {}

  const cuda::CudaModelPlan& plan() const { return model_->plan; }
  const DeviceDescription& description() const { return device_.description(); }

  Ticket submit(const std::vector<test::EncoderResult>& texts) {
    auto batch = std::make_shared<Batch>();
    for (const auto& text : texts) {
      SequenceSlice& slice = batch->slices.emplace_back();
      slice.sequence = batch->slices.size();
      slice.num_tokens = static_cast<std::uint32_t>(text.tokens.size());
      slice.second_text = text.second_text;
      batch->token_ids.insert(batch->token_ids.end(), text.tokens.begin(), text.tokens.end());
    }
    return device_.submit(programs_.find(0, batch->num_tokens(), 0), batch);
  }
  BatchResult wait(Ticket ticket) { return wait_for(device_, ticket); }

  // A vector a text.
  std::vector<std::vector<float>> operator()(const std::vector<test::EncoderResult>& texts) {
    return vectors_of(wait(submit(texts)), texts.size());
  }
  std::vector<std::vector<float>> vectors_of(const BatchResult& result, std::size_t num_texts) const {
    REQUIRE(result.error == "");
    CHECK(result.tokens == std::vector<std::int32_t>(num_texts, -1));
    CHECK(result.network_nanoseconds > 0);
    const std::size_t width = model_->plan.cell.vector_size;
    REQUIRE(result.vectors.size() == num_texts * width);
    std::vector<std::vector<float>> vectors;
    for (std::size_t i = 0; i < num_texts; ++i)
      vectors.emplace_back(result.vectors.begin() + static_cast<std::ptrdiff_t>(i * width),
                           result.vectors.begin() + static_cast<std::ptrdiff_t>((i + 1) * width));
    return vectors;
  }

 private:
  GpuRuntime runtime_;
  std::string news_;
  std::shared_ptr<const cuda::CudaModel> model_;
  cuda::CudaDevice device_;
  ProgramCache programs_;
};

double length_of(const std::vector<double>& vector) {
  double squares = 0.0;
  for (const double value : vector) squares += value * value;
  return std::sqrt(squares);
}

// The largest difference of a value, relative to the length of the longest vector: a lone
// score may be near 0.
double worst_of(const std::vector<std::vector<float>>& vectors,
                const std::vector<test::EncoderResult>& expected) {
  REQUIRE(vectors.size() == expected.size());
  double largest = 0.0, longest = 0.0;
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    REQUIRE(vectors[i].size() == expected[i].vector.size());
    longest = std::max(longest, length_of(expected[i].vector));
    for (std::size_t j = 0; j < vectors[i].size(); ++j) {
      REQUIRE(std::isfinite(vectors[i][j]));
      largest = std::max(largest, std::abs(vectors[i][j] - expected[i].vector[j]));
    }
  }
  return largest / longest;
}

constexpr double kF32Error = 2e-5;  // products round nothing on the way: TF32 would be 100 times as far
constexpr double kF16Error = 5e-3;

}  // namespace

// One type a family: every kernel has its test in each type (tests/gpu/operators).
TEST_CASE("cuda encoders: a program that was carried elsewhere reads the fixtures of the current directory") {
  const test::TemporaryDirectory carried;
  std::filesystem::create_directories(carried.path() / "tests/fixtures");
  const auto fixtures = carried.write("tests/fixtures/encoders.json", "[]");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(carried.path());
  const auto found = test::source_file("tests/fixtures/encoders.json", "/nowhere");
  std::filesystem::current_path(before);
  CHECK(std::filesystem::equivalent(found, fixtures));
  const auto built = std::filesystem::path(TROUPE_SOURCE_DIR) / "tests/fixtures/encoders.json";
  if (std::filesystem::exists(built)) CHECK(test::source_file("tests/fixtures/encoders.json") == built);
}

TEST_CASE("cuda device: encoders of every family and head have the numbers of transformers") {
  constexpr std::pair<DataType, double> kTypes[] = {
      {DataType::kF32, kF32Error}, {DataType::kBF16, 0.05}, {DataType::kF16, kF16Error}};
  std::size_t number = 0;
  for (const auto& fixture : test::read_encoder_fixtures()) {
    CAPTURE(fixture.architecture());
    CAPTURE(fixture.pooling);
    const test::TemporaryDirectory directory;
    fixture.write(directory.path());
    const auto& [type, allowed] = kTypes[number++ % std::size(kTypes)];
    CudaEncoder encoder(directory.path(), type);
    const std::vector texts = {fixture.results[0], fixture.results[2]};  // the latter is a pair
    CHECK(worst_of(encoder(texts), texts) < allowed);
  }
}

TEST_CASE("cuda device: an encoder's batches in flight do not mix their vectors, in whatever order") {
  const auto fixture = test::read_encoder_fixtures().front();
  const test::TemporaryDirectory directory;
  fixture.write(directory.path());
  for (const std::uint32_t order : {0U, 1U, 2U}) {
    set_stream_order(order);
    CudaEncoder encoder(directory.path(), DataType::kF32);
    std::vector<Ticket> tickets;
    for (std::size_t i = 0; i < 5; ++i)
      tickets.push_back(encoder.submit({fixture.results[i % fixture.results.size()]}));
    for (std::size_t i = 0; i < tickets.size(); ++i) {
      const auto vectors = encoder.vectors_of(encoder.wait(tickets[i]), 1);
      CHECK(worst_of(vectors, {fixture.results[i % fixture.results.size()]}) < kF32Error);
    }
  }
  set_stream_order(0);
}

TEST_CASE("cuda device: an encoder has no pages, and f32 without being asked") {
  const auto fixture = test::read_encoder_fixtures().front();
  const test::TemporaryDirectory directory;
  fixture.write(directory.path());
  BackendSettings settings = encoder_settings(directory.path(), DataType::kF32);
  settings.compute_type.reset();
  settings.max_batch_tokens = 16;
  const GpuRuntime runtime;
  const auto plan = cuda::plan_cuda_model(settings);
  CHECK(plan.compute_type == DataType::kF32);
  CHECK(plan.context_length == 16);  // a sequence is in one batch as a whole
  CHECK(plan.memory.num_pages == 0);
  CHECK(plan.memory.kv_bytes == 0);
  CHECK(plan.memory.request.table_bytes == 0);
  CHECK(plan.memory.request.graph_bytes == 0);
  CHECK(plan.layout().num_pages == 0);
}

TEST_CASE("cuda device: an encoder's batch that can't be fails alone") {
  const auto fixture = test::read_encoder_fixtures().front();
  const test::TemporaryDirectory directory;
  fixture.write(directory.path());
  CudaEncoder encoder(directory.path(), DataType::kF32);
  CHECK(encoder.description().num_pages == 0);
  test::EncoderResult bad = fixture.results[0];
  bad.tokens[0] = 1 << 20;
  const BatchResult failed = encoder.wait(encoder.submit({bad}));
  CHECK(failed.error.find("outside the vocabulary") != std::string::npos);
  CHECK(failed.vectors.empty());
  CHECK(worst_of(encoder({fixture.results[0]}), {fixture.results[0]}) < kF32Error);
}

}  // namespace troupe
