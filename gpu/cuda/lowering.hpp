// SPDX-License-Identifier: Apache-2.0
// From a network's program to the steps a GPU takes. A step is a kernel, or two
// where attention must be merged. Temporaries get the types that kernels want:
// what goes from one product to the next is of the compute type, only the
// residual stream x, gathered rows and logits are f32.
//
// Many tokens: norm, product, rotary and append, attention, product that adds to
// x, norm, product, activation, product that adds to x: 9 steps a layer.
//
// With norms of heads, they are a step in front of the rotation, and few tokens take the
// same steps as many. So it is with short convolutions, a step each that is two kernels.
//
// Decoders with layer norms (GPT) take the steps of their operators, whatever the number of tokens, but that
// products add to x themselves.
//
// Encoders take the steps of their operators one for one, whatever the number of tokens.
//
// So do recurrent cells, in which nothing is rounded but operands of products; what
// gathers states for one, or makes them, rounds them as well.
//
// Few tokens of a decoder: the products do it all (kernels/few_token_input.hpp). Each leaves
// behind what the next one multiplies, and the sums of squares from which the
// next one reckons the scale of RMSNorm; so a layer is 5 steps: product with
// rotation and append, attention, product that adds to x, gated product, product
// that adds to x.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "gpu/program/planner.hpp"
#include "gpu/program/program.hpp"

namespace troupe::cuda {

// inputs {table}, outputs {x}
struct EmbedStep {};
// inputs {x, weight}, outputs {normed}
struct NormStep {
  float epsilon = 1e-5F;
};
// inputs {a, weight} or {a, weight, bias}, outputs {c}: c = a · weightᵀ (+ bias), or
// c += that.
struct GemmStep {
  bool adds = false;
  bool is_exact = false;  // in f32, of vectors, whose digits are compared, and of states, which add up
};
// inputs {qkv, query weight, key weight}: heads are normed in place.
struct HeadNormStep {
  float epsilon = 1e-6F;
};
// inputs {qkv}: queries are rotated in place, keys and values appended.
struct RotaryStep {
  std::uint32_t layer = 0;
  bool rotates = true;  // false: keys and values are appended as they are
};
// inputs {queries: the first columns are}, outputs {attended}
struct AttentionStep {
  std::uint32_t layer = 0;
  std::uint32_t window = 0;  // as PagedAttention's
  float scale = 0.0F;        // of scores; 0: 1 / sqrt(head_dim)
};
// inputs {gate_up}, outputs {h}
struct GatedActivationStep {};
// inputs {x}, outputs {rows}
struct GatherStep {};
// inputs {logits}
struct SampleStep {};

// Inputs of a fused product: {a, weight}, then squares, then a bias where
// it says so. Without squares, a is normed already.
struct FusedInput {
  bool has_squares = false;
  bool has_bias = false;
  float epsilon = 1e-5F;  // of the norm that squares belong to
};
// inputs as above, outputs {queries}
struct FusedQkvStep {
  FusedInput input;
  std::uint32_t layer = 0;
  bool rotates = true;
};
// inputs as above and the next norm's weight, outputs {x, a, squares}: x += b ·
// weightᵀ (+ bias); a = x * that weight.
struct FusedResidualStep {
  FusedInput input;
};
// inputs as above, outputs {h}
struct FusedGatedStep {
  FusedInput input;
};

// Operators of encoders are steps as they are, with their inputs and outputs. So are short convolutions,
// which read the compute type, and those of recurrent cells, but that GatherState may write the compute type,
// and that cells have a second output, a copy of h in that type, where a product reads h.
using StepKind =
    std::variant<EmbedStep, NormStep, GemmStep, HeadNormStep, RotaryStep, AttentionStep, GatedActivationStep,
                 GatherStep, SampleStep, FusedQkvStep, FusedResidualStep, FusedGatedStep, EmbedPositions,
                 LayerNorm, Activate, SelfAttention, Pool, WriteVectors, GatherState, KeepState, LstmCell,
                 GruCell, TreeLstmLeaf, TreeLstmBinary, TreeLstmChildSum, AttendStates, AdditiveAttention,
                 ShortConvolution>;

struct Step {
  StepKind kind;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
};

// Parts of networks that run on CPU cores only so far.
inline constexpr const char* kNoSuchRotation =
    "the CUDA device rotates a part of a head that is a multiple of four elements";
inline constexpr const char* kNoLocalRotation =
    "the CUDA device rotates the keys of all layers alike, this model's by two bases";
inline constexpr const char* kNoSources = "the CUDA device has no encoder in front of a decoder yet";
inline constexpr const char* kNoSoftCaps = "the CUDA device has no soft caps of scores and logits yet";
inline constexpr const char* kNoSinks = "the CUDA device has no attention sinks yet";
inline constexpr const char* kNoOtherScales =
    "the CUDA device multiplies no embeddings by a number of the model's own yet";
inline constexpr const char* kNoGatedGelu = "the CUDA device gates by SiLU only yet";
inline constexpr const char* kNoExperts = "the CUDA device has no mixtures of experts yet";

// A program's HandedState, read when so many steps are queued: right behind the last one that changes it.
// Later ones may add already what operators behind the reading add.
struct HandedRows {
  TensorId tensor = 0;
  std::size_t num_steps = 0;
};

struct LoweredProgram {
  ProgramShape shape;
  std::vector<TensorSpec> tensors;
  std::vector<Step> steps;
  std::optional<HandedRows> state = {};  // none: it hands no state out
};

// The fused kernels can compute the program: it has few tokens, and its products
// have the types and depths they want.
bool can_fuse(const Program& program, DataType compute_type);

// `compute_type`: of the program's matrix operands. Fused where it can be and
// `may_fuse`. Throws std::runtime_error if the program is built in a way that is
// not known here. Any thread.
LoweredProgram lower(const Program& program, DataType compute_type, bool may_fuse = true);

// Counts the kernels of all steps, attention as one: where rows are merged it is two.
std::uint32_t num_kernels(const LoweredProgram& program);

std::vector<TensorUse> tensor_uses(const LoweredProgram& program, ProgramShape shape);

}  // namespace troupe::cuda
