// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/conversion/gguf_tensors.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "gpu/model/gguf_config.hpp"
#include "gpu/model/weight_elements.hpp"

namespace troupe {
namespace {

// Of a plain matrix's file, of blocks those that were opened.
BlockFormat stored_format(const WeightView& view) {
  return view.packed ? BlockFormat::kF32 : view.blocks.value_or(format_of(view.type));
}

// Rows of other lengths can't be of blocks.
BlockFormat format_for(BlockFormat wanted, const WeightView& view, std::uint64_t columns) {
  if (columns % layout_of(wanted).num_elements == 0) return wanted;
  const bool is_plain = !view.packed && !view.blocks && view.order != FileOrder::kTransposed;
  return is_plain ? format_of(view.type) : BlockFormat::kF32;
}

std::string with_part(std::string name, std::string_view part) {
  constexpr std::string_view kFused = "gate_up_proj";
  const std::size_t at = name.find(kFused);
  return at == std::string::npos ? name : name.replace(at, kFused.size(), part);
}

bool is_of_expert(std::string_view name) { return name.find(".experts.") != std::string_view::npos; }

// Collects a directory's tensors; those of experts are stacked.
class TensorList {
 public:
  TensorList(const WeightStore& store, std::string architecture, BlockFormat format, std::uint32_t head_dim)
      : store_(store), architecture_(std::move(architecture)), format_(format), head_dim_(head_dim) {}

  void add(const WeightSpec& spec, const std::vector<WeightView>& views) {
    for (std::size_t i = 0; i < views.size(); ++i) {
      const std::string& source = spec.sources[i];
      // The same rows a second time: the head of tied embeddings.
      if (!is_of_expert(source) && places_.contains(name_of(source))) continue;
      if (!spec.alternates) {
        add_rows(spec, source, views[i], 0, views[i].shape[0]);
        continue;
      }
      const std::uint64_t half = views[i].shape[0] / 2;
      add_rows(spec, with_part(source, "gate_proj"), views[i], 0, half);
      add_rows(spec, with_part(source, "up_proj"), views[i], half, half);
    }
  }

  std::vector<ConvertedTensor> take() && { return std::move(tensors_); }

 private:
  std::string name_of(const std::string& source) const {
    std::string name = gguf_tensor_name(source, architecture_);
    if (name.empty()) throw std::runtime_error("tensor \"" + source + "\" has no name in a GGUF file");
    return name;
  }

  void add_rows(const WeightSpec& spec, const std::string& source, const WeightView& view,
                std::uint64_t first_row, std::uint64_t num_rows) {
    const std::string name = name_of(source);
    const auto [place, is_new] = places_.emplace(name, tensors_.size());
    if (is_new) {
      tensors_.emplace_back();
      tensors_.back().entry.name = name;
    }
    ConvertedTensor& tensor = tensors_[place->second];
    spec.is_vector() ? add_vector(spec, source, view, first_row, num_rows, tensor)
                     : add_matrix(spec, source, view, first_row, num_rows, tensor);
  }

  void add_matrix(const WeightSpec& spec, const std::string& source, const WeightView& view,
                  std::uint64_t first_row, std::uint64_t num_rows, ConvertedTensor& tensor) {
    const bool is_finer = spec.is_table || spec.name == "lm_head";
    tensor.entry.dimensions = {spec.columns, num_rows};
    tensor.parts.push_back({view, first_row, num_rows});
    if (is_of_expert(source)) tensor.entry.dimensions.push_back(tensor.parts.size());
    tensor.entry.format = spec.kind == MatrixKind::kRouter
                              ? BlockFormat::kF32
                              : format_for(is_finer ? BlockFormat::kQ8_0 : format_, view, spec.columns);
    if (is_rotated(tensor.entry.name)) tensor.paired_rows = head_dim_;
  }

  void add_vector(const WeightSpec& spec, const std::string& source, const WeightView& view,
                  std::uint64_t first_row, std::uint64_t num_rows, ConvertedTensor& tensor) {
    const WeightElements elements(view);
    std::vector<float> values(elements.num_elements());
    dequantize(format_of(elements.type()), {elements.data(), elements.size_bytes()}, values);
    for (std::uint64_t row = first_row; row < first_row + num_rows; ++row)
      tensor.values.push_back(values[row] + spec.added);
    tensor.entry.dimensions = {num_rows};
    // A convolution: [channels, 1, taps].
    if (store_.has(source) && store_.find(source).shape.size() == 3)
      tensor.entry.dimensions = {store_.find(source).shape[2], store_.find(source).shape[0]};
    if (is_of_expert(source)) tensor.entry.dimensions.push_back(tensor.values.size() / num_rows);
    if (is_rotated(tensor.entry.name)) put_in_pairs(tensor.values);
  }

