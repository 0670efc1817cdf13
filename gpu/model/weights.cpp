// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/weights.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "gpu/model/gguf_config.hpp"
#include "gpu/model/json_file.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMaxIndexBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxShards = 1000;

// A shard is a plain file name in the model's own directory.
bool is_shard_name(std::string_view name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 128 && name.front() != '.' && name.ends_with(".safetensors") &&
         std::all_of(name.begin(), name.end(), is_allowed);
}

std::string shown(const std::vector<std::uint64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

// Checkpoints of early BERTs say gamma and beta.
std::string modern_name(const std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> kEndings[] = {
      {".LayerNorm.gamma", ".LayerNorm.weight"}, {".LayerNorm.beta", ".LayerNorm.bias"}};
  for (const auto& [early, modern] : kEndings)
    if (name.ends_with(early)) return name.substr(0, name.size() - early.size()) + std::string(modern);
  return name;
}

// "…_blocks" has them in "…_scales".
std::string scales_of(const std::string& blocks) { return blocks.substr(0, blocks.rfind('_')) + "_scales"; }

// One more than the highest number behind the prefix.
std::uint64_t count_layers(const WeightStore& store, const std::string& prefix) {
  std::uint64_t count = 0;
  for (auto tensor = store.tensors().lower_bound(prefix);
       tensor != store.tensors().end() && tensor->first.starts_with(prefix); ++tensor) {
    const char* begin = tensor->first.data() + prefix.size();
    const char* end = tensor->first.data() + tensor->first.size();
    std::uint32_t number = 0;
    const auto read = std::from_chars(begin, end, number);
    if (read.ec == std::errc() && read.ptr != end && *read.ptr == '.') {
      count = std::max(count, std::uint64_t{number} + 1);
    }
  }
  return count;
}

// Without a branch in the loop, so that it runs as fast as memory is read.
template <class Bits>
bool has_no_full_exponent(std::span<const std::byte> bytes, Bits exponent) {
  constexpr std::size_t kBlock = 4096;
  for (std::size_t begin = 0; begin < bytes.size(); begin += kBlock * sizeof(Bits)) {
    const std::size_t count = std::min(kBlock, (bytes.size() - begin) / sizeof(Bits));
    unsigned num_full = 0;
    for (std::size_t i = 0; i < count; ++i) {
      Bits value;
      std::memcpy(&value, bytes.data() + begin + i * sizeof(Bits), sizeof(Bits));
      num_full += (value & exponent) == exponent ? 1 : 0;
    }
    if (num_full > 0) return false;
  }
  return true;
}

// Of some rows' bytes. Infinity and NaN are the values whose exponent is all ones.
bool is_finite(const WeightView& view, std::span<const std::byte> bytes) {
  if (view.packed) return view.packed->is_finite();
  if (!view.scales.empty()) return has_finite_mxfp4_scales(view.scales);
  if (view.blocks) return has_finite_scales(*view.blocks, bytes);
  switch (view.type) {
    case DataType::kF32: return has_no_full_exponent<std::uint32_t>(bytes, 0x7F800000);
    case DataType::kBF16: return has_no_full_exponent<std::uint16_t>(bytes, 0x7F80);
    case DataType::kF16: return has_no_full_exponent<std::uint16_t>(bytes, 0x7C00);
    case DataType::kI32: break;
  }
  return true;
}

// Whole rows of a view, by number.
constexpr std::size_t kBytesATask = std::size_t{4} << 20;
std::size_t task_bytes(const WeightView& view) {
  const bool is_one_task =
      view.bytes.empty() || view.shape.size() < 2 || !view.scales.empty() || view.packed != nullptr;
  if (is_one_task) return std::max<std::size_t>(view.bytes.size(), 1);
  const std::size_t row_bytes = view.bytes.size() / view.shape[0];
  return std::max<std::size_t>(kBytesATask / row_bytes, 1) * row_bytes;
}

// The whole pages between the bytes' ends.
void advise(std::span<const std::byte> bytes, int advice) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t first = (address + page - 1) / page * page;
  const std::uintptr_t last = (address + bytes.size()) / page * page;
  // A hint: where it is refused, nothing is lost.
  if (last > first) (void)::madvise(reinterpret_cast<void*>(first), last - first, advice);
}

