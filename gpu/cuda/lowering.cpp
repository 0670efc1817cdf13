// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/lowering.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "gpu/cuda/kernels/gemm/few_token_input.hpp"

namespace troupe::cuda {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw std::runtime_error("a program for a GPU: " + what);
}

template <class Kind>
bool has(const Program& program) {
  return std::any_of(program.operators.begin(), program.operators.end(),
                     [](const Operator& op) { return std::holds_alternative<Kind>(op.kind); });
}

// Makes the state of a node of a recurrent cell.
template <class Kind>
constexpr bool kMakesState =
    std::is_same_v<Kind, LstmCell> || std::is_same_v<Kind, GruCell> || std::is_same_v<Kind, TreeLstmLeaf> ||
    std::is_same_v<Kind, TreeLstmBinary> || std::is_same_v<Kind, TreeLstmChildSum>;

bool keeps_rows(const Program& program) {
  return std::any_of(program.operators.begin(), program.operators.end(), [](const Operator& op) {
    return std::visit([]<class Kind>(const Kind&) { return kMakesState<Kind>; }, op.kind);
  });
}

// Follows the program's operators and writes steps.
class Lowering {
 public:
  Lowering(const Program& program, DataType compute_type)
      : program_(program),
        compute_type_(compute_type),
        keeps_rows_(keeps_rows(program)),
        producers_(program.tensors.size()) {
    lowered_.shape = program.shape;
    lowered_.tensors = program.tensors;
    for (std::size_t i = 0; i < program.operators.size(); ++i)
      for (const TensorId id : program.operators[i].outputs)
        if (!producers_[id]) producers_[id] = i;
    find_residuals();
  }
  virtual ~Lowering() = default;

  LoweredProgram run() && {
    const Operator* last_writer = program_.state ? writer_of(*program_.state) : nullptr;
    for (const Operator& op : program_.operators) {
      std::visit([&](const auto& kind) { lower(kind, op); }, op.kind);
      if (&op == last_writer)
        lowered_.state = HandedRows{.tensor = program_.state->tensor, .num_steps = lowered_.steps.size()};
    }
    return std::move(lowered_);
  }

 protected:
  virtual void lower(const Embed&, const Operator& op) {
    x_ = op.outputs.at(0);
    add(EmbedStep{}, op.inputs, op.outputs);
  }

  void lower(const EmbedPositions& embed, const Operator& op) {
    x_ = op.outputs.at(0);
    add(embed, op.inputs, op.outputs);
  }

  // A residual was added by the product that made it.
  virtual void lower(const RmsNorm& norm, const Operator& op) {
    add(NormStep{norm.epsilon}, {op.inputs.at(0), op.inputs.at(1)}, {op.outputs.at(0)});
  }

  virtual void lower(const Matmul&, const Operator& op) {
    const TensorId c = op.outputs.at(0);
    if (is_residual_[c]) {
      add(GemmStep{.adds = true, .is_exact = is_exact()}, op.inputs, {x_});
      return;
    }
    if (!stays_f32(c)) tensor(c).type = compute_type_;
    add(GemmStep{.is_exact = is_exact()}, op.inputs, {c});
  }

  void lower(const HeadNorm& norm, const Operator& op) {
    add(HeadNormStep{norm.epsilon}, op.inputs, op.outputs);
  }
  virtual void lower(const RotaryAppendKv& rotary, const Operator& op) {
    add(RotaryStep{rotary.layer, rotary.rotates}, op.inputs, op.outputs);
  }
  virtual void lower(const PagedAttention& attention, const Operator& op) {
    add(AttentionStep{attention.layer, attention.window, attention.scale}, op.inputs, op.outputs);
  }
  virtual void lower(const GatedActivation&, const Operator& op) {
    add(GatedActivationStep{}, op.inputs, op.outputs);
  }
  void lower(const GatherRows&, const Operator& op) { add(GatherStep{}, {op.inputs.at(0)}, op.outputs); }
  void lower(const Sample&, const Operator& op) { add(SampleStep{}, op.inputs, op.outputs); }

