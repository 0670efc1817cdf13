// SPDX-License-Identifier: Apache-2.0
// The temporaries of all programs of a CPU device share one arena: its chunks
// are those of the largest shape, planned once, so the memory plan's figure is
// an upper bound. Smaller programs are placed in the same chunks; chunks that no
// batch has used for a while give their physical memory back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpu/pages/page_memory.hpp"
#include "gpu/program/planner.hpp"

namespace troupe {

// Bytes of arena that programs of these structures, run one at a time, need up to this shape.
std::uint64_t arena_bytes(std::span<const Program> largest);
inline std::uint64_t arena_bytes(const Program& largest) { return arena_bytes(std::span(&largest, 1)); }

// Not thread-safe: belongs to the executor thread.
class Arena {
 public:
  static constexpr std::uint32_t kIdleBatches = 256;  // then a chunk is released

  explicit Arena(const Program& largest) : Arena(std::span(&largest, 1)) {}
  // For the programs of several cells, one at a time, all planned for the same shape.
  explicit Arena(std::span<const Program> largest);

  // Where each tensor of the program lies. Throws std::runtime_error if the
  // program needs more than the largest one.
  std::vector<Placement> place(const Program& program) const;

  std::byte* address(Placement placement) const {
    return chunks_[placement.chunk].memory.get() + placement.offset;
  }

  // After a batch: notes which chunks it used and releases idle ones.
  void finish_batch(const std::vector<bool>& used_chunks);

  // Fills everything with NaN; for tests.
  void poison();

  std::size_t num_chunks() const { return chunks_.size(); }
  std::uint64_t size_bytes() const;
  std::uint64_t committed_bytes() const;  // of chunks in use lately

 private:
  struct Chunk {
    PageMemory memory;
    std::uint32_t idle_batches = kIdleBatches;  // nothing committed yet
  };

  std::vector<std::uint64_t> chunk_sizes_;
  std::vector<Chunk> chunks_;
  ProgramShape largest_;
};

}  // namespace troupe