std::string expected(const WeightSpec& spec) {
  const std::string columns = std::to_string(spec.columns);
  const std::string total =
      spec.is_vector() ? "[" + columns + "]" : "[" + std::to_string(spec.rows) + ", " + columns + "]";
  return "expected " + total +
         (spec.sources.size() > 1 ? " together from " + std::to_string(spec.sources.size()) + " tensors"
                                  : "") +
         (spec.kind == MatrixKind::kExperts ? " of one size" : "");
}

// Throws std::runtime_error: the network's order cannot be made of the file's.
void check_order(const WeightSpec& spec, const std::string& source, const WeightView& view) {
  if ((view.blocks || view.packed) && spec.order != FileOrder::kAsRead) {
    throw std::runtime_error(
        "tensor \"" + source + "\" is " +
        (view.blocks ? "in blocks of " + std::string(layout_of(*view.blocks).name) : "quantized") +
        " in an order other than the network's, expected F32, F16 or BF16");
  }
  if (spec.alternates && view.shape[0] % 2 != 0) {
    throw std::runtime_error("tensor \"" + source + "\" has " + std::to_string(view.shape[0]) +
                             " rows of two halves that take turns, expected an even number");
  }
  if (view.head_dim != 0 && view.paired_rows != 0 && view.shape[0] % view.head_dim != 0) {
    throw std::runtime_error("tensor \"" + source + "\" has " + std::to_string(view.shape[0]) +
                             " rows, expected heads of " + std::to_string(view.head_dim));
  }
}

}  // namespace

std::uint64_t WeightView::row_in_file(std::uint64_t row) const {
  if (order == FileOrder::kHeadByHead) {
    const std::uint64_t part_rows = shape[0] / 3, in_part = row % part_rows;
    return (in_part / head_dim * 3 + row / part_rows) * head_dim + in_part % head_dim;
  }
  if (alternates) return row < shape[0] / 2 ? 2 * row : 2 * (row - shape[0] / 2) + 1;
  if (paired_rows == 0) return row;
  const std::uint64_t in_head = row % (head_dim == 0 ? paired_rows : head_dim), half = paired_rows / 2;
  if (in_head >= paired_rows) return row;
  return row - in_head + (in_head < half ? 2 * in_head : 2 * (in_head - half) + 1);
}

WeightStore::WeightStore(const std::filesystem::path& model) : model_(model) {
  if (is_gguf_path(model)) {
    add_gguf(model);
    return;
  }
  const auto single = model / "model.safetensors";
  const auto index = model / "model.safetensors.index.json";
  if (std::filesystem::exists(single)) {
    add_single(single);
  } else if (std::filesystem::exists(index)) {
    add_shards(model, index);
  } else {
    throw std::runtime_error(single.string() + ": is missing, and so is model.safetensors.index.json");
  }
  split_experts();
  join_quantized();
}

WeightView WeightStore::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw std::runtime_error(model_.string() + ": the weights have no tensor \"" + std::string(name) + "\"");
  }
  const Tensor& tensor = found->second;
  if (!tensor.is_readable) {
    throw std::runtime_error(
        tensor.file->path().string() + ": tensor \"" + std::string(name) + "\" has dtype " +
        tensor.element_type + ", expected " +
        (gguf_ ? "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K, IQ4_NL or MXFP4"
               : "F32, F16 or BF16"));
  }
  return tensor.view;
}

std::vector<WeightFile> WeightStore::files() const {
  std::vector<WeightFile> files;
  for (const MappedFile* file : mapped_files()) files.push_back({file->path(), file->bytes().size()});
  return files;
}

std::string WeightStore::identity() const {
  std::string identity;
  for (const MappedFile* file : mapped_files()) identity += file->identity() + "\n";
  for (const std::uint64_t number :
       {static_cast<std::uint64_t>(quantization_.format), std::uint64_t{quantization_.group_size},
        std::uint64_t{quantization_.added_zero}, std::uint64_t{quantization_.block_size.rows},
        std::uint64_t{quantization_.block_size.columns}})
    identity += std::to_string(number) + " ";
  return identity + "\n" + shards_;
}

void WeightStore::check_unchanged() const {
  for (const MappedFile* file : mapped_files()) {
    if (!file->is_unchanged()) {
      throw std::runtime_error(file->path().string() + ": was changed while it was being loaded");
    }
  }
}

