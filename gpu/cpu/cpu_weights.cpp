// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/cpu_weights.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "gpu/cpu/kernels/number_formats.hpp"
#include "gpu/model/weight_elements.hpp"

namespace troupe {
namespace {

bool all_of_one_type(const std::vector<WeightView>& views) {
  return std::all_of(views.begin(), views.end(), [&](const auto& v) { return v.type == views.front().type; });
}

// 16-bit weights stay as they are where the arithmetic is f32: widening is exact
// and a decode step reads half the bytes.
DataType packed_type(const WeightSpec& spec, DataType compute_type, const std::vector<WeightView>& views) {
  if (spec.kind == MatrixKind::kRouter) return DataType::kF32;
  if (compute_type == DataType::kBF16) return DataType::kBF16;
  return all_of_one_type(views) ? views.front().type : DataType::kF32;
}

bool is_kept(const WeightView& view, const CpuWeightSettings& settings) {
  return settings.quantization == Quantization::kKeep && view.blocks;
}

// Sources of a matrix that follow each other and are packed alike.
struct MatrixPart {
  std::vector<WeightView> views;
  BlockFormat format = BlockFormat::kF32;
  bool keeps_blocks = false;
  std::vector<std::size_t> ends = {};  // rows of the part up to the end of each view

  std::size_t num_rows() const { return ends.empty() ? 0 : ends.back(); }
  void add(const WeightView& view) {
    ends.push_back(num_rows() + view.shape[0]);
    views.push_back(view);
  }
};

// Of values that are opened. The head stays at 8 bits: logits suffer most from less. A router is little, and
// all that follows hangs on it.
BlockFormat format_of_values(const WeightSpec& spec, const std::vector<WeightView>& views,
                             const CpuWeightSettings& settings) {
  const DataType type = packed_type(spec, settings.compute_type, views);
  if (spec.kind == MatrixKind::kRouter) return format_of(type);
  switch (settings.quantization) {
    case Quantization::kQ8: return BlockFormat::kQ8_0;
    case Quantization::kQ4: return spec.name == "lm_head" ? BlockFormat::kQ8_0 : BlockFormat::kQ4_0;
    case Quantization::kKeep:
    case Quantization::kNone: break;
  }
  return format_of(type);
}

// A router is opened, and so are experts whose sources differ: a product takes one expert's rows of one part.
bool may_keep_blocks(const WeightSpec& spec, const std::vector<WeightView>& views) {
  switch (spec.kind) {
    case MatrixKind::kPlain: return true;
    case MatrixKind::kRouter: return false;
    case MatrixKind::kExperts: break;
  }
  return std::all_of(views.begin(), views.end(),
                     [&](const auto& v) { return v.blocks == views.front().blocks; });
}

std::vector<MatrixPart> parts_of(const WeightSpec& spec, const std::vector<WeightView>& views,
                                 const CpuWeightSettings& settings) {
  const BlockFormat of_values = format_of_values(spec, views, settings);
  const bool may_keep = may_keep_blocks(spec, views);
  std::vector<MatrixPart> parts;
  for (const auto& view : views) {
    const bool keeps = may_keep && is_kept(view, settings);
    const BlockFormat format = keeps ? *view.blocks : of_values;
    if (parts.empty() || parts.back().keeps_blocks != keeps || parts.back().format != format)
      parts.push_back({.views = {}, .format = format, .keeps_blocks = keeps});
    parts.back().add(view);
  }
  return parts;
}

bool has_onednn(const WeightSpec& spec, const std::vector<MatrixPart>& parts,
                const CpuWeightSettings& settings) {
  return settings.with_onednn && spec.kind == MatrixKind::kPlain && parts.size() == 1 &&
         !is_quantized(parts.front().format);
}

// A table of one tensor in the network's order stays in its blocks.
bool is_kept_table(const std::vector<WeightView>& views, const CpuWeightSettings& settings) {
  return views.size() == 1 && is_kept(views.front(), settings) && views.front().paired_rows == 0 &&
         !views.front().packed;
}

// The matrix of the same tensor as a table; null: there is none.
const WeightSpec* find_tied(const std::vector<WeightSpec>& specs, const WeightSpec& table) {
  const auto found = std::find_if(specs.begin(), specs.end(), [&](const WeightSpec& spec) {
    return spec.is_matrix && spec.sources == table.sources && spec.order == FileOrder::kAsRead;
  });
  return found == specs.end() ? nullptr : &*found;
}

// A table in blocks whose rows a head has, so that it needs none of its own.
bool has_head(const std::vector<WeightSpec>& specs, const WeightSpec& table,
              const std::vector<WeightView>& views, const CpuWeightSettings& settings) {
  return is_kept_table(views, settings) && find_tied(specs, table) != nullptr;
}

std::vector<WeightElements> elements_of(std::span<const WeightView> views, ThreadPool& threads) {
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

std::vector<std::byte> load_rows(const std::vector<WeightElements>& sources) {
  std::vector<std::byte> rows;
  for (const auto& source : sources)
    rows.insert(rows.end(), source.data(), source.data() + source.size_bytes());
  return rows;
}

// None: they differ, and the table can't be read.
std::optional<BlockFormat> table_format(const std::vector<WeightView>& views,
                                        const CpuWeightSettings& settings) {
  if (is_kept_table(views, settings)) return views.front().blocks;
  if (all_of_one_type(views)) return format_of(views.front().type);
  return std::nullopt;
}

std::uint64_t table_bytes(const WeightSpec& spec, const std::vector<WeightView>& views,
                          const CpuWeightSettings& settings) {
  if (is_kept_table(views, settings)) return views.front().bytes.size();
  return std::uint64_t{spec.rows} * spec.columns * size_of(views.front().type);
}

// Hands out the segments of weights that were packed before.
class PackedSegments {
 public:
  explicit PackedSegments(std::span<const std::byte> packed) : rest_(packed) {}

  std::span<const std::byte> take(std::uint64_t size) {
    constexpr std::uint64_t kAlignment = CpuWeights::kSegmentAlignment;
    const std::uint64_t taken = (size + kAlignment - 1) / kAlignment * kAlignment;
    if (size > rest_.size() || taken > rest_.size())
      throw std::runtime_error("there are fewer weights than expected");
    const auto segment = rest_.first(size);
    rest_ = rest_.subspan(taken);
    return segment;
  }
  void check_end() const {
    if (!rest_.empty()) throw std::runtime_error("there are more weights than expected");
  }

 private:
  std::span<const std::byte> rest_;
};

std::vector<float> vector_of(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<MatrixSource> sources_of(std::span<const WeightView> views,
                                     const std::vector<WeightElements>& elements) {
  std::vector<MatrixSource> sources;
  for (std::size_t i = 0; i < views.size(); ++i) {
    sources.push_back(
        {.values = elements[i].data(), .type = elements[i].type(), .num_rows = views[i].shape[0]});
  }
  return sources;
}

// The file's blocks of a part's row.
void read_part(const MatrixPart& part, std::size_t row, std::size_t first_block,
               std::span<QuantizedBlock> blocks) {
  const auto end = std::upper_bound(part.ends.begin(), part.ends.end(), row);
  const auto* view = &part.views[static_cast<std::size_t>(end - part.ends.begin())];
  row -= *end - view->shape[0];
  const BlockLayout& layout = layout_of(part.format);
  const auto bytes_of = [&](std::size_t num_blocks) {
    return num_blocks * kBlockInputs / layout.num_elements * layout.num_bytes;
  };
  const std::size_t row_bytes = view->bytes.size() / view->shape[0];
  if (view->packed) return view->packed->read_blocks(view->row_in_file(row), first_block, blocks);
  if (!view->scales.empty()) {
    const std::size_t row_scales = view->scales.size() / view->shape[0], in_file = view->row_in_file(row);
    return read_mxfp4(view->bytes.subspan(in_file * row_bytes + first_block * kBlockInputs / 2,
                                          blocks.size() * kBlockInputs / 2),
                      view->scales.subspan(in_file * row_scales + first_block, blocks.size()), blocks);
  }
  read_blocks(part.format,
              view->bytes.subspan(view->row_in_file(row) * row_bytes + bytes_of(first_block),
                                  bytes_of(blocks.size())),
              blocks);
}

void pack(PackedMatrix& matrix, const WeightSpec& spec, ThreadPool& threads) {
  try {
    threads.run(matrix.num_pack_tasks(), [&](std::size_t task) { matrix.run_pack_task(task); });
  } catch (const std::range_error& error) {
    throw std::runtime_error("the weight \"" + spec.name + "\" " + error.what());
  }
  matrix.drop_sources();
}

// Rows of a packed tensor that follow each other.
class PackedRows final : public PackedTensor {
 public:
  PackedRows(std::shared_ptr<const PackedTensor> whole, std::size_t first_row, std::size_t num_rows)
      : whole_(std::move(whole)), first_row_(first_row), num_rows_(num_rows) {}

  std::vector<std::uint64_t> shape() const override { return {num_rows_, whole_->shape().at(1)}; }
  void open_row(std::size_t row, std::span<float> values) const override {
    whole_->open_row(first_row_ + row, values);
  }
  std::optional<BlockFormat> block_format() const override { return whole_->block_format(); }
  void read_blocks(std::size_t row, std::size_t first_block,
                   std::span<QuantizedBlock> blocks) const override {
    whole_->read_blocks(first_row_ + row, first_block, blocks);
  }
  bool is_finite() const override { return has_finite_rows(); }

 private:
  std::shared_ptr<const PackedTensor> whole_;
  std::size_t first_row_, num_rows_;
};

// [begin, end) of a view's rows, which are in the network's order.
WeightView rows_of(const WeightView& view, std::size_t begin, std::size_t end) {
  WeightView rows = view;
  rows.shape[0] = end - begin;
  if (view.packed) {
    rows.packed = std::make_shared<PackedRows>(view.packed, begin, end - begin);
  } else {
    const std::size_t row_bytes = view.bytes.size() / view.shape[0];
    rows.bytes = view.bytes.subspan(begin * row_bytes, (end - begin) * row_bytes);
  }
  return rows;
}

// In rows of whole panels that follow each other, where the file has them in the network's order: a head may
// be as large as all layers.
std::vector<WeightView> in_slices(const std::vector<WeightView>& views, std::size_t elements_at_once) {
  std::vector<WeightView> slices;
  for (const auto& view : views) {
    const std::size_t rows = view.shape[0], columns = view.shape[1];
    const bool is_in_order =
        view.order == FileOrder::kAsRead && view.paired_rows == 0 && !view.alternates && view.scales.empty();
    if (!is_in_order || rows * columns <= elements_at_once) {
      slices.push_back(view);
      continue;
    }
    const std::size_t panels =
        std::max<std::size_t>(1, elements_at_once / columns / PackedMatrix::kPanelWidth);
    const std::size_t at_once = panels * PackedMatrix::kPanelWidth;
    for (std::size_t row = 0; row < rows; row += at_once)
      slices.push_back(rows_of(view, row, std::min(row + at_once, rows)));
  }
  return slices;
}

// Opens sources of whole panels, so many elements at a time that all threads have work: no copy of a whole
// stack of experts is ever in memory.
void pack_values(PackedMatrix& matrix, const WeightSpec& spec, std::span<const WeightView> views,
                 std::size_t elements_at_once, ThreadPool& threads) {
  while (!views.empty()) {
    std::size_t count = 0, num_rows = 0;
    do {
      num_rows += views[count++].shape[0];
    } while (count < views.size() &&
             (num_rows % PackedMatrix::kPanelWidth != 0 || num_rows * spec.columns < elements_at_once));
    const auto some = views.first(count);
    const std::vector<WeightElements> elements = elements_of(some, threads);
    matrix.set_sources(sources_of(some, elements));
    pack(matrix, spec, threads);
    views = views.subspan(count);
  }
}

std::uint64_t num_elements(const WeightSpec& spec) {
  return std::uint64_t{std::max(spec.rows, 1U)} * spec.columns;
}

template <typename Map>
auto find_in(const Map& map, std::string_view name) {
  const auto found = map.find(name);
  return found == map.end() ? nullptr : &found->second;
}

}  // namespace

CpuWeights::CpuWeights(const WeightStore& store, const Network& network, CpuWeightSettings settings,
                       ThreadPool& threads, const PackingOptions& options)
    : settings_(settings) {
  const std::vector<WeightSpec> specs = network.weights();
  if (!specs.empty()) read_ahead(find_sources(store, specs.front()));
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const WeightSpec& spec = specs[i];
    store.check_unchanged();
    const auto views = find_sources(store, spec);
    if (i + 1 < specs.size()) read_ahead(find_sources(store, specs[i + 1]));
    check_finite(spec, views, [&](std::size_t num_tasks, const auto& task) { threads.run(num_tasks, task); });
    if (spec.is_matrix) {
      load_matrix(spec, views, options.elements_at_once, threads);
    } else if (spec.is_vector()) {
      add_vector(spec, load_vector(spec, elements_of(views, threads)));
    } else if (has_head(specs, spec, views, settings)) {
      if (options.report) options.report(num_elements(spec));
      continue;
    } else if (const auto format = table_format(views, settings)) {
      const bool is_kept = is_kept_table(views, settings);
      const auto bytes = views.front().bytes;
      table_rows_.push_back(is_kept ? std::vector(bytes.begin(), bytes.end())
                                    : load_rows(elements_of(views, threads)));
      tables_.emplace(spec.name, CpuTable{.rows = table_rows_.back(), .format = *format, .head = nullptr});
      segments_.emplace_back(table_rows_.back());
    } else {
      throw std::runtime_error("the tensors of \"" + spec.name + "\" differ in dtype");
    }
    give_memory_back(views);
    if (options.report) options.report(num_elements(spec));
  }
  store.check_unchanged();
  add_tied(store, specs);
}

CpuWeights::CpuWeights(const WeightStore& store, const Network& network, CpuWeightSettings settings,
                       std::span<const std::byte> packed, std::shared_ptr<const void> owner)
    : settings_(settings), owner_(std::move(owner)) {
  const std::vector<WeightSpec> specs = network.weights();
  PackedSegments segments(packed);
  for (const auto& spec : specs) {
    const auto views = find_sources(store, spec);
    if (spec.is_matrix) {
      CpuMatrix& matrix = matrices_[spec.name];
      for (const auto& part : parts_of(spec, views, settings)) {
        segments_.push_back(
            segments.take(PackedMatrix::packed_bytes(part.num_rows(), spec.columns, part.format)));
        matrix.parts.emplace_back(segments_.back().data(), part.num_rows(), spec.columns, part.format);
      }
    } else if (spec.is_vector()) {
      add_vector(spec, vector_of(segments.take(std::uint64_t{spec.columns} * sizeof(float))));
    } else if (!has_head(specs, spec, views, settings)) {
      segments_.push_back(segments.take(table_bytes(spec, views, settings)));
      tables_.emplace(spec.name, CpuTable{.rows = segments_.back(),
                                          .format = table_format(views, settings).value(),
                                          .head = nullptr});
    }
  }
  segments.check_end();
  add_tied(store, specs);
}

void CpuWeights::add_vector(const WeightSpec& spec, std::vector<float> values) {
  const auto added = vectors_.emplace(spec.name, std::move(values)).first;
  segments_.push_back(std::as_bytes(std::span(added->second)));
}

void CpuWeights::add_tied(const WeightStore& store, const std::vector<WeightSpec>& specs) {
  for (const auto& spec : specs) {
    const bool is_table = !spec.is_matrix && !spec.is_vector();
    if (!is_table || !has_head(specs, spec, find_sources(store, spec), settings_)) continue;
    const PackedMatrix& head = matrices_.at(find_tied(specs, spec)->name).parts.front();
    tables_.emplace(spec.name, CpuTable{.rows = {}, .format = head.format(), .head = &head});
  }
}

void CpuWeights::load_matrix(const WeightSpec& spec, const std::vector<WeightView>& views,
                             std::size_t elements_at_once, ThreadPool& threads) {
  CpuMatrix matrix;
  const auto parts = parts_of(spec, views, settings_);
  for (const auto& part : parts) {
    if (part.keeps_blocks) {
      const auto read = [&part](std::size_t row, std::size_t first_block, std::span<QuantizedBlock> blocks) {
        read_part(part, row, first_block, blocks);
      };
      matrix.parts.emplace_back(read, part.num_rows(), spec.columns, part.format);
      pack(matrix.parts.back(), spec, threads);
      continue;
    }
    matrix.parts.emplace_back(part.num_rows(), spec.columns, part.format);
    pack_values(matrix.parts.back(), spec, in_slices(part.views, elements_at_once), elements_at_once,
                threads);
    if (has_onednn(spec, parts, settings_)) {
      const std::vector<WeightElements> elements = elements_of(part.views, threads);
      const std::vector<MatrixSource> sources = sources_of(part.views, elements);
      // Two slices a thread even out threads that run at different speeds.
      matrix.onednn.emplace(sources, spec.columns, settings_.compute_type,
                            std::size_t{2} * threads.num_threads());
    }
  }
  for (const auto& part : matrix.parts) segments_.emplace_back(part.panel(0), part.size_bytes());
  matrices_.emplace(spec.name, std::move(matrix));
}

std::size_t CpuMatrix::num_outputs() const {
  std::size_t sum = 0;
  for (const auto& part : parts) sum += part.num_outputs();
  return sum;
}

std::size_t CpuTable::num_elements() const {
  if (head != nullptr) return head->num_outputs() * head->num_inputs();
  const BlockLayout& layout = layout_of(format);
  return rows.size() / layout.num_bytes * layout.num_elements;
}

void CpuTable::open_row(std::size_t row, std::span<float> values) const {
  if (head == nullptr) {
    const BlockLayout& layout = layout_of(format);
    const std::size_t row_bytes = values.size() / layout.num_elements * layout.num_bytes;
    return dequantize(format, rows.subspan(row * row_bytes, row_bytes), values);
  }
  std::array<QuantizedBlock, kSuperBlocks> blocks;
  const std::size_t num_blocks = values.size() / kBlockInputs;
  for (std::size_t first = 0; first < num_blocks; first += kSuperBlocks) {
    const auto some = std::span(blocks).first(std::min(kSuperBlocks, num_blocks - first));
    head->read_blocks(row, first, some);
    open_blocks(format, some, values.subspan(first * kBlockInputs, some.size() * kBlockInputs));
  }
}

const CpuMatrix* CpuWeights::find_matrix(std::string_view name) const { return find_in(matrices_, name); }
const std::vector<float>* CpuWeights::find_vector(std::string_view name) const {
  return find_in(vectors_, name);
}
const CpuTable* CpuWeights::find_table(std::string_view name) const { return find_in(tables_, name); }

std::set<BlockFormat> cpu_block_formats(const WeightStore& store, const Network& network,
                                        CpuWeightSettings settings) {
  std::set<BlockFormat> formats;
  for (const auto& spec : network.weights()) {
    const auto views = find_sources(store, spec);
    for (const auto& part : spec.is_matrix ? parts_of(spec, views, settings) : std::vector<MatrixPart>()) {
      if (is_quantized(part.format)) formats.insert(part.format);
    }
  }
  return formats;
}

std::string in_words(const std::set<BlockFormat>& formats, Quantization quantization) {
  const bool makes_blocks = quantization == Quantization::kQ8 || quantization == Quantization::kQ4;
  if (makes_blocks) return std::string(name_of(quantization));
  std::set<std::string_view> names;
  for (const BlockFormat format : formats) names.insert(layout_of(format).name);
  std::string text;
  for (const auto name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

std::uint64_t num_weight_elements(const Network& network) {
  std::uint64_t sum = 0;
  for (const auto& spec : network.weights()) sum += num_elements(spec);
  return sum;
}

std::uint64_t cpu_weight_bytes(const WeightStore& store, const Network& network, CpuWeightSettings settings) {
  std::uint64_t sum = 0;
  const std::vector<WeightSpec> specs = network.weights();
  for (const auto& spec : specs) {
    const auto views = find_sources(store, spec);
    const std::uint64_t elements = std::uint64_t{spec.rows} * spec.columns;
    if (spec.is_vector()) {
      sum += elements * sizeof(float);
    } else if (!spec.is_matrix) {
      sum += has_head(specs, spec, views, settings) ? 0 : table_bytes(spec, views, settings);
    } else {
      const auto parts = parts_of(spec, views, settings);
      for (const auto& part : parts)
        sum += PackedMatrix::packed_bytes(part.num_rows(), spec.columns, part.format);
      if (has_onednn(spec, parts, settings)) {
        // oneDNN pads outputs and inputs to blocks of up to 64.
        const std::uint64_t rows = (std::uint64_t{spec.rows} + 63) / 64 * 64;
        const std::uint64_t columns = (std::uint64_t{spec.columns} + 63) / 64 * 64;
        sum += rows * columns * size_of(settings.compute_type);
      }
    }
  }
  return sum;
}

}  // namespace troupe
