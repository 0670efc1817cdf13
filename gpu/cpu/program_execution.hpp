// SPDX-License-Identifier: Apache-2.0
// The inside of ProgramRunner: what it keeps of a program, and how an operator is
// run. Included by its own sources only.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "gpu/cpu/kernels/cells/recurrent_cells.hpp"
#include "gpu/cpu/kernels/embed_positions.hpp"
#include "gpu/cpu/kernels/matmul/q8_rows.hpp"
#include "gpu/cpu/program_runner.hpp"

namespace troupe {

// A program with everything looked up that does not change from batch to batch.
struct ProgramRunner::BoundProgram {
  std::shared_ptr<const Program> asked;   // keeps the key of the map alive
  Program program;                        // gathered early, which is run
  std::vector<Placement> placements;      // by tensor
  std::vector<std::uint64_t> used_bytes;  // of the arena's chunks
  // By tensor; at most one of them is set, for weights only.
  std::vector<const CpuMatrix*> matrices;
  std::vector<const std::vector<float>*> vectors;
  std::vector<const CpuTable*> tables;

  // Throws std::runtime_error: the device has no such weight, or of another shape.
  void find_weight(const CpuWeights& weights, TensorId id);
};

// One pass over a bound program: an operator's arguments are put together from
// its tensors and its tasks are given to the threads.
class ProgramRunner::Execution {
 public:
  Execution(ProgramRunner& runner, const BoundProgram& bound, const Batch& batch, const BatchCopies* copies)
      : runner_(runner), bound_(bound), program_(bound.program), batch_(batch), copies_(copies) {}

  void run(const Operator& op) {
    std::visit([&](const auto& kind) { execute(kind, op); }, op.kind);
  }
  // Behind the program's operators up to the one that HandedState names: of slices that want it.
  std::vector<float> states() const;

 private:
  float* floats(TensorId id) const;           // of an f32 tensor
  std::int32_t* integers(TensorId id) const;  // of an i32 tensor
  void* address(TensorId id) const { return runner_.arena_.address(bound_.placements[id]); }
  std::size_t columns(TensorId id) const { return program_.tensors[id].columns; }
  DataType type(TensorId id) const { return program_.tensors[id].type; }
  std::size_t rows(TensorId id) const;
  const float* vector(TensorId id) const;
  EmbeddingTable table(TensorId id) const;
  float* result(std::size_t width) const;  // of the batch

  template <typename Arguments>
  void run_tasks(const Arguments& arguments, std::size_t num_tasks,
                 void (*run_task)(const Arguments&, std::size_t)) {
    runner_.threads_.run(num_tasks, [&](std::size_t task) { run_task(arguments, task); });
  }
  void wait_for_kv(std::uint32_t layer) const;
  bool takes_rounded_rows(const PackedMatrix& part) const {
    return rounds_rows(runner_.settings_.activations, part.format());
  }
  // a's rows in 8 bits, where a part of the weight takes them; else none.
  Q8Rows round_rows(TensorId a, const CpuMatrix& weight);

  // Throw std::runtime_error if the program is built in a way that is not known here.
  void execute(const Embed&, const Operator& op);
  void execute(const RmsNorm&, const Operator& op);
  void execute(const Matmul&, const Operator& op);
  void execute(const HeadNorm&, const Operator& op);
  void execute(const RotaryAppendKv&, const Operator& op);
  void execute(const PagedAttention&, const Operator& op);
  void execute(const ShortConvolution&, const Operator& op);
  void execute(const GatedActivation&, const Operator& op);
  void execute(const RouteExperts&, const Operator& op);
  void execute(const GroupRows&, const Operator& op);
  void execute(const ExpertMatmul&, const Operator& op);
  void execute(const CombineExperts&, const Operator& op);
  void execute(const GatherRows&, const Operator& op);
  void execute(const SoftCap& soft_cap, const Operator& op);
  void execute(const Sample&, const Operator& op);
  void execute(const Add&, const Operator& op);
  void execute(const EmbedPositions&, const Operator& op);
  void execute(const EmbedSinusoids& embed, const Operator& op);
  void execute(const LayerNorm&, const Operator& op);
  void execute(const Activate&, const Operator& op);
  void execute(const SelfAttention&, const Operator& op);
  void execute(const Pool&, const Operator& op);
  void execute(const WriteVectors&, const Operator& op);
  void execute(const GatherState& gather, const Operator& op);
  void execute(const KeepState& keep, const Operator& op);
  void execute(const LstmCell& cell, const Operator& op);
  void execute(const GruCell& cell, const Operator& op);
  void execute(const TreeLstmLeaf& leaf, const Operator& op);
  void execute(const TreeLstmBinary& node, const Operator& op);
  void execute(const TreeLstmChildSum& node, const Operator& op);
  void execute(const AttendStates& attend, const Operator& op);
  void execute(const AdditiveAttention& attend, const Operator& op);
  void run_tree_nodes(TreeLstmArguments arguments, const Operator& op);
  StateRows state_rows(std::size_t end) const;

  ProgramRunner& runner_;
  const BoundProgram& bound_;
  const Program& program_;
  const Batch& batch_;
  const BatchCopies* copies_;
};

}  // namespace troupe