  // Of encoders and recurrent cells.
  template <class Kind>
  void lower(const Kind& kind, const Operator& op) {
    add(kind, op.inputs, op.outputs);
  }
  void lower(const Activate& activate, const Operator& op) {
    if (activate.activation == Activation::kNone && is_rounded_by_producer(op)) return;
    add(activate, op.inputs, op.outputs);
  }
  void lower(const RouteExperts&, const Operator&) { refuse(kNoExperts); }
  void lower(const GroupRows&, const Operator&) { refuse(kNoExperts); }
  void lower(const ExpertMatmul&, const Operator&) { refuse(kNoExperts); }
  void lower(const CombineExperts&, const Operator&) { refuse(kNoExperts); }
  // It is a part of the product in front of it.
  void lower(const Add&, const Operator& op) {
    if (op.inputs.at(0) != x_ || op.outputs.at(0) != x_) refuse("a sum that is not x");
  }
  void lower(const EmbedSinusoids&, const Operator&) { refuse(kNoSources); }
  void lower(const SoftCap&, const Operator&) { refuse(kNoSoftCaps); }

  TensorSpec& tensor(TensorId id) { return lowered_.tensors[id]; }
  TensorId add_temporary(std::string name, DataType type, std::uint32_t columns) {
    lowered_.tensors.push_back({.name = std::move(name), .type = type, .columns = columns});
    return static_cast<TensorId>(lowered_.tensors.size() - 1);
  }
  void add(StepKind kind, std::vector<TensorId> inputs, std::vector<TensorId> outputs) {
    lowered_.steps.push_back({kind, std::move(inputs), std::move(outputs)});
  }

  const Program& program_;
  DataType compute_type_;
  LoweredProgram lowered_;
  bool keeps_rows_;
  std::vector<std::optional<std::size_t>> producers_;  // by tensor: its first writer
  std::vector<bool> is_residual_;                      // by tensor: a product's result that is added to x
  TensorId x_ = 0;

 private:
  bool is_exact() const {
    return compute_type_ == DataType::kF32 &&
           (keeps_rows_ || has<Pool>(program_) || has<WriteVectors>(program_));
  }

  // The last operator that writes the state in front of its reading. Behind that one's steps, and not behind
  // those of all operators in front, the rows are what they are then.
  const Operator* writer_of(const HandedState& state) const {
    for (std::size_t i = state.num_operators; i-- > 0;)
      if (writes(program_.operators.at(i), state.tensor)) return &program_.operators[i];
    refuse("a state that nothing has written");
  }

  static bool writes(const Operator& op, TensorId id) {
    const bool adds_residual = std::holds_alternative<RmsNorm>(op.kind) && op.inputs.size() > 2;
    return (adds_residual && op.inputs.front() == id) ||
           std::find(op.outputs.begin(), op.outputs.end(), id) != op.outputs.end();
  }

  // Its step writes the rounded tensor: GatherState in place of its own, which nothing else reads; a
  // cell beside its own.
  bool is_rounded_by_producer(const Operator& op) {
    const TensorId x = op.inputs.at(0), rounded = op.outputs.at(0);
    if (tensor(rounded).type == DataType::kF32) return false;
    for (Step& step : lowered_.steps) {
      if (step.outputs.empty() || step.outputs.front() != x) continue;
      if (std::holds_alternative<GatherState>(step.kind)) {
        if (num_readers(x) > 1) return false;
        step.outputs.front() = rounded;
        return true;
      }
      const bool makes_state =
          std::visit([]<class Kind>(const Kind&) { return kMakesState<Kind>; }, step.kind);
      if (!makes_state || step.outputs.size() > 1) return false;
      step.outputs.push_back(rounded);
      return true;
    }
    return false;
  }

  std::ptrdiff_t num_readers(TensorId id) const {
    return std::count_if(program_.operators.begin(), program_.operators.end(), [&](const Operator& op) {
      return std::find(op.inputs.begin(), op.inputs.end(), id) != op.inputs.end();
    });
  }

  // Logits are, and what is normed or goes to the batch's result; and all of recurrent cells.
  bool stays_f32(TensorId c) {
    if (keeps_rows_ || tensor(c).rows == RowCount::kOutputRows) return true;
    return std::any_of(program_.operators.begin(), program_.operators.end(), [&](const Operator& op) {
      const bool takes_f32 = std::holds_alternative<LayerNorm>(op.kind) ||
                             std::holds_alternative<Pool>(op.kind) ||
                             std::holds_alternative<WriteVectors>(op.kind);
      return takes_f32 && std::find(op.inputs.begin(), op.inputs.end(), c) != op.inputs.end();
    });
  }

