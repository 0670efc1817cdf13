// SPDX-License-Identifier: Apache-2.0
#include "gpu/host/host_weights.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "gpu/host/kernels/number_formats.hpp"

namespace troupe {
namespace {

// bf16 weights stay bf16 even where the arithmetic is f32: widening is exact
// and a decode step reads half the bytes.
DataType packed_type(DataType compute_type, const std::vector<WeightView>& views) {
  const bool all_bf16 =
      std::all_of(views.begin(), views.end(), [](const auto& v) { return v.type == DataType::kBF16; });
  return compute_type == DataType::kBF16 || all_bf16 ? DataType::kBF16 : DataType::kF32;
}

bool all_of_one_type(const std::vector<WeightView>& views) {
  return std::all_of(views.begin(), views.end(), [&](const auto& v) { return v.type == views.front().type; });
}

// A safetensors header of odd length leaves its data misaligned; the kernels
// read elements.
class AlignedViews {
 public:
  explicit AlignedViews(const std::vector<WeightView>& views) : copies_(views.size()) {
    for (std::size_t i = 0; i < views.size(); ++i) {
      const auto bytes = views[i].bytes;
      const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
      if (address % size_of(views[i].type) != 0) {
        copies_[i].assign(bytes.begin(), bytes.end());
        addresses_.push_back(copies_[i].data());
      } else {
        addresses_.push_back(bytes.data());
      }
    }
  }
  const void* operator[](std::size_t index) const { return addresses_[index]; }

 private:
  std::vector<std::vector<std::byte>> copies_;
  std::vector<const std::byte*> addresses_;
};

std::vector<float> load_vector(const WeightSpec& spec, const std::vector<WeightView>& views) {
  const AlignedViews aligned(views);
  std::vector<float> values(spec.columns);
  std::size_t filled = 0;
  for (std::size_t i = 0; i < views.size(); ++i) {
    const std::size_t count = views[i].shape[0];
    convert_to_f32(views[i].type, aligned[i], values.data() + filled, count);
    filled += count;
  }
  return values;
}

HostTable load_table(const WeightSpec& spec, const std::vector<WeightView>& views) {
  if (!all_of_one_type(views)) {
    throw std::runtime_error("the tensors of \"" + spec.name + "\" differ in dtype");
  }
  HostTable table{.rows = {}, .type = views.front().type};
  for (const auto& view : views) {
    table.rows.insert(table.rows.end(), view.bytes.begin(), view.bytes.end());
  }
  return table;
}

template <typename Map>
auto find_in(const Map& map, std::string_view name) {
  const auto found = map.find(name);
  return found == map.end() ? nullptr : &found->second;
}

}  // namespace

HostWeights::HostWeights(const WeightStore& store, const Network& network, HostWeightSettings settings,
                         ThreadPool& threads)
    : settings_(settings) {
  for (const auto& spec : network.weights()) {
    store.check_unchanged();
    const auto views = find_sources(store, spec);
    if (spec.is_matrix) {
      load_matrix(spec, views, threads);
    } else if (spec.rows == 1) {
      vectors_.emplace(spec.name, load_vector(spec, views));
    } else {
      tables_.emplace(spec.name, load_table(spec, views));
    }
  }
  store.check_unchanged();
}

void HostWeights::load_matrix(const WeightSpec& spec, const std::vector<WeightView>& views,
                              ThreadPool& threads) {
  const AlignedViews aligned(views);
  std::vector<MatrixSource> sources;
  for (std::size_t i = 0; i < views.size(); ++i) {
    sources.push_back({.values = aligned[i], .type = views[i].type, .num_rows = views[i].shape[0]});
  }
  HostMatrix matrix;
  matrix.packed = PackedMatrix(sources, spec.columns, packed_type(settings_.compute_type, views));
  threads.run(matrix.packed.num_pack_tasks(), [&](std::size_t task) { matrix.packed.run_pack_task(task); });
  if (settings_.with_onednn) {
    // Two slices a thread even out threads that run at different speeds.
    matrix.onednn.emplace(sources, spec.columns, settings_.compute_type,
                          std::size_t{2} * threads.num_threads());
  }
  matrices_.emplace(spec.name, std::move(matrix));
}

const HostMatrix* HostWeights::find_matrix(std::string_view name) const { return find_in(matrices_, name); }
const std::vector<float>* HostWeights::find_vector(std::string_view name) const {
  return find_in(vectors_, name);
}
const HostTable* HostWeights::find_table(std::string_view name) const { return find_in(tables_, name); }

std::uint64_t host_weight_bytes(const WeightStore& store, const Network& network,
                                HostWeightSettings settings) {
  std::uint64_t sum = 0;
  for (const auto& spec : network.weights()) {
    const auto views = find_sources(store, spec);
    const std::uint64_t elements = std::uint64_t{spec.rows} * spec.columns;
    if (spec.is_matrix) {
      sum += PackedMatrix::packed_bytes(spec.rows, spec.columns, packed_type(settings.compute_type, views));
      if (settings.with_onednn) {
        // oneDNN pads outputs and inputs to blocks of up to 64.
        const std::uint64_t rows = (std::uint64_t{spec.rows} + 63) / 64 * 64;
        const std::uint64_t columns = (std::uint64_t{spec.columns} + 63) / 64 * 64;
        sum += rows * columns * size_of(settings.compute_type);
      }
    } else {
      sum += elements * (spec.rows == 1 ? sizeof(float) : size_of(views.front().type));
    }
  }
  return sum;
}

}  // namespace troupe
