// SPDX-License-Identifier: Apache-2.0
// The disk tier that the options ask for.
#pragma once

#include <cstdint>
#include <memory>

#include "actors/disk_tier.hpp"
#include "app/loading/model_loading.hpp"
#include "store/state_directory.hpp"

namespace troupe {

// KV pages on the disk, given a directory; 0: the options want none, or there is nothing they could pass
// through.
std::uint32_t num_disk_pages(const Options& options, const LoadedModel& model);

// The options ask for a disk tier, which may turn out not to be possible.
bool wants_disk_cache(const Options& options, const StateDirectory* directory);

// Null if none is wanted, there is no directory for it, or nothing it could pass
// through: then the log says why. `directory` must outlive the result.
std::shared_ptr<DiskTier> open_disk_cache(const Options& options, const LoadedModel& model,
                                          const StateDirectory* directory);

}  // namespace troupe
