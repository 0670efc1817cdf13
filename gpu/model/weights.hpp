// SPDX-License-Identifier: Apache-2.0
// The tensors of a model by name: mapped from a directory's model.safetensors, from
// the shards that model.safetensors.index.json names, or from a GGUF file, whose
// tensors have Hugging Face's names here. Devices copy and pack what they need at
// load and drop the store.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/data_type.hpp"
#include "gpu/model/block_formats.hpp"
#include "gpu/model/gguf_file.hpp"
#include "gpu/model/quantized/packed_tensor.hpp"
#include "gpu/model/quantized/quantization_config.hpp"
#include "gpu/model/safetensors.hpp"
#include "gpu/networks/network.hpp"

namespace troupe {

// A tensor as it lies in the file: row-major, not necessarily aligned. Valid as
// long as the store. Elements, in the place of the file's bytes, are read
// through WeightElements (gpu/model/weight_elements.hpp).
struct WeightView {
  DataType type = DataType::kF32;  // kF32, kF16 or kBF16; of quantized tensors kF32: they are opened to it
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> bytes;
  std::optional<BlockFormat> blocks = {};  // the bytes' format if they are quantized
  // The first d rows of a head lie in pairs (i, i + d/2); 0: the file has the network's order.
  std::uint32_t paired_rows = 0;

  FileOrder order = FileOrder::kAsRead;  // with shape as the network has it
  std::uint32_t head_dim = 0;            // for kHeadByHead and paired_rows; 0: all rows of a head are paired
  bool alternates = false;               // rows of the first half and of the second take turns
  // MXFP4 as Hugging Face has it, if not empty: a block's scale is a byte here, and byte t of its 16 has the
  // elements 2t and 2t + 1.
  std::span<const std::byte> scales = {};
  // Not null: elements are to be read there, bytes are its codes only. blocks: those that it can be read in.
  std::shared_ptr<const PackedTensor> packed = {};

  // Where the network's row is in the file. Elements of a vector count as rows.
  std::uint64_t row_in_file(std::uint64_t row) const;
  // The file's precision in a plain type: networks of quantized weights compute in bf16
  // where they have a choice.
  DataType natural_type() const { return blocks || packed ? DataType::kBF16 : type; }
};

// Runs a function for each of so many tasks, at once if it can.
using RunTasks = std::function<void(std::size_t num_tasks, const std::function<void(std::size_t)>&)>;
void run_in_turn(std::size_t num_tasks, const std::function<void(std::size_t)>& task);

// A file of a model's weights.
struct WeightFile {
  std::filesystem::path path;
  std::uint64_t size_bytes = 0;
};

class WeightStore {
 public:
  // Takes a model directory or a GGUF file. Throws std::runtime_error that names the file
  // and what is wrong with it.
  explicit WeightStore(const std::filesystem::path& model);

  bool is_gguf() const { return gguf_ != nullptr; }
  bool has(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }
  // Throws std::runtime_error if there is no such tensor or its element type
  // is none that networks use.
  WeightView find(std::string_view name) const;

  struct Tensor {
    const MappedFile* file = nullptr;
    std::string element_type;  // as in the file: "BF16", "Q4_K", …
    bool is_readable = false;  // the element type is one that networks use
    WeightView view;
  };
  const std::map<std::string, Tensor, std::less<>>& tensors() const { return tensors_; }
  std::vector<WeightFile> files() const;
  // All that decides of the tensors' values, in a text: identities of the files as they were opened, which
  // of them has which tensor, and how quantized ones are read. No contents.
  std::string identity() const;

  // Throws std::runtime_error naming a file that was changed since it was
  // opened; call it before reading a view and after the last one was read.
  void check_unchanged() const;

 private:
  void add_single(const std::filesystem::path& path);
  void add_shards(const std::filesystem::path& model_dir, const std::filesystem::path& index_path);
  void add_entry(const SafetensorsFile& file, const SafetensorsEntry& entry);
  void split_experts();
  void join_quantized();
  void join_four_bits(const std::string& module, const QuantizationConfig& config);
  void join_fp8(const std::string& module, const QuantizationConfig& config);
  void replace_with_packed(
      const std::string& module, std::string element_type, Tensor tensor,
      const std::function<std::shared_ptr<const PackedTensor>(const RawTensor& codes)>& make);
  RawTensor raw_tensor(const std::string& name) const;
  Tensor joined_blocks(const std::string& name) const;
  void add_gguf(const std::filesystem::path& path);
  void add_unique(const std::string& name, Tensor tensor);
  void add_experts(const std::string& name, std::size_t number_at, const Tensor& stack);
  std::vector<const MappedFile*> mapped_files() const;

  std::filesystem::path model_;
  std::vector<std::unique_ptr<SafetensorsFile>> safetensors_;
  std::unique_ptr<GgufFile> gguf_;  // null: a directory
  QuantizationConfig quantization_;
  std::string shards_;  // of tensors, as the index has them
  std::map<std::string, Tensor, std::less<>> tensors_;
};

// The tensors that make up one weight of a network, in stacking order, their
// shapes checked: a matrix [rows, columns] is stacked by rows, a vector (one
// row) is the concatenation of its sources. Throws std::runtime_error.
std::vector<WeightView> find_sources(const WeightStore& store, const WeightSpec& spec);

// Throws std::runtime_error naming the tensor where a value is infinite or not a
// number: nothing that is computed with it would mean anything. Reads all bytes, in tasks
// of some mebibytes.
void check_finite(const WeightSpec& spec, const std::vector<WeightView>& views,
                  const RunTasks& run_tasks = run_in_turn);

// Hints to the system. read_ahead: the bytes will be read soon; give_memory_back: they are not
// needed any more, and reading them again reads the file again.
void read_ahead(const std::vector<WeightView>& views);
void give_memory_back(const std::vector<WeightView>& views);

// Looks up every weight of the network, so that a directory that lacks one, or has
// more layers than its configuration says, is refused before anything is allocated.
// Other tensors that the network has no use for are no fault: buffers
// (rotary_emb.inv_freq), an lm_head beside tied embeddings, heads of other tasks.
void check_weights(const WeightStore& store, const Network& network);

}  // namespace troupe
