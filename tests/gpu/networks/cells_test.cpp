// SPDX-License-Identifier: Apache-2.0
// Networks of recurrent cells on the CPU device: what PyTorch computes with the same weights
// (scripts/cells/make_reference), and the same bits alone and among others.
#include <string>

#include <doctest/doctest.h>

#include "cell_fixture.hpp"
#include "generation.hpp"
#include "gpu/cpu/cpu_model.hpp"
#include "graph_runner.hpp"

namespace troupe {
namespace {

// A model with its device and what PyTorch says of it.
struct Cells {
  explicit Cells(const std::string& name, unsigned num_threads = 2, CapturedLogits* logits = nullptr)
      : fixture(name),
        model(load_cpu_model(plan_cpu_model(
            fixture.directory, {.num_threads = num_threads, .num_slots = 48, .max_batch_tokens = 96}))),
        device(model, {.on_logits = logits ? capture_logits(*logits) : LogitsHook(), .poison_memory = true}),
        programs(model->network, model->compute_type, model->largest) {}

  std::vector<GraphRequest> requests() const { return fixture.requests(*model->network); }
  GraphAnswer alone(const GraphRequest& request) { return run_graphs(device, programs, {request}).front(); }

  CellFixture fixture;
  std::shared_ptr<const CpuModel> model;
  CpuDevice device;
  ProgramCache programs;
};

}  // namespace

TEST_CASE("cells: an LSTM, a GRU and both from sequence to sequence draw PyTorch's tokens from its logits") {
  for (const char* name : kChainFixtures) {
    CAPTURE(name);
    CapturedLogits logits;
    Cells cells(name, 2, &logits);
    const auto answers = run_graphs(cells.device, cells.programs, cells.requests());
    for (std::size_t i = 0; i < answers.size(); ++i) {
      CHECK(answers[i].tokens == cells.fixture.reference[i].at("greedy").get<std::vector<std::int32_t>>());
      CHECK(largest_difference(logits.at(i).front(), cells.fixture.numbers(i)) < 2e-6);
    }
  }
}

TEST_CASE("cells: every node of a tree has PyTorch's logits") {
  for (const char* name : kTreeFixtures) {
    CAPTURE(name);
    Cells cells(name);
    const auto answers = run_graphs(cells.device, cells.programs, cells.requests());
    for (std::size_t i = 0; i < answers.size(); ++i)
      CHECK(largest_difference(answers[i].vectors, cells.fixture.numbers(i)) < 2e-6);
  }
}

TEST_CASE("cells: company, rows, batches in flight and threads change no bit") {
  for (const char* name : {"lstm", "lstm_attention_seq2seq", "gru_seq2seq", "gru_dot_seq2seq",
                           "lstm_additive_seq2seq", "binary_tree", "child_sum_tree"}) {
    CAPTURE(name);
    Cells single(name, 1), cells(name, 2);
    auto requests = cells.requests();
    for (std::size_t i = 0; i < requests.size(); ++i)
      requests[i].sampling = {.temperature = 1.0F, .seed = 7 + i};
    std::vector<GraphAnswer> alone;
    for (const GraphRequest& request : requests) alone.push_back(single.alone(request));
    for (std::uint32_t seed = 1; seed <= 4; ++seed) {
      CAPTURE(seed);
      const auto together = run_graphs(cells.device, cells.programs, requests,
                                       {.seed = seed, .shuffle = true, .in_flight = 1 + seed % 3});
      for (std::size_t i = 0; i < requests.size(); ++i) {
        CHECK(together[i].tokens == alone[i].tokens);
        CHECK(together[i].vectors == alone[i].vectors);
      }
    }
  }
}

TEST_CASE("cells: a chain with a branch, and a graph of one's own, are what their chains are alone") {
  Cells cells("lstm");
  // The branch reads the state behind the chain's third token, whose row the chain leaves alone.
  auto branched = std::make_shared<CellGraph>();
  std::vector<CellGraph::NodeIndex> chain;
  for (const std::int32_t token : {3, 1, 4})
    chain.push_back(branched->add({.cell = 0, .token = token}, std::span(chain).last(chain.empty() ? 0 : 1)));
  branched->add({.cell = 0, .token = 9}, {chain.back()});
  branched->add({.cell = 0, .token = 5}, {chain.back()});
  branched->grow({.cell = 0, .read = {}});
  branched->finish();
  CHECK(branched->num_rows() == 3);
  const auto straight =
      std::make_shared<const CellGraph>(unfold_chain(std::vector<std::int32_t>{3, 1, 4, 5}));
  const auto drawn = [&](std::shared_ptr<const CellGraph> graph) {
    return cells.alone({.graph = std::move(graph), .num_prompt = 4, .num_new = 12}).tokens;
  };
  CHECK(drawn(branched) == drawn(straight));
}

TEST_CASE("cells: bf16 products stay close to PyTorch's logits") {
  const CellFixture fixture("child_sum_tree");
  const auto model = load_cpu_model(plan_cpu_model(
      fixture.directory,
      {.compute_type = DataType::kBF16, .num_threads = 1, .num_slots = 48, .max_batch_tokens = 96}));
  CpuDevice device(model);
  ProgramCache programs(model->network, model->compute_type, model->largest);
  const auto answer = run_graphs(device, programs, {fixture.requests(*model->network)[2]}).front();
  const double difference = largest_difference(answer.vectors, fixture.numbers(2));
  CHECK(difference > 1e-6);  // products were rounded
  CHECK(difference < 0.1);
}

}  // namespace troupe
