// SPDX-License-Identifier: Apache-2.0
// Which cell type an idle worker runs next: Algorithm 1 of BatchMaker (Gao et al., EuroSys
// 2018). Types with a full batch of ready nodes are preferred; else those with ready nodes
// that run nowhere; else any: among these the one of highest priority, which is a later stage.
// The worker then submits several tasks of that type in a row, as long as they are large
// enough.
//
// Two things that the listing leaves open: a type counts only with the nodes that this
// worker may run, those of requests at other workers excluded, so a chosen type always has a batch; and
// a type that was passed over too often goes first, so that a decoder which always has full
// batches does not starve its encoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace troupe {

// A cell type, as one worker sees it.
struct CellLoad {
  std::uint32_t num_ready = 0;      // nodes that this worker may run now
  std::uint32_t max_batch = 1;      // nodes
  std::uint32_t min_batch = 1;      // a second task in a row has at least so many
  std::uint32_t num_in_flight = 0;  // tasks, on any worker
  std::uint8_t priority = 0;
};

// One worker's turns. A value; cells are named by their index.
class CellTurns {
 public:
  // In a row, of others, while a type had ready nodes.
  static constexpr std::uint32_t kMostPassedOver = 8;

  // max_tasks: that are submitted in a row, BatchMaker's MaxTasksToSubmit.
  explicit CellTurns(std::size_t num_cells = 0, std::uint32_t max_tasks = 1)
      : num_passed_over_(num_cells), max_tasks_(max_tasks) {}

  // The type of the next task; nullopt: none has ready nodes. loads: one a type.
  std::optional<std::size_t> next(std::span<const CellLoad> loads) const;
  // A task of that type was submitted.
  void submitted(std::size_t cell, std::span<const CellLoad> loads);

 private:
  friend class Fingerprint;

  std::vector<std::uint32_t> num_passed_over_;
  std::uint32_t max_tasks_ = 1;
  std::optional<std::size_t> last_;  // submitted
  std::uint32_t num_in_row_ = 0;     // of that type
};

}  // namespace troupe