std::vector<const MappedFile*> WeightStore::mapped_files() const {
  std::vector<const MappedFile*> files;
  for (const auto& file : safetensors_) files.push_back(&file->mapped());
  if (gguf_) {
    for (const auto& part : gguf_->parts()) files.push_back(part.get());
  }
  return files;
}

void WeightStore::add_single(const std::filesystem::path& path) {
  safetensors_.push_back(std::make_unique<SafetensorsFile>(path));
  for (const auto& entry : safetensors_.back()->entries()) add_entry(*safetensors_.back(), entry);
}

void WeightStore::add_entry(const SafetensorsFile& file, const SafetensorsEntry& entry) {
  const std::string name = modern_name(entry.name);
  if (name != entry.name && file.find(name) != nullptr)
    throw std::runtime_error("the tensor \"" + entry.name + "\" has another of its modern name beside it");
  tensors_[name] = {
      .file = &file.mapped(),
      .element_type = entry.element_type,
      .is_readable = entry.type && *entry.type != DataType::kI32,
      .view = {
          .type = entry.type.value_or(DataType::kF32), .shape = entry.shape, .bytes = file.bytes_of(entry)}};
}

// gpt-oss has all experts of a layer in one tensor, whose blocks and scales may be apart.
void WeightStore::split_experts() {
  struct Stack {
    const char *ending, *name;
  };
  constexpr Stack kStacks[] = {{".mlp.experts.gate_up_proj", "gate_up_proj.weight"},
                               {".mlp.experts.gate_up_proj_blocks", "gate_up_proj.weight"},
                               {".mlp.experts.gate_up_proj_bias", "gate_up_proj.bias"},
                               {".mlp.experts.down_proj", "down_proj.weight"},
                               {".mlp.experts.down_proj_blocks", "down_proj.weight"},
                               {".mlp.experts.down_proj_bias", "down_proj.bias"}};
  std::vector<std::pair<std::string, Tensor>> found;
  std::vector<std::string> parts;  // of them in the file
  for (const auto& [name, tensor] : tensors_) {
    const auto* stack = std::find_if(std::begin(kStacks), std::end(kStacks),
                                     [&](const Stack& known) { return name.ends_with(known.ending); });
    if (stack == std::end(kStacks)) continue;
    const bool is_in_blocks = name.ends_with("_blocks");
    parts.push_back(name);
    if (is_in_blocks) parts.push_back(scales_of(name));
    const std::string layer = name.substr(0, name.size() - std::string_view(stack->ending).size());
    found.emplace_back(layer + ".mlp.experts.*." + stack->name, is_in_blocks ? joined_blocks(name) : tensor);
  }
  for (const auto& name : parts) tensors_.erase(name);
  for (auto& [name, tensor] : found) add_unique(name, std::move(tensor));
}

// Of [..., blocks, 16] bytes and [..., blocks] scales.
WeightStore::Tensor WeightStore::joined_blocks(const std::string& name) const {
  constexpr std::uint64_t kBlockBytes = 16;
  Tensor tensor = tensors_.at(name);
  const auto scales = tensors_.find(scales_of(name));
  auto& shape = tensor.view.shape;
  const bool are_blocks = tensor.element_type == "U8" && shape.size() == 4 && shape[3] == kBlockBytes;
  if (!are_blocks || scales == tensors_.end() || scales->second.element_type != "U8" ||
      scales->second.view.shape != std::vector(shape.begin(), shape.end() - 1)) {
    throw std::runtime_error(tensor.file->path().string() + ": tensor \"" + name +
                             "\" is not of blocks of 16 bytes, U8, with a scale each in \"" +
                             scales_of(name) + "\"");
  }
  shape = {shape[0], shape[1], shape[2] * 2 * kBlockBytes};
  tensor.element_type = layout_of(BlockFormat::kMxfp4).name;
  tensor.is_readable = true;
  tensor.view.blocks = BlockFormat::kMxfp4;
  tensor.view.scales = scales->second.view.bytes;
  return tensor;
}

