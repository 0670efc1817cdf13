// SPDX-License-Identifier: Apache-2.0
// A cell is a fragment of a network with a batch dimension: what one batch runs.
// Networks declare theirs, devices describe those they run, a batch names one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

using CellId = std::uint32_t;  // index into Network::cells() and DeviceDescription::cells

// The state that a sequence keeps on the device from one batch to the next.
enum class StateKind : std::uint8_t {
  kNone,   // a slice is a whole sequence
  kPages,  // keys and values in KV pages, the last token in a slot
  kRows,   // a slice is one node of a request's graph: it reads rows of the pool and writes one, its slot's
};

// The result of one slice of a batch.
enum class ResultKind : std::uint8_t {
  kToken,   // BatchResult::tokens
  kVector,  // BatchResult::vectors
  kState,   // none but the state it leaves
};

// The defaults are those of a decoder.
struct CellType {
  std::string name;
  StateKind state = StateKind::kPages;
  ResultKind result = ResultKind::kToken;
  std::uint32_t vector_size = 0;  // kVector: floats a result
  // kRows: of the cells that have nodes to run the highest goes first: a later stage.
  std::uint8_t priority = 0;
  bool operator==(const CellType&) const = default;
};

// A cell of pages without a token for a result: it reads a source as a whole and leaves in the
// pages what another cell's attention reads of it.
inline bool reads_source(const CellType& cell) {
  return cell.state == StateKind::kPages && cell.result == ResultKind::kState;
}

// Its slices are whole inputs, of which every token may see every other.
inline bool attends_to_wholes(const CellType& cell) {
  return cell.state == StateKind::kNone || reads_source(cell);
}

// The way from a request to its graph of nodes, for a network whose cells keep rows.
enum class UnfoldingKind : std::uint8_t {
  kChain,         // cell 0 for each token, the drawn ones included
  kEncodeDecode,  // cell 0 for each token of the prompt, then cell 1 for each that is drawn
  kTree,          // the request brings a tree; cell 0 runs words, cell 1 inner nodes
};
struct UnfoldingRule {
  UnfoldingKind kind = UnfoldingKind::kChain;
  std::int32_t source_end = -1;     // kEncodeDecode: a token behind the prompt's; -1: none
  std::int32_t decoder_start = -1;  // so, too: the decoder's first input
  bool attends = false;             // so, too: a step of the decoder reads all states of the encoder
  std::uint32_t max_children = 0;   // kTree: of an inner node, which has as many or fewer
  bool is_exactly_max = false;      // kTree: it has exactly as many
  bool has_inner_words = false;     // kTree: a node with children may have a word, too
  std::int32_t unknown_word = -1;   // kTree: for words that the vocabulary lacks; -1: they are refused
  bool operator==(const UnfoldingRule&) const = default;
};

// The way from a request to a sequence, for an encoder-decoder that keeps pages: cell 0 reads the
// source, which is the prompt, and cell 1 goes on behind it with the first tokens of the answer.
struct SourceRule {
  std::int32_t source_end = -1;             // a token behind the prompt's; -1: none
  std::vector<std::int32_t> answer_begins;  // the decoder's first inputs, at least one
  std::uint32_t max_source = 0;             // tokens that have positions, of the source and of the answer
  std::uint32_t max_answer = 0;
  bool operator==(const SourceRule&) const = default;
};

}  // namespace troupe
