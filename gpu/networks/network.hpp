// SPDX-License-Identifier: Apache-2.0
// A network turns a model's configuration into programs and says which weights
// and sizes they need. One short file a model family implements it. Devices know a
// model by its network alone: no ModelConfig reaches them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/model/model_shapes.hpp"
#include "gpu/program/cell.hpp"
#include "gpu/program/program.hpp"

namespace troupe {

struct ModelConfig;

// Where files have a weight's elements, if not where programs have them.
enum class FileOrder : std::uint8_t {
  kAsRead,
  kTransposed,  // [columns, rows]
  kHeadByHead,  // rows of queries, keys and values, a head's beside each other; programs: all queries first
};

// The products that a matrix is for.
enum class MatrixKind : std::uint8_t {
  kPlain,
  kRouter,   // in f32 whatever others are in: close decisions between experts hang on it
  kExperts,  // ExpertMatmul's: a stack of which each product takes one expert's rows
};

// A weight as programs see it: the rows of one or more tensors of the model's
// files, stacked (query, key and value projections become one matrix).
struct WeightSpec {
  std::string name;                  // in programs
  std::vector<std::string> sources;  // in the files, stacked by rows in this order
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  bool is_matrix = false;                // a Matmul operand: devices may pack it
  MatrixKind kind = MatrixKind::kPlain;  // also of a bias: that of its matrix
  bool is_table = false;                 // rows are looked up: a matrix in the files, even of one row
  std::string other_prefix = {};         // in the files, sources may have it in front of their names
  float added = 0.0F;                    // a vector's elements are those of the files plus this
  FileOrder order = FileOrder::kAsRead;
  // In the files of all sources but the last (of queries and keys, not of values) the first rows of a head
  // lie in pairs (i, i + paired_rows / 2). 0: as order says.
  std::uint32_t paired_rows = 0;
  std::uint32_t head_dim = 0;  // rows of a head, for kHeadByHead and paired_rows
  // A vector of rows of so many, one behind the other, which files may have as a matrix: LFM2's taps of a
  // channel. 0: a vector in the files, too.
  std::uint32_t row_width = 0;
  bool alternates = false;  // in a source's file, rows of its first half and of its second take turns

  bool is_vector() const { return rows == 1 && !is_table && !is_matrix; }
};

class Network {
 public:
  virtual ~Network() = default;
  virtual ModelShapes shapes() const = 0;
  // Layers as the configuration counts them, which weights are held against; shapes() counts those of pages.
  virtual std::uint32_t num_layers() const { return shapes().num_layers; }
  virtual std::vector<CellType> cells() const = 0;  // by CellId
  // None: sequences of pages, or passes over whole inputs.
  virtual std::optional<UnfoldingRule> unfolding() const { return std::nullopt; }
  // Set: its sequences begin with a source, and its cells are one that reads_source() and one that draws.
  virtual std::optional<SourceRule> source() const { return std::nullopt; }
  // The first is the table of the vocabulary.
  virtual std::vector<WeightSpec> weights() const = 0;
  // Prefixes of a layer's number in the names of the files' tensors.
  virtual std::vector<std::string> layer_prefixes() const = 0;
  // compute_type: type of matmul operands (f32, bf16, or f16 where
  // the device has it); everything else is f32. Throws std::runtime_error: there is
  // no such cell, or it does not compute in that type.
  virtual Program build_program(CellId cell, ProgramShape shape, DataType compute_type) const = 0;
};

// For build_program(). Throws std::runtime_error as it does.
void check_program_request(const Network& network, CellId cell, DataType compute_type);

// The programs of all cells, by CellId.
std::vector<Program> build_programs(const Network& network, ProgramShape shape, DataType compute_type);

// Takes a model directory or a GGUF file. Throw std::runtime_error naming the architecture
// if it is not supported, the file if there is something wrong with it.
std::unique_ptr<Network> load_network(const std::filesystem::path& model);
std::unique_ptr<Network> make_network(const ModelConfig& config);

}  // namespace troupe