void WeightStore::add_gguf(const std::filesystem::path& path) {
  gguf_ = std::make_unique<GgufFile>(path);
  const std::string* architecture = gguf_->find_text("general.architecture");
  for (const auto& [name, tensor] : gguf_->tensors()) {
    const BlockLayout* layout = tensor.entry.layout;
    const bool is_plain = layout != nullptr && layout->plain;
    const std::string known = hugging_face_name(name, architecture != nullptr ? *architecture : "");
    add_unique(known, {.file = tensor.part,
                       .element_type = tensor.entry.type_name(),
                       .is_readable = layout != nullptr,
                       .view = {.type = is_plain ? *layout->plain : DataType::kF32,
                                .shape = tensor.entry.shape(),
                                .bytes = tensor.bytes(),
                                .blocks = layout == nullptr || is_plain ? std::nullopt
                                                                        : std::optional(layout->format),
                                .paired_rows = gguf_paired_rows(*gguf_, name)}});
  }
}

void WeightStore::add_unique(const std::string& name, Tensor tensor) {
  constexpr std::string_view kExperts = "experts.*.";
  const std::size_t found = name.find(kExperts);
  if (found != std::string::npos) return add_experts(name, found + kExperts.size() - 2, tensor);
  const std::filesystem::path& path = tensor.file->path();
  if (!tensors_.emplace(name, std::move(tensor)).second)
    throw std::runtime_error(path.string() + ": the tensor " + shown_gguf_name(name) +
                             " occurs under two names");
}

// [experts, rows, columns], of which each expert is a tensor of its own; a bias has no columns.
void WeightStore::add_experts(const std::string& name, std::size_t number_at, const Tensor& stack) {
  constexpr std::uint64_t kMaxExperts = 4096;
  const auto& shape = stack.view.shape;
  const auto refuse = [&](const std::string& reason) -> void {
    throw std::runtime_error(stack.file->path().string() + ": the tensor " + shown_gguf_name(name) + reason);
  };
  const bool is_empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  if (shape.size() < 2 || is_empty || shape[0] > kMaxExperts)
    refuse(" has shape " + shown(shape) + ", expected those of 1 to 4096 experts");
  // A stack costs a file a name, but the store one for each expert.
  if (tensors_.size() + shape[0] > SafetensorsLimits::kMaxTensors)
    refuse(" of " + std::to_string(shape[0]) + " experts makes more than 200000 tensors");
  const std::size_t size = stack.view.bytes.size() / shape[0];
  for (std::uint64_t expert = 0; expert < shape[0]; ++expert) {
    Tensor tensor = stack;
    tensor.view.shape.erase(tensor.view.shape.begin());
    tensor.view.bytes = stack.view.bytes.subspan(expert * size, size);
    const std::size_t scales = stack.view.scales.size() / shape[0];
    if (scales > 0) tensor.view.scales = stack.view.scales.subspan(expert * scales, scales);
    add_unique(std::string(name).replace(number_at, 1, std::to_string(expert)), std::move(tensor));
  }
}

void WeightStore::add_shards(const std::filesystem::path& model_dir,
                             const std::filesystem::path& index_path) {
  const auto refuse = [&](const std::string& reason) -> void {
    throw std::runtime_error(index_path.string() + ": " + reason);
  };
  const auto index = read_json_file(index_path, kMaxIndexBytes);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object()) refuse("has no object \"weight_map\"");
  if (map->size() > SafetensorsLimits::kMaxTensors) refuse("names more than 200000 tensors");

  std::map<std::string, const SafetensorsFile*> shards;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string() || !is_shard_name(shard.get_ref<const std::string&>())) {
      refuse("gives tensor \"" + tensor.substr(0, 64) + "\" a file that is no plain *.safetensors name");
    }
    const auto& name = shard.get_ref<const std::string&>();
    auto opened = shards.find(name);
    if (opened == shards.end()) {
      if (shards.size() == kMaxShards) refuse("names more than 1000 files");
      safetensors_.push_back(std::make_unique<SafetensorsFile>(model_dir / name));
      opened = shards.emplace(name, safetensors_.back().get()).first;
    }
    const auto* entry = opened->second->find(tensor);
    if (entry == nullptr) {
      refuse("puts tensor \"" + tensor.substr(0, 64) + "\" in " + name + ", which does not have it");
    }
    shards_ += tensor + " " + name + "\n";
    add_entry(*opened->second, *entry);
  }
}