  void find_residuals() {
    is_residual_.resize(program_.tensors.size());
    const auto note = [&](TensorId residual) {
      const auto producer = producers_[residual];
      if (!producer || !std::holds_alternative<Matmul>(program_.operators[*producer].kind))
        refuse("a residual that is not a product's result");
      is_residual_[residual] = true;
    };
    for (const Operator& op : program_.operators) {
      if (std::holds_alternative<RmsNorm>(op.kind) && op.inputs.size() > 2) note(op.inputs[2]);
      if (std::holds_alternative<GatherRows>(op.kind) && op.inputs.size() > 1) note(op.inputs[1]);
      if (!std::holds_alternative<Add>(op.kind)) continue;
      note(op.inputs.at(1));
      if (&program_.operators[*producers_[op.inputs[1]]] + 1 != &op) refuse("a sum far behind its product");
    }
  }
};

// The same for few tokens. Operators that are part of another step write none.
class FusedLowering final : public Lowering {
 public:
  using Lowering::Lowering;

 protected:
  using Lowering::lower;

  void lower(const Embed&, const Operator& op) override {
    x_ = op.outputs.at(0);
    const Operator* norm = next_layer_norm(op);
    if (norm == nullptr) refuse("no norm behind the embedding");
    add(EmbedStep{}, op.inputs, op.outputs);
    a_ = add_temporary("a", compute_type_, tensor(x_).columns);
    add(NormStep{std::get<RmsNorm>(norm->kind).epsilon}, {x_, norm->inputs.at(1)}, {a_});
  }

  // The norm of a layer is part of the products around it.
  void lower(const RmsNorm& norm, const Operator& op) override {
    if (tensor(op.outputs.at(0)).rows == RowCount::kOutputRows) {
      Lowering::lower(norm, op);
    } else {
      epsilon_ = norm.epsilon;
    }
  }

  void lower(const Matmul& matmul, const Operator& op) override {
    const TensorId c = op.outputs.at(0);
    if (tensor(c).rows == RowCount::kOutputRows) return Lowering::lower(matmul, op);
    if (is_residual_[c]) return lower_residual(op);
    const auto user = user_of(c, op);
    const FusedInput input{
        .has_squares = squares_.has_value(), .has_bias = op.inputs.size() > 2, .epsilon = epsilon_};
    std::vector<TensorId> inputs = {a_, op.inputs.at(1)};
    if (squares_) inputs.push_back(*squares_);
    if (input.has_bias) inputs.push_back(op.inputs[2]);
    if (const auto* rotary = std::get_if<RotaryAppendKv>(&user.kind)) {
      // What follows finds the queries alone where queries, keys and values were.
      const Operator& attention = attention_of(c);
      tensor(c).type = compute_type_;
      tensor(c).columns = tensor(attention.outputs.at(0)).columns;
      add(FusedQkvStep{input, rotary->layer, rotary->rotates}, std::move(inputs), {c});
    } else if (std::holds_alternative<GatedActivation>(user.kind)) {
      add(FusedGatedStep{input}, std::move(inputs), {user.outputs.at(0)});
    } else {
      refuse("a product that nothing known follows");
    }
  }

  void lower(const RotaryAppendKv&, const Operator&) override {}
  void lower(const GatedActivation&, const Operator&) override {}

 private:
  void lower_residual(const Operator& op) {
    const Operator* norm = next_layer_norm(op);
    // Behind the last layer nobody asks for a and squares: any weight will do.
    const TensorId norm_weight = norm != nullptr ? norm->inputs.at(1) : last_norm_weight_;
    const FusedInput input{.has_bias = op.inputs.size() > 2};
    std::vector<TensorId> inputs = {op.inputs.at(0), op.inputs.at(1)};
    if (input.has_bias) inputs.push_back(op.inputs[2]);
    inputs.push_back(norm_weight);
    const std::uint32_t width = tensor(x_).columns;
    a_ = add_temporary("a", compute_type_, width);
    squares_ = add_temporary("squares", DataType::kF32, num_square_parts(width));
    add(FusedResidualStep{input}, std::move(inputs), {x_, a_, *squares_});
  }

