// SPDX-License-Identifier: Apache-2.0
// Networks of recurrent cells on the CUDA device: what PyTorch computes with the same weights.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cell_fixture.hpp"
#include "cuda_model.hpp"
#include "generation.hpp"
#include "graph_runner.hpp"

namespace troupe {
namespace {

constexpr double kAllowed = 4e-6;

BackendSettings cell_settings(const CellFixture& fixture) {
  BackendSettings settings;
  settings.model_dir = fixture.directory;
  settings.num_slots = 48;
  settings.max_batch_tokens = 96;
  return settings;
}

// A loaded network and its device, with graphs unless logits are captured.
class CudaCells {
 public:
  explicit CudaCells(const std::string& name, DataType type = DataType::kF32,
                     CapturedLogits* logits = nullptr)
      : fixture_(name),
        model_(std::make_shared<const cuda::CudaModel>(plan_of(fixture_, type), news_)),
        device_(model_, {.on_logits = logits ? capture_logits(*logits) : LogitsHook()}),
        programs_(model_->plan.network, model_->plan.compute_type, model_->plan.largest) {}

  const CellFixture& fixture() const { return fixture_; }
  cuda::CudaDevice& device() { return device_; }
  ProgramCache& programs() { return programs_; }
  std::vector<GraphRequest> requests() const { return fixture_.requests(*model_->plan.network); }
  std::vector<GraphAnswer> answers(const GraphRunSettings& settings = {}) {
    return run_graphs(device_, programs_, requests(), settings);
  }

 private:
  static cuda::CudaModelPlan plan_of(const CellFixture& fixture, DataType type) {
    BackendSettings settings = cell_settings(fixture);
    settings.compute_type = type;
    return cuda::plan_cuda_model(settings);
  }