std::vector<WeightView> find_sources(const WeightStore& store, const WeightSpec& spec) {
  const bool is_vector = spec.is_vector();
  const std::uint64_t total = is_vector ? spec.columns : spec.rows;
  std::vector<WeightView> views;
  std::uint64_t stacked = 0;
  for (const auto& source : spec.sources) {
    const bool has_prefix =
        !spec.other_prefix.empty() && !store.has(source) && store.has(spec.other_prefix + source);
    views.push_back(store.find(has_prefix ? spec.other_prefix + source : source));
    auto& shape = views.back().shape;
    if (spec.order == FileOrder::kTransposed && shape.size() == 2) std::swap(shape[0], shape[1]);
    if (is_vector && shape.size() == 2 && shape[0] == 1) shape.erase(shape.begin());  // Marian's bias
    if (spec.row_width != 0 && shape.size() == 3 && shape[1] == 1) shape.erase(shape.begin() + 1);
    if (spec.row_width != 0 && shape.size() == 2 && shape[1] == spec.row_width) shape = {shape[0] * shape[1]};
    views.back().order = spec.order;
    views.back().head_dim = spec.head_dim;
    views.back().alternates = spec.alternates;
    if (spec.paired_rows != 0 && views.size() < spec.sources.size())
      views.back().paired_rows = spec.paired_rows;
    bool fits = is_vector ? shape.size() == 1 : shape.size() == 2 && shape[1] == spec.columns;
    // A product takes the rows of an expert by its number.
    if (fits && spec.kind == MatrixKind::kExperts) fits = shape[0] == total / spec.sources.size();
    // No overflow: a shape's product was checked against the file's size.
    stacked += fits ? shape[0] : 0;
    if (!fits || stacked > total) {
      throw std::runtime_error("tensor \"" + source + "\" has shape " + shown(shape) +
                               ", which does not fit the configuration: " + expected(spec));
    }
    check_order(spec, source, views.back());
  }
  if (stacked != total) {
    throw std::runtime_error("tensor \"" + spec.sources.back() + "\" has shape " + shown(views.back().shape) +
                             ", which does not fit the configuration: " + expected(spec));
  }
  return views;
}

void run_in_turn(std::size_t num_tasks, const std::function<void(std::size_t)>& task) {
  for (std::size_t i = 0; i < num_tasks; ++i) task(i);
}

void check_finite(const WeightSpec& spec, const std::vector<WeightView>& views, const RunTasks& run_tasks) {
  for (std::size_t i = 0; i < views.size(); ++i) {
    const auto bytes = views[i].bytes;
    const std::size_t at_once = task_bytes(views[i]);
    run_tasks((bytes.size() + at_once - 1) / at_once, [&](std::size_t task) {
      const std::size_t begin = task * at_once;
      if (is_finite(views[i], bytes.subspan(begin, std::min(at_once, bytes.size() - begin)))) return;
      throw std::runtime_error("tensor \"" + spec.sources[i] +
                               "\" has values that are infinite or not a number");
    });
  }
}

void read_ahead(const std::vector<WeightView>& views) {
  for (const auto& view : views) advise(view.bytes, MADV_WILLNEED);
}

void give_memory_back(const std::vector<WeightView>& views) {
  for (const auto& view : views) advise(view.bytes, MADV_DONTNEED);
}

void check_weights(const WeightStore& store, const Network& network) {
  std::uint64_t num_layers = 0;
  for (const auto& prefix : network.layer_prefixes())
    num_layers = std::max(num_layers, count_layers(store, prefix));
  const std::uint32_t stated = network.num_layers();
  if (num_layers > stated) {
    throw std::runtime_error("the configuration says num_hidden_layers " + std::to_string(stated) +
                             ", but the weights have " + std::to_string(num_layers) + " layers");
  }
  std::set<std::string, std::less<>> read;
  for (const auto& spec : network.weights()) {
    find_sources(store, spec);
    read.insert(spec.sources.begin(), spec.sources.end());
  }
  if (!store.is_gguf()) return;
  // Its configuration is made of what is known: a tensor beyond that would be left out in silence.
  for (const auto& [name, tensor] : store.tensors()) {
    if ((name.starts_with("model.layers.") || name.starts_with("blk.")) && !read.contains(name))
      throw std::runtime_error("the tensor " + shown_gguf_name(name) + " is none that this network reads");
  }
}

}  // namespace troupe
