// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/cpu_weights.hpp"

#include <algorithm>
#include <stdexcept>

#include "gpu/cpu/kernels/number_formats.hpp"
#include "gpu/model/weight_elements.hpp"

namespace troupe {
namespace {

// bf16 weights stay bf16 even where the arithmetic is f32: widening is exact
// and a decode step reads half the bytes.
DataType packed_type(const WeightSpec& spec, DataType compute_type, const std::vector<WeightView>& views) {
  if (spec.kind == MatrixKind::kRouter) return DataType::kF32;
  const bool all_bf16 =
      std::all_of(views.begin(), views.end(), [](const auto& v) { return v.type == DataType::kBF16; });
  return compute_type == DataType::kBF16 || all_bf16 ? DataType::kBF16 : DataType::kF32;
}

// The head stays at 8 bits: logits suffer most from less. A router is little, and all that follows hangs on
// it.
Quantization quantization_of(const WeightSpec& spec, Quantization asked) {
  if (spec.kind == MatrixKind::kRouter) return Quantization::kNone;
  return asked == Quantization::kQ4 && spec.name == "lm_head" ? Quantization::kQ8 : asked;
}

bool has_onednn(const WeightSpec& spec, const CpuWeightSettings& settings) {
  return settings.with_onednn && spec.kind == MatrixKind::kPlain &&
         quantization_of(spec, settings.quantization) == Quantization::kNone;
}

bool all_of_one_type(const std::vector<WeightView>& views) {
  return std::all_of(views.begin(), views.end(), [&](const auto& v) { return v.type == views.front().type; });
}

std::vector<WeightElements> elements_of(const std::vector<WeightView>& views, ThreadPool& threads) {
  std::vector<WeightElements> elements;
  for (const auto& view : views) {
    elements.emplace_back(view,
                          [&](std::size_t num_tasks, const auto& task) { threads.run(num_tasks, task); });
  }
  return elements;
}

std::vector<float> load_vector(const WeightSpec& spec, const std::vector<WeightElements>& sources) {
  std::vector<float> values(spec.columns);
  std::size_t filled = 0;
  for (const auto& source : sources) {
    convert_to_f32(source.type(), source.data(), values.data() + filled, source.num_elements());
    filled += source.num_elements();
  }
  if (spec.added != 0.0F) {
    for (float& value : values) value += spec.added;
  }
  return values;
}

CpuTable load_table(const std::vector<WeightElements>& sources) {
  CpuTable table{.rows = {}, .type = sources.front().type()};
  for (const auto& source : sources) {
    table.rows.insert(table.rows.end(), source.data(), source.data() + source.size_bytes());
  }
  return table;
}

template <typename Map>
auto find_in(const Map& map, std::string_view name) {
  const auto found = map.find(name);
  return found == map.end() ? nullptr : &found->second;
}

}  // namespace

CpuWeights::CpuWeights(const WeightStore& store, const Network& network, CpuWeightSettings settings,
                       ThreadPool& threads)
    : settings_(settings) {
  for (const auto& spec : network.weights()) {
    store.check_unchanged();
    const auto views = find_sources(store, spec);
    check_finite(spec, views);
    if (spec.is_matrix) {
      load_matrix(spec, views, threads);
    } else if (spec.is_vector()) {
      vectors_.emplace(spec.name, load_vector(spec, elements_of(views, threads)));
    } else if (all_of_one_type(views)) {
      tables_.emplace(spec.name, load_table(elements_of(views, threads)));
    } else {
      throw std::runtime_error("the tensors of \"" + spec.name + "\" differ in dtype");
    }
  }
  store.check_unchanged();
}

void CpuWeights::load_matrix(const WeightSpec& spec, const std::vector<WeightView>& views,
                             ThreadPool& threads) {
  const std::vector<WeightElements> elements = elements_of(views, threads);
  std::vector<MatrixSource> sources;
  for (std::size_t i = 0; i < views.size(); ++i) {
    sources.push_back(
        {.values = elements[i].data(), .type = elements[i].type(), .num_rows = views[i].shape[0]});
  }
  CpuMatrix matrix;
  const Quantization quantization = quantization_of(spec, settings_.quantization);
  matrix.packed =
      PackedMatrix(sources, spec.columns, packed_type(spec, settings_.compute_type, views), quantization);
  try {
    threads.run(matrix.packed.num_pack_tasks(), [&](std::size_t task) { matrix.packed.run_pack_task(task); });
  } catch (const std::range_error& error) {
    throw std::runtime_error("the weight \"" + spec.name + "\" " + error.what());
  }
  if (has_onednn(spec, settings_)) {
    // Two slices a thread even out threads that run at different speeds.
    matrix.onednn.emplace(sources, spec.columns, settings_.compute_type,
                          std::size_t{2} * threads.num_threads());
  }
  matrices_.emplace(spec.name, std::move(matrix));
}

const CpuMatrix* CpuWeights::find_matrix(std::string_view name) const { return find_in(matrices_, name); }
const std::vector<float>* CpuWeights::find_vector(std::string_view name) const {
  return find_in(vectors_, name);
}
const CpuTable* CpuWeights::find_table(std::string_view name) const { return find_in(tables_, name); }

std::uint64_t cpu_weight_bytes(const WeightStore& store, const Network& network, CpuWeightSettings settings) {
  std::uint64_t sum = 0;
  for (const auto& spec : network.weights()) {
    const auto views = find_sources(store, spec);
    const std::uint64_t elements = std::uint64_t{spec.rows} * spec.columns;
    if (spec.is_matrix) {
      const Quantization quantization = quantization_of(spec, settings.quantization);
      sum += PackedMatrix::packed_bytes(spec.rows, spec.columns,
                                        packed_type(spec, settings.compute_type, views), quantization);
      if (has_onednn(spec, settings)) {
        // oneDNN pads outputs and inputs to blocks of up to 64.
        const std::uint64_t rows = (std::uint64_t{spec.rows} + 63) / 64 * 64;
        const std::uint64_t columns = (std::uint64_t{spec.columns} + 63) / 64 * 64;
        sum += rows * columns * size_of(settings.compute_type);
      }
    } else {
      sum += elements * (spec.is_vector() ? sizeof(float) : size_of(views.front().type));
    }
  }
  return sum;
}

}  // namespace troupe