  GpuRuntime runtime_;
  CellFixture fixture_;
  std::string news_;
  std::shared_ptr<const cuda::CudaModel> model_;
  cuda::CudaDevice device_;
  ProgramCache programs_;
};

std::vector<std::int32_t> greedy_of(const CellFixture& fixture, std::size_t example) {
  return fixture.reference.at(example).at("greedy").get<std::vector<std::int32_t>>();
}

}  // namespace

TEST_CASE(
    "cuda cells: an LSTM, a GRU and both from sequence to sequence draw PyTorch's tokens from its logits") {
  for (const char* name : kChainFixtures) {
    CAPTURE(name);
    CapturedLogits logits;
    CudaCells cells(name, DataType::kF32, &logits);
    const auto answers = cells.answers();
    for (std::size_t i = 0; i < answers.size(); ++i) {
      CHECK(answers[i].tokens == greedy_of(cells.fixture(), i));
      CHECK(largest_difference(logits.at(i).front(), cells.fixture().numbers(i)) < kAllowed);
    }
  }
}

TEST_CASE("cuda cells: every node of a tree has PyTorch's logits") {
  for (const char* name : kTreeFixtures) {
    CAPTURE(name);
    CudaCells cells(name);
    const auto answers = cells.answers();
    for (std::size_t i = 0; i < answers.size(); ++i)
      CHECK(largest_difference(answers[i].vectors, cells.fixture().numbers(i)) < kAllowed);
  }
}

TEST_CASE("cuda cells: company, rows, graphs and batches in flight change no token") {
  for (const char* name : {"lstm", "gru_dot_seq2seq", "lstm_additive_seq2seq", "child_sum_tree"}) {
    CAPTURE(name);
    CudaCells cells(name);
    for (std::uint32_t seed = 1; seed <= 3; ++seed) {
      CAPTURE(seed);
      set_stream_order(seed);
      const auto answers = cells.answers({.seed = seed, .shuffle = true, .in_flight = seed});
      for (std::size_t i = 0; i < answers.size(); ++i) {
        if (answers[i].vectors.empty()) {
          CHECK(answers[i].tokens == greedy_of(cells.fixture(), i));
        } else {
          CHECK(largest_difference(answers[i].vectors, cells.fixture().numbers(i)) < kAllowed);
        }
      }
    }
    set_stream_order(0);
    CHECK(cells.device().num_graphs() > 0);
  }
}

TEST_CASE("cuda cells: products in 16 bits stay close to PyTorch's logits") {
  for (const auto& [type, allowed] : {std::pair{DataType::kBF16, 0.1}, std::pair{DataType::kF16, 0.01}}) {
    for (const char* name : {"lstm", "gru_additive_seq2seq", "lstm_attention_seq2seq"}) {
      CAPTURE(name);
      CapturedLogits logits;
      CudaCells cells(name, type, &logits);
      (void)cells.answers();
      const double difference = largest_difference(logits.at(1).front(), cells.fixture().numbers(1));
      CHECK(difference > 1e-6);  // products were rounded
      CHECK(difference < allowed);
    }
    for (const char* name : kTreeFixtures) {
      CAPTURE(name);
      CudaCells cells(name, type);
      const double difference = largest_difference(cells.answers()[2].vectors, cells.fixture().numbers(2));
      CHECK(difference > 1e-6);
      CHECK(difference < allowed);
    }
  }
}

TEST_CASE("cuda cells: slots are rows of state, no pages, and f32 without being asked") {
  const CellFixture fixture("lstm_additive_seq2seq");
  const GpuRuntime runtime;
  const auto plan = cuda::plan_cuda_model(cell_settings(fixture));
  CHECK(plan.compute_type == DataType::kF32);
  CHECK(plan.settings.num_slots == 48 * 64);  // a decoder that attends has one for each token of its source
  CHECK(plan.memory.num_pages == 0);
  CHECK(plan.memory.request.table_bytes == 0);
  CHECK(plan.memory.request.graph_bytes > 0);
  CHECK(plan.state_bytes() == (48 * 64 + 1) * (2 * 2 + 1) * 20 * sizeof(float));
  CHECK(plan.context_length == 65536);
}

TEST_CASE("cuda cells: a batch's time is its own, of cells that read no token, too") {
  CudaCells cells("binary_tree");
  const auto nanoseconds_of = [&](CellId cell, SlotId row, std::vector<SlotId> inputs) {
    auto batch = std::make_shared<Batch>();
    batch->cell = cell;
    batch->slices.push_back({.slot = row,
                             .num_tokens = 1,
                             .sampling = {},
                             .suppressed = {},
                             .num_inputs = static_cast<std::uint32_t>(inputs.size())});
    batch->token_ids = {1};
    batch->input_rows = std::move(inputs);
    const auto result =
        wait_for(cells.device(), cells.device().submit(cells.programs().find(cell, 1, 0), batch));
    REQUIRE(result.error == "");
    return result.network_nanoseconds;
  };
  (void)nanoseconds_of(0, 0, {});
  (void)nanoseconds_of(0, 1, {});
  constexpr std::chrono::milliseconds kPause(300);
  std::this_thread::sleep_for(kPause);
  const auto of_inner = nanoseconds_of(1, 2, {0, 1});
  CHECK(of_inner > 0);
  CHECK(std::chrono::nanoseconds(of_inner) < kPause);
}

TEST_CASE("cuda cells: a batch that can't be fails alone") {
  CudaCells cells("lstm");
  auto batch = std::make_shared<Batch>();
  for (const SlotId row : {0U, 1U}) {
    SequenceSlice& slice = batch->slices.emplace_back();
    slice.slot = row;
    slice.num_tokens = 1;
    slice.first_input = row;
    slice.num_inputs = 1;
    batch->token_ids.push_back(1);
  }
  batch->input_rows = {0, 0};  // written by the first, read by the second
  const BatchResult failed =
      wait_for(cells.device(), cells.device().submit(cells.programs().find(0, 2, 0), batch));
  CHECK(failed.error.find("row 0 is written in the same batch") != std::string::npos);
  CHECK(cells.answers()[0].tokens == greedy_of(cells.fixture(), 0));
}

}  // namespace troupe
