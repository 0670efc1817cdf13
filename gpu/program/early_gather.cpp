// SPDX-License-Identifier: Apache-2.0
#include "gpu/program/early_gather.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace troupe {
namespace {

// A row of its results is made of the same row of its operands.
bool works_by_row(const Operator& op) {
  return std::visit(
      []<class Kind>(const Kind&) {
        return std::is_same_v<Kind, Matmul> || std::is_same_v<Kind, RmsNorm> ||
               std::is_same_v<Kind, LayerNorm> || std::is_same_v<Kind, GatedActivation> ||
               std::is_same_v<Kind, Activate> || std::is_same_v<Kind, Add>;
      },
      op.kind);
}

class EarlyGather {
 public:
  explicit EarlyGather(Program program) : program_(std::move(program)) {
    const auto found =
        std::find_if(program_.operators.begin(), program_.operators.end(),
                     [](const Operator& op) { return std::holds_alternative<GatherRows>(op.kind); });
    gather_ = static_cast<std::size_t>(found - program_.operators.begin());
  }

  Program run() && {
    if (const auto place = find_place()) move_to(*place);
    return std::move(program_);
  }

 private:
  // Temporaries that operators [first, last) name, each as often as it is named.
  std::vector<TensorId> temporaries(std::size_t first, std::size_t last) const {
    std::vector<TensorId> found;
    for (std::size_t i = first; i < last; ++i)
      for (const auto* operands : {&program_.operators[i].inputs, &program_.operators[i].outputs})
        std::copy_if(operands->begin(), operands->end(), std::back_inserter(found),
                     [&](TensorId id) { return program_.tensors[id].role == TensorRole::kTemporary; });
    return found;
  }

  // Tensors named in front of a place and again behind it, up to the gathering itself, whose result is new.
  std::vector<TensorId> living_at(std::size_t place) const {
    std::vector<bool> is_named(program_.tensors.size());
    for (const TensorId id : temporaries(0, place)) is_named[id] = true;
    std::vector<TensorId> living;
    for (const TensorId id : temporaries(place, gather_ + 1)) {
      if (is_named[id]) living.push_back(id);
      is_named[id] = false;
    }
    return living;
  }

  bool is_of_tokens(TensorId id) const {
    const TensorSpec& tensor = program_.tensors[id];
    return tensor.rows == RowCount::kTokens && tensor.rows_a_token == 1;
  }

  bool has_whole_floats(TensorId id) const {
    const TensorSpec& tensor = program_.tensors[id];
    return tensor.columns * size_of(tensor.type) % sizeof(float) == 0;
  }

  // The operator in front of which rows can be gathered, if there is one.
  std::optional<std::size_t> find_place() const {
    if (gather_ == program_.operators.size()) return std::nullopt;
    const auto behind = temporaries(gather_ + 1, program_.operators.size());
    if (std::any_of(behind.begin(), behind.end(), [&](TensorId id) { return is_of_tokens(id); }))
      return std::nullopt;
    std::size_t first = gather_;
    while (first > 0 && works_by_row(program_.operators[first - 1])) --first;
    if (program_.state) first = std::max<std::size_t>(first, program_.state->num_operators);
    for (std::size_t place = first; place < gather_; ++place) {
      const auto between = temporaries(place, gather_);
      const auto living = living_at(place);
      if (std::all_of(between.begin(), between.end(), [&](TensorId id) { return is_of_tokens(id); }) &&
          std::all_of(living.begin(), living.end(), [&](TensorId id) { return has_whole_floats(id); }))
        return place;
    }
    return std::nullopt;
  }

  void move_to(std::size_t place) {
    const auto living = living_at(place);
    for (const TensorId id : temporaries(place, gather_))
      if (std::find(living.begin(), living.end(), id) == living.end())
        program_.tensors[id].rows = RowCount::kOutputRows;
    std::vector<TensorId> now(program_.tensors.size());  // by what it was
    std::iota(now.begin(), now.end(), TensorId{0});
    std::vector<Operator> moved(program_.operators.begin(),
                                program_.operators.begin() + static_cast<std::ptrdiff_t>(place));
    for (const TensorId id : living) {
      now[id] = append_sampled(program_.tensors[id]);
      moved.push_back({GatherRows{}, {id}, {now[id]}});
    }
    for (std::size_t i = place; i < program_.operators.size(); ++i) {
      Operator& op = program_.operators[i];
      for (auto* operands : {&op.inputs, &op.outputs})
        for (TensorId& id : *operands) id = now[id];
      if (i != gather_) {
        moved.push_back(std::move(op));
        continue;
      }
      now[op.outputs.at(0)] = op.inputs.at(0);
      if (op.inputs.size() > 1) moved.push_back({Add{}, op.inputs, {op.inputs[0]}});
    }
    program_.operators = std::move(moved);
  }

  TensorId append_sampled(TensorSpec tensor) {
    tensor.name += "_sampled";
    tensor.rows = RowCount::kOutputRows;
    program_.tensors.push_back(std::move(tensor));
    return static_cast<TensorId>(program_.tensors.size() - 1);
  }

  Program program_;
  std::size_t gather_ = 0;
};

}  // namespace

Program gathered_early(Program program) { return EarlyGather(std::move(program)).run(); }

std::vector<Program> gathered_early(std::vector<Program> programs) {
  for (Program& program : programs) program = gathered_early(std::move(program));
  return programs;
}

}  // namespace troupe
