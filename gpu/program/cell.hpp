// SPDX-License-Identifier: Apache-2.0
// A cell is a fragment of a network with a batch dimension: what one batch runs.
// Networks declare theirs, devices describe those they run, a batch names one.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

using CellId = std::uint32_t;  // index into Network::cells() and DeviceDescription::cells

// The state that a sequence keeps on the device from one batch to the next.
enum class StateKind : std::uint8_t {
  kNone,   // a slice is a whole sequence
  kPages,  // keys and values in KV pages, the last token in a slot
};

// The result of one slice of a batch.
enum class ResultKind : std::uint8_t {
  kToken,   // BatchResult::tokens
  kVector,  // BatchResult::vectors
};

// The defaults are those of a decoder.
struct CellType {
  std::string name;
  StateKind state = StateKind::kPages;
  ResultKind result = ResultKind::kToken;
  std::uint32_t vector_size = 0;  // kVector: floats a result
  bool operator==(const CellType&) const = default;
};

}  // namespace troupe