  bool is_rotated(std::string_view name) const {
    const std::string_view module = name.substr(0, name.rfind('.'));
    return has_gguf_pairs(architecture_) && (module.ends_with(".attn_q") || module.ends_with(".attn_k"));
  }

  void put_in_pairs(std::vector<float>& values) const;

  const WeightStore& store_;
  std::string architecture_;
  BlockFormat format_;
  std::uint32_t head_dim_;
  std::vector<ConvertedTensor> tensors_;
  std::map<std::string, std::size_t> places_;
};

// Element i of the first half of a head is followed by element i of the second.
std::uint64_t row_of_pairs(std::uint64_t row, std::uint64_t head_dim) {
  const std::uint64_t in_head = row % head_dim;
  return row - in_head + in_head / 2 + (in_head % 2 == 0 ? 0 : head_dim / 2);
}

void TensorList::put_in_pairs(std::vector<float>& values) const {
  std::vector<float> pairs(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) pairs[i] = values[row_of_pairs(i, head_dim_)];
  values = std::move(pairs);
}

// Matrices of products and the table of the vocabulary, by their names.
bool is_quantizable(const GgufTensor& tensor) {
  return tensor.dimensions.size() >= 2 && tensor.name.ends_with(".weight") &&
         !tensor.name.ends_with("ffn_gate_inp.weight");
}

}  // namespace

std::vector<ConvertedTensor> tensors_of_directory(const WeightStore& store, const Network& network,
                                                  const std::string& architecture, BlockFormat format) {
  TensorList list(store, architecture, format, network.shapes().head_dim);
  for (const WeightSpec& spec : network.weights()) list.add(spec, find_sources(store, spec));
  return std::move(list).take();
}

std::vector<ConvertedTensor> tensors_of_gguf(const GgufFile& file, BlockFormat format) {
  std::vector<ConvertedTensor> tensors;
  for (const auto& [name, tensor] : file.tensors()) {
    const GgufTensor& entry = tensor.entry;
    if (entry.layout == nullptr)
      file.refuse("tensor " + shown_gguf_name(name) + " is in " + entry.type_name() +
                  ", which is not read here");
    ConvertedTensor converted{
        .entry = {.name = name, .dimensions = entry.dimensions, .format = {}}, .parts = {}, .values = {}};
    const std::uint64_t num_rows = converted.entry.num_rows(), columns = entry.dimensions.front();
    WeightView view{.shape = {num_rows, columns}, .bytes = tensor.bytes()};
    if (entry.layout->plain) view.type = *entry.layout->plain;
    if (!entry.layout->plain) view.blocks = entry.layout->format;
    const bool is_finer = name == "token_embd.weight" || name == "output.weight";
    converted.entry.format = is_quantizable(entry)
                                 ? format_for(is_finer ? BlockFormat::kQ8_0 : format, view, columns)
                                 : entry.layout->format;
    converted.parts.push_back({std::move(view), 0, num_rows});
    tensors.push_back(std::move(converted));
  }
  return tensors;
}

void write_row(const ConvertedTensor& tensor, std::uint64_t row, const QuantizeRow& quantize_row,
               std::span<std::byte> bytes) {
  const std::uint64_t columns = tensor.entry.dimensions.front();
  if (tensor.parts.empty()) {
    std::memcpy(bytes.data(), tensor.values.data() + row * columns, bytes.size());
    return;
  }
  const std::uint64_t rows_a_part = tensor.parts.front().num_rows;
  const ConvertedTensor::Part& part = tensor.parts[row / rows_a_part];
  std::uint64_t in_part = row % rows_a_part;
  if (tensor.paired_rows != 0) in_part = row_of_pairs(in_part, tensor.paired_rows);
  const std::uint64_t in_view = part.first_row + in_part;
  if (stored_format(part.view) == tensor.entry.format) {
    if (const auto stored = bytes_of_row(part.view, in_view); !stored.empty()) {
      std::copy(stored.begin(), stored.end(), bytes.begin());
      return;
    }
  }
  std::vector<float> values(columns);
  open_row(part.view, in_view, values);
  if (tensor.entry.format == BlockFormat::kF32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
  } else {
    quantize_row(tensor.entry.format, values, bytes);
  }
}

}  // namespace troupe