  // The first norm of all tokens behind an operator.
  const Operator* next_layer_norm(const Operator& op) {
    for (const Operator* next = &op + 1; next != &program_.operators.back() + 1; ++next) {
      if (!std::holds_alternative<RmsNorm>(next->kind)) continue;
      if (program_.tensors[next->outputs.at(0)].rows == RowCount::kOutputRows) return nullptr;
      last_norm_weight_ = next->inputs.at(1);
      return next;
    }
    return nullptr;
  }

  const Operator& user_of(TensorId id, const Operator& op) const {
    for (const Operator* next = &op + 1; next != &program_.operators.back() + 1; ++next)
      for (const TensorId input : next->inputs)
        if (input == id) return *next;
    refuse("a product whose result nobody uses");
  }

  const Operator& attention_of(TensorId qkv) const {
    for (const Operator& op : program_.operators)
      if (std::holds_alternative<PagedAttention>(op.kind) && op.inputs.at(0) == qkv) return op;
    refuse("rotated queries that no attention uses");
  }

  TensorId a_ = 0;
  std::optional<TensorId> squares_;
  TensorId last_norm_weight_ = 0;
  float epsilon_ = 1e-5F;
};

void refuse_unsupported(const Program& program) {
  if (has<EmbedSinusoids>(program)) refuse(kNoSources);
  for (const Operator& op : program.operators) {
    const auto* rotary = std::get_if<RotaryAppendKv>(&op.kind);
    const auto* attention = std::get_if<PagedAttention>(&op.kind);
    const auto* embed = std::get_if<Embed>(&op.kind);
    const auto* gated = std::get_if<GatedActivation>(&op.kind);
    if (std::holds_alternative<RouteExperts>(op.kind)) refuse(kNoExperts);
    if (rotary != nullptr && rotary->is_local) refuse(kNoLocalRotation);
    if (attention != nullptr && attention->soft_cap != 0.0F) refuse(kNoSoftCaps);
    if (std::holds_alternative<SoftCap>(op.kind)) refuse(kNoSoftCaps);
    if (attention != nullptr && op.inputs.size() > 1) refuse(kNoSinks);
    if (embed != nullptr && embed->scale != 1.0F) refuse(kNoOtherScales);
    if (gated != nullptr && gated->activation != Activation::kSilu) refuse(kNoGatedGelu);
  }
}

}  // namespace

bool can_fuse(const Program& program, DataType compute_type) {
  if (!has<PagedAttention>(program) || has<ShortConvolution>(program) || has<LayerNorm>(program))
    return false;
  return std::all_of(program.operators.begin(), program.operators.end(), [&](const Operator& op) {
    if (std::holds_alternative<HeadNorm>(op.kind)) return false;  // the product rotates what it made
    if (!std::holds_alternative<Matmul>(op.kind)) return true;
    const TensorSpec& weight = program.tensors[op.inputs.at(1)];
    return can_multiply_few_tokens({.a_stride = weight.columns,
                                    .weight_stride = weight.columns,
                                    .type = compute_type,
                                    .num_tokens = program.shape.max_tokens,
                                    .num_outputs = weight.fixed_rows,
                                    .depth = weight.columns});
  });
}

LoweredProgram lower(const Program& program, DataType compute_type, bool may_fuse) {
  refuse_unsupported(program);
  if (may_fuse && can_fuse(program, compute_type)) return FusedLowering(program, compute_type).run();
  return Lowering(program, compute_type).run();
}

std::uint32_t num_kernels(const LoweredProgram& program) {
  std::uint32_t count = 0;
  for (const Step& step : program.steps) count += std::holds_alternative<ShortConvolution>(step.kind) ? 2 : 1;
  return count;
}

std::vector<TensorUse> tensor_uses(const LoweredProgram& program, ProgramShape shape) {
  std::vector<OperandList> operators;
  operators.reserve(program.steps.size());
  for (const Step& step : program.steps) operators.push_back({step.inputs, step.outputs});
  return troupe::tensor_uses(program.tensors, operators, shape);
}

}  // namespace troupe::cuda
