// SPDX-License-Identifier: Apache-2.0
#include "gpu/program/early_gather.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/cpu/arena.hpp"
#include "gpu/model/random_model.hpp"
#include "gpu/networks/network.hpp"
#include "gpu/program/planner.hpp"
#include "tests/gpu/generation.hpp"
#include "tests/gpu/tiny_model.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

// Products of the program by whose rows they compute.
struct Products {
  std::vector<std::string> of_tokens, of_output_rows;
};

Products products_of(const Program& program) {
  Products products;
  for (const Operator& op : program.operators) {
    if (!std::holds_alternative<Matmul>(op.kind)) continue;
    auto& names = program.tensors[op.outputs.at(0)].rows == RowCount::kOutputRows ? products.of_output_rows
                                                                                  : products.of_tokens;
    names.push_back(program.tensors[op.inputs.at(1)].name);
  }
  return products;
}

std::uint32_t gather_of(const Program& program) {
  const auto gather =
      std::find_if(program.operators.begin(), program.operators.end(),
                   [](const Operator& op) { return std::holds_alternative<GatherRows>(op.kind); });
  return static_cast<std::uint32_t>(gather - program.operators.begin());
}

// The same program with its state behind the last layer, in front of which nothing is gathered.
Program kept_late(Program program) {
  program.state->num_operators = gather_of(program);
  return program;
}

// Of the last tokens of a prompt and of a short one beside it.
CapturedLogits logits_of(const std::shared_ptr<const CpuModel>& model, const Program& program) {
  Batch batch = good_batch();
  batch.token_ids.insert(batch.token_ids.begin(), 40, 7);
  batch.page_table = {0, 1, 2};
  batch.slices.front().num_tokens = 40;
  batch.slices.push_back(batch.slices.front());
  batch.slices.back() = {.sequence = 43,
                         .slot = 1,
                         .num_tokens = 3,
                         .first_page = 2,
                         .num_pages = 1,
                         .sample = true,
                         .sampling = {.temperature = 0.0F},
                         .suppressed = {}};
  CapturedLogits captured;
  CpuDevice device(model, {.on_logits = capture_logits(captured), .poison_memory = true});
  wait_for(device,
           device.submit(std::make_shared<const Program>(program), std::make_shared<const Batch>(batch)));
  return captured;
}

// Operands of an operator have equally many rows, but for what gathers them.
void check_rows(const Program& program) {
  for (const Operator& op : program.operators) {
    std::vector<RowCount> rows;
    for (const auto* operands : {&op.inputs, &op.outputs})
      for (const TensorId id : *operands)
        if (program.tensors.at(id).role == TensorRole::kTemporary) rows.push_back(program.tensors[id].rows);
    if (std::holds_alternative<GatherRows>(op.kind)) {
      REQUIRE(rows == std::vector{RowCount::kTokens, RowCount::kOutputRows});
    } else {
      CHECK(std::count(rows.begin(), rows.end(), rows.front()) == static_cast<std::ptrdiff_t>(rows.size()));
    }
  }
}

}  // namespace

TEST_CASE("early gather: behind a Llama's last attention only sampled rows are computed") {
  const auto network = make_network(llama_100m());
  const std::string last = "model.layers." + std::to_string(network->num_layers() - 1) + ".";
  for (const DataType type : {DataType::kF32, DataType::kBF16}) {
    CAPTURE(name_of(type));
    const Program program = network->build_program(0, {64, 4}, type);
    const Program early = gathered_early(program);
    check_rows(early);
    const Products before = products_of(program), after = products_of(early);
    CHECK(before.of_output_rows == std::vector<std::string>{"lm_head"});
    CHECK(after.of_tokens.size() + after.of_output_rows.size() == before.of_tokens.size() + 1);
    CHECK(after.of_output_rows ==
          std::vector<std::string>{last + "o", last + "gate_up", last + "down", "lm_head"});
    REQUIRE(early.state);
    CHECK(early.state->num_operators == program.state->num_operators);
    CHECK(early.state->tensor == program.state->tensor);
  }
}

TEST_CASE("early gather: every family whose last layer works row by row gains by it") {
  std::size_t num_mixtures = 0, num_others = 0;
  const auto families = std::filesystem::path(TROUPE_SOURCE_DIR) / "tests/fixtures/families";
  for (const auto& entry : std::filesystem::directory_iterator(families)) {
    const std::string family = entry.path().filename().string();
    CAPTURE(family);
    const auto network = load_network(entry.path());
    for (const DataType type : {DataType::kF32, DataType::kBF16}) {
      const Program program = network->build_program(0, {64, 4}, type);
      const Program early = gathered_early(program);
      const bool has_experts =
          std::any_of(program.operators.end() - std::min<std::ptrdiff_t>(9, std::ssize(program.operators)),
                      program.operators.end(),
                      [](const Operator& op) { return std::holds_alternative<ExpertMatmul>(op.kind); });
      const auto num_early = products_of(early).of_output_rows.size();
      if (has_experts) {
        ++num_mixtures;
        CHECK(early.operators.size() == program.operators.size());
        CHECK(num_early == 1);
        continue;
      }
      ++num_others;
      check_rows(early);
      CHECK(num_early > 1);
    }
  }
  CHECK(num_mixtures > 0);
  CHECK(num_others > 20);
}

TEST_CASE("early gather: programs without sampled rows, or with a state behind the last layer, stay") {
  const auto network = make_network(llama_100m());
  Program program = network->build_program(0, {64, 4}, DataType::kBF16);
  CHECK(products_of(gathered_early(kept_late(program))).of_output_rows.size() == 1);
  program.operators.resize(gather_of(program));
  const auto num_operators = program.operators.size();
  CHECK(gathered_early(program).operators.size() == num_operators);
}

TEST_CASE("early gather: logits have the bits that they have when all rows are computed") {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_llama(), 1);
  for (const Quantization quantization : {Quantization::kNone, Quantization::kQ8, Quantization::kQ4}) {
    CAPTURE(name_of(quantization));
    const auto model = load_cpu_model(plan_cpu_model(directory.path(), {.quantization = quantization,
                                                                        .num_threads = 2,
                                                                        .num_slots = 8,
                                                                        .max_batch_tokens = 64,
                                                                        .max_pages = 64}));
    const Program program = model->network->build_program(0, {64, 8}, model->compute_type);
    const Program late = kept_late(program);
    REQUIRE(products_of(gathered_early(late)).of_output_rows.size() == 1);
    REQUIRE(products_of(gathered_early(program)).of_output_rows.size() == 3);  // the state is behind o
    const CapturedLogits logits = logits_of(model, program);
    REQUIRE(logits.size() == 2);
    CHECK(logits == logits_of(model, late));
  }
}

TEST_CASE("early gather: smaller shapes fit the memory of the largest") {
  const auto network = make_network(llama_100m());
  const auto early = [&](ProgramShape shape) {
    return gathered_early(network->build_program(0, shape, DataType::kBF16));
  };
  const Arena arena(early({512, 64}));
  for (std::uint32_t tokens = 1; tokens <= 512; tokens = tokens * 3 / 2 + 1)
    for (const std::uint32_t rows : {0U, 1U, 7U, 64U}) CHECK_NOTHROW(arena.place(early({tokens, rows})));
}

}  // namespace troupe
