// SPDX-License-Identifier: Apache-2.0
// Options of the core: what people may set, and what a process has to say of its pages.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gpu/program/cell.hpp"
#include "policy/costs/encoder_costs.hpp"
#include "policy/costs/recompute_cost.hpp"
#include "policy/pages/page_key.hpp"
#include "policy/pages/page_transfer.hpp"
#include "policy/pages/restore_choice.hpp"
#include "policy/serving_settings.hpp"

namespace troupe {

struct PageMapOptions {
  RecomputeCost recompute_cost = {};
  LoadCost load_from_host = {}, load_from_disk = {};
  PageSecret secret = {};  // tells tenants apart
  // The disk tier, if num_disk_pages > 0.
  std::uint32_t num_disk_pages = 0;
  std::uint64_t first_generation = 1;
  PageSecret disk_secret = {};          // instead of secret: tells tenants apart across processes
  std::vector<StoredPage> stored = {};  // by earlier processes
};

struct CoreOptions {
  ServingSettings serving;
  bool shares_workers = false;  // batches are submitted by submit_one() only
  // false: SubmitBatch says what is in a batch and has none, for a simulated device.
  bool makes_batches = true;
  PageMapOptions pages;
  EncoderCosts encoder_costs = {};  // measured before, of an encoder
  // Set: its cells keep rows, and requests are graphs of them (CellCore).
  std::optional<UnfoldingRule> unfolding = {};
  // Set: its sequences begin with a source (EngineCore).
  std::optional<SourceRule> source = {};
  // By cell: the most nodes of a batch, as far as more gain little; empty: any number.
  std::vector<std::uint32_t> max_cell_batches = {};
};

}  // namespace troupe
